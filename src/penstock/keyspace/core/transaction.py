"""Transactions: compares, and what to do when they all hold, or else. The one way to change the KeySpace.

A transaction is linearizable and atomic: it sees the newest state, and all its changes have one revision. A failed
compare is an outcome, not an error. `execute` is its meaning in code; the embedded and the simulated KeySpace run it,
and the behaviour suite holds etcd to it.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Protocol

import msgspec

from penstock.kernel.errors import LeaseExpired
from penstock.kernel.ids import Revision
from penstock.keyspace.core.records import NO_LEASE, NO_REVISION, KeyValue, LeaseId

__all__ = [
    "Compare",
    "DeleteKey",
    "Execution",
    "KeyView",
    "Operation",
    "PutKey",
    "ReadKey",
    "Relation",
    "Target",
    "TransactOutcome",
    "Transaction",
    "execute",
    "is_absent",
    "is_at",
    "is_present",
    "is_unchanged",
]


class Target(Enum):
    """What of a key is compared. A key that does not exist has 0 for each, but no value."""

    CREATE_REVISION = "create_revision"
    MOD_REVISION = "mod_revision"
    VERSION = "version"
    VALUE = "value"
    LEASE = "lease"


class Relation(Enum):
    """How it must compare with the operand."""

    EQUAL = "="
    NOT_EQUAL = "!="
    GREATER = ">"
    LESS = "<"


class Compare(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A condition on one key. On the value of a key that does not exist no relation holds, not even NOT_EQUAL."""

    key: str
    target: Target
    relation: Relation
    operand: int | bytes  # bytes for VALUE, else int

    def __post_init__(self) -> None:
        if isinstance(self.operand, bytes) is not (self.target is Target.VALUE):
            raise TypeError(f"{self.target.value} is not compared with {self.operand!r}")


def is_absent(key: str) -> Compare:
    return Compare(key, Target.VERSION, Relation.EQUAL, 0)


def is_present(key: str) -> Compare:
    return Compare(key, Target.VERSION, Relation.GREATER, 0)


def is_at(key: str, mod_revision: Revision) -> Compare:
    """The key was last changed by that transaction; NO_REVISION: it does not exist."""
    return Compare(key, Target.MOD_REVISION, Relation.EQUAL, mod_revision)


def is_unchanged(entry: KeyValue) -> Compare:
    """The key still is as it was read."""
    return is_at(entry.key, entry.mod_revision)


class ReadKey(msgspec.Struct, frozen=True, gc=False, tag="get", array_like=True):
    """Read a key, or all keys under a prefix, as the operations before this one left them."""

    key: str
    is_prefix: bool = False

    def covers(self, key: str) -> bool:
        return key.startswith(self.key) if self.is_prefix else key == self.key


class PutKey(msgspec.Struct, frozen=True, gc=False, tag="put", array_like=True):
    """Give a key a value, and hang it on a lease or on none."""

    key: str
    value: bytes
    lease: LeaseId = NO_LEASE


class DeleteKey(msgspec.Struct, frozen=True, gc=False, tag="delete", array_like=True):
    """Remove a key, or all keys under a prefix. What does not exist is no error and no change."""

    key: str
    is_prefix: bool = False

    def covers(self, key: str) -> bool:
        return key.startswith(self.key) if self.is_prefix else key == self.key


Operation = ReadKey | PutKey | DeleteKey


class Transaction(msgspec.Struct, frozen=True, array_like=True):
    """If all compares hold: `then`, in order; else `otherwise`, in order."""

    compares: tuple[Compare, ...] = ()
    then: tuple[Operation, ...] = ()
    otherwise: tuple[Operation, ...] = ()


class TransactOutcome(msgspec.Struct, frozen=True, array_like=True):
    """What a transaction did."""

    succeeded: bool  # whether all compares held
    revision: Revision  # of the KeySpace right after it: its own, if it changed anything
    results: tuple[tuple[KeyValue, ...], ...]  # per operation: what a Get found, a Put replaced, a Delete removed


class KeyView(Protocol):
    """The present state, as a transaction reads it."""

    def get(self, key: str) -> KeyValue | None: ...

    def range(self, prefix: str) -> Iterable[KeyValue]:
        """Every key under the prefix, in any order."""
        ...

    def has_lease(self, lease: LeaseId) -> bool: ...


class Execution(msgspec.Struct, frozen=True):
    """What a transaction would do to a view: nothing has happened yet."""

    succeeded: bool
    writes: dict[str, KeyValue | None]  # None: removed
    results: tuple[tuple[KeyValue, ...], ...]


def execute(transaction: Transaction, view: KeyView, next_revision: Revision) -> Execution:
    """Run a transaction which passed `check_transaction`; its writes get `next_revision`."""
    succeeded = all(_holds(compare, view.get(compare.key)) for compare in transaction.compares)
    branch = transaction.then if succeeded else transaction.otherwise
    _check_leases(branch, view)
    writes: dict[str, KeyValue | None] = {}
    results = tuple([_run(operation, view, writes, next_revision) for operation in branch])
    return Execution(succeeded, writes, results)


_RELATIONS: dict[Relation, Callable[[int | bytes, int | bytes], bool]] = {
    Relation.EQUAL: lambda a, b: a == b,
    Relation.NOT_EQUAL: lambda a, b: a != b,
    Relation.GREATER: lambda a, b: a > b,  # type: ignore[operator]
    Relation.LESS: lambda a, b: a < b,  # type: ignore[operator]
}


def _holds(compare: Compare, entry: KeyValue | None) -> bool:
    if entry is not None:
        actual: int | bytes = getattr(entry, compare.target.value)
    elif compare.target is Target.VALUE:
        return False
    else:
        actual = 0
    return _RELATIONS[compare.relation](actual, compare.operand)


def _check_leases(branch: Sequence[Operation], view: KeyView) -> None:
    for operation in branch:
        if isinstance(operation, PutKey) and operation.lease != NO_LEASE and not view.has_lease(operation.lease):
            raise LeaseExpired(f"lease {operation.lease:x} does not exist any more", lease=operation.lease)


def _run(
    operation: Operation, view: KeyView, writes: dict[str, KeyValue | None], revision: Revision
) -> tuple[KeyValue, ...]:
    match operation:
        case PutKey(key, value, lease):
            before = _read(key, view, writes)
            create_revision = revision if before is None else before.create_revision
            version = 1 if before is None else before.version + 1
            writes[key] = KeyValue(key, value, create_revision, revision, version, lease)
            return () if before is None else (before,)
        case ReadKey():
            return _find(operation, view, writes)
        case DeleteKey():
            found = _find(operation, view, writes)
            writes.update((entry.key, None) for entry in found)
            return found


def _read(key: str, view: KeyView, writes: dict[str, KeyValue | None]) -> KeyValue | None:
    return writes[key] if key in writes else view.get(key)


def _find(operation: ReadKey | DeleteKey, view: KeyView, writes: dict[str, KeyValue | None]) -> tuple[KeyValue, ...]:
    if not operation.is_prefix:
        entry = _read(operation.key, view, writes)
        return () if entry is None else (entry,)
    found: dict[str, KeyValue | None] = {entry.key: entry for entry in view.range(operation.key)}
    found.update((key, entry) for key, entry in writes.items() if operation.covers(key))
    return tuple(entry for _, entry in sorted(found.items()) if entry is not None)


assert NO_REVISION == 0, "a missing key compares as 0"
