"""Limits are counted in bytes, and hold exactly."""

import pytest

from penstock.kernel.errors import InvalidArgument, LimitExceeded
from penstock.keyspace.core.limits import (
    KEY_BYTES_MAX,
    LEASE_MS_MAX,
    LEASE_MS_MIN,
    OPERATIONS_MAX,
    TRANSACTION_BYTES_MAX,
    VALUE_BYTES_MAX,
    check_key,
    check_lease_ms,
    check_prefix,
    check_transaction,
)
from penstock.keyspace.core.transaction import Compare, DeleteKey, PutKey, ReadKey, Relation, Target, Transaction


def test_a_key_is_counted_in_bytes() -> None:
    assert check_key("ö" * (KEY_BYTES_MAX // 2)) == KEY_BYTES_MAX
    with pytest.raises(LimitExceeded):
        check_key("ö" * (KEY_BYTES_MAX // 2) + "o")
    with pytest.raises(InvalidArgument):
        check_key("")
    assert check_prefix("") == 0


def test_the_whole_transaction_is_counted() -> None:
    half = VALUE_BYTES_MAX // 2
    rest = TRANSACTION_BYTES_MAX - 2 * half - 3 - 9
    compare = Compare("c", Target.VERSION, Relation.EQUAL, 0)  # a byte of key and 8 of operand
    fits = Transaction((compare,), (PutKey("a", b"x" * half), PutKey("b", b"x" * half)), (PutKey("a", b"x" * rest),))
    check_transaction(fits)
    with pytest.raises(LimitExceeded, match="bytes"):
        check_transaction(Transaction(fits.compares, fits.then, (PutKey("a", b"x" * (rest + 1)),)))


def test_branches_are_counted_each_for_itself() -> None:
    many = tuple(PutKey(str(n), b"") for n in range(OPERATIONS_MAX))
    check_transaction(Transaction((), many, many))
    with pytest.raises(LimitExceeded, match="129 otherwise"):
        check_transaction(Transaction((), many, (*many, ReadKey("x"))))


def test_reading_what_is_changed_is_allowed_and_changing_it_twice_is_not() -> None:
    check_transaction(
        Transaction(
            then=(PutKey("a", b""), ReadKey("a"), DeleteKey("b"), DeleteKey("b"), DeleteKey("c", is_prefix=True))
        )
    )
    check_transaction(Transaction(then=(PutKey("a", b""),), otherwise=(DeleteKey("a"),)))
    with pytest.raises(InvalidArgument, match="both puts and deletes 'ab'"):
        check_transaction(Transaction(then=(PutKey("ab", b""), DeleteKey("a", is_prefix=True))))


def test_leases_have_bounds() -> None:
    check_lease_ms(LEASE_MS_MIN)
    check_lease_ms(LEASE_MS_MAX)
    for ttl_ms in (LEASE_MS_MIN - 1, LEASE_MS_MAX + 1):
        with pytest.raises(InvalidArgument):
            check_lease_ms(ttl_ms)
