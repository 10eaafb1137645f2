"""What a key, a value and a transaction may be. The same for every backend, so that what works on one works on all.

The figures stay below etcd's defaults: a request of 1.5 MiB and 128 operations.
"""

from collections.abc import Sequence
from typing import Final

from penstock.kernel.errors import InvalidArgument, LimitExceeded
from penstock.keyspace.core.transaction import DeleteKey, Operation, PutKey, ReadKey, Transaction

__all__ = [
    "KEY_BYTES_MAX",
    "LEASE_MS_MAX",
    "LEASE_MS_MIN",
    "OPERATIONS_MAX",
    "TRANSACTION_BYTES_MAX",
    "VALUE_BYTES_MAX",
    "check_key",
    "check_lease_ms",
    "check_prefix",
    "check_transaction",
]

KEY_BYTES_MAX: Final = 2_048
VALUE_BYTES_MAX: Final = 1 << 20
TRANSACTION_BYTES_MAX: Final = (1 << 20) + (256 << 10)
OPERATIONS_MAX: Final = 128  # of compares, of `then`, of `otherwise`
LEASE_MS_MIN: Final = 100
LEASE_MS_MAX: Final = 24 * 3_600_000


def check_key(key: str) -> int:
    """Refuse what cannot be a key; return its size in bytes."""
    if not key:
        raise InvalidArgument("a key must not be empty")
    return check_prefix(key)


def check_prefix(prefix: str) -> int:
    """Refuse what cannot begin a key. The empty prefix is every key."""
    try:
        size = len(prefix.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(f"key {prefix!r} has a lone surrogate: it cannot be written as UTF-8") from None
    if "\0" in prefix:
        raise InvalidArgument(f"key {prefix!r} has a NUL")
    if size > KEY_BYTES_MAX:
        raise LimitExceeded(f"a key of {size} bytes: at most {KEY_BYTES_MAX} are allowed", key=prefix[:64])
    return size


def check_lease_ms(ttl_ms: int) -> None:
    if not LEASE_MS_MIN <= ttl_ms <= LEASE_MS_MAX:
        raise InvalidArgument(f"a lease of {ttl_ms} ms: it must have {LEASE_MS_MIN} to {LEASE_MS_MAX} ms")


def check_transaction(transaction: Transaction) -> None:
    """Refuse what no KeySpace would run: too much of it, or two operations of one branch which change one key."""
    size = 0
    for compare in transaction.compares:
        operand = compare.operand
        size += check_key(compare.key) + (len(operand) if isinstance(operand, bytes) else 8)
    for name, branch in (("then", transaction.then), ("otherwise", transaction.otherwise)):
        size += sum(map(_check_operation, branch))
        _check_count(name, branch)
        _check_overlap(branch)
    _check_count("compares", transaction.compares)
    if size > TRANSACTION_BYTES_MAX:
        raise LimitExceeded(f"a transaction of {size} bytes: at most {TRANSACTION_BYTES_MAX} are allowed")


def _check_operation(operation: Operation) -> int:
    match operation:
        case PutKey(key, value):
            if len(value) > VALUE_BYTES_MAX:
                raise LimitExceeded(
                    f"a value of {len(value)} bytes for {key!r}: at most {VALUE_BYTES_MAX} are allowed", key=key
                )
            return check_key(key) + len(value)
        case ReadKey(key, is_prefix) | DeleteKey(key, is_prefix):
            return check_prefix(key) if is_prefix else check_key(key)


def _check_count(name: str, items: Sequence[object]) -> None:
    if len(items) > OPERATIONS_MAX:
        raise LimitExceeded(f"{len(items)} {name} in one transaction: at most {OPERATIONS_MAX} are allowed")


def _check_overlap(branch: Sequence[Operation]) -> None:
    """Check that a branch changes no key twice: one revision has one change per key."""
    puts: dict[str, None] = {}
    for operation in branch:
        if isinstance(operation, PutKey):
            if operation.key in puts:
                raise InvalidArgument(f"one transaction puts {operation.key!r} twice")
            puts[operation.key] = None
    for operation in branch:
        if isinstance(operation, DeleteKey):
            hit = next((key for key in puts if operation.covers(key)), None)
            if hit is not None:
                raise InvalidArgument(f"one transaction both puts and deletes {hit!r}")
