"""Every error says who is at fault, whether anything was written, and what to do next; and survives the wire."""

import doctest

import msgspec
import pytest

from penstock.kernel import errors
from penstock.kernel.errors import (
    ConnectionLost,
    ErrorRecord,
    Fault,
    InternalError,
    InvalidArgument,
    NotFound,
    Outcome,
    Overloaded,
    PenstockError,
    PreconditionFailed,
    Refused,
    WalPoisoned,
    Written,
    error_from_record,
)


def all_kinds() -> list[type[PenstockError]]:
    kinds: list[type[PenstockError]] = []
    waiting = [PenstockError]
    while waiting:
        kind = waiting.pop()
        kinds.append(kind)
        waiting.extend(k for k in kind.__subclasses__() if k.__module__ == errors.__name__)
    return kinds


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.__name__)
def test_every_kind_crosses_the_wire_unchanged(kind: type[PenstockError]) -> None:
    error = kind("no luck", next_step="penstock errors list", expected=1, actual=[2, 3])
    wire = msgspec.msgpack.encode(error.to_record())
    back = error_from_record(msgspec.msgpack.decode(wire, type=ErrorRecord))
    assert type(back) is kind
    assert back.to_record() == error.to_record()
    assert str(back) == "no luck"


def test_an_unknown_code_keeps_all_it_said() -> None:
    record = ErrorRecord("from-the-future", "too new", Fault.PEER, Written.UNKNOWN, True, "upgrade", {"a": 1})
    back = error_from_record(record)
    assert type(back) is PenstockError
    assert (back.outcome, back.retryable, back.next_step) == (Outcome.INDETERMINATE, True, "upgrade")
    assert back.details == {"a": 1, "code": "from-the-future"}


def test_a_failure_is_told_in_three_parts() -> None:
    error = Refused(
        "shop/orders has 2 of 3 replicas", retryable=True, next_step="penstock journals explain shop/orders"
    )
    assert error.describe() == (
        "refused: shop/orders has 2 of 3 replicas\n"
        "Nothing was written. The same request may succeed later.\n"
        "Next: penstock journals explain shop/orders"
    )
    assert ConnectionLost("the connection broke").describe() == (
        "unknown: the connection broke\nIt may have been written."
    )


@pytest.mark.parametrize(
    ("error", "first"),
    [
        (InvalidArgument("x"), "error: x"),
        (WalPoisoned("x"), "error: x"),
        (InternalError("x"), "error: x"),
        (NotFound("x; nothing was written"), "refused: x"),
        (Overloaded("x"), "unavailable: x"),
        (Overloaded("x", written=Written.UNKNOWN), "unknown: x"),
        (ConnectionLost("x"), "unknown: x"),
    ],
)
def test_the_first_word_names_the_family_and_the_outcome_comes_once(error: PenstockError, first: str) -> None:
    for shows_outcome in (True, False):
        lines = error.describe(shows_outcome=shows_outcome).splitlines()
        assert lines[0] == first
        is_stated = shows_outcome or error.written is Written.UNKNOWN
        assert "".join(lines).count("written") == is_stated


def test_an_instance_may_know_better_than_its_kind() -> None:
    error = Overloaded("queue is full", written=Written.YES, retryable=False)
    assert (error.outcome, error.written, error.retryable) == (Outcome.DEFINITE, Written.YES, False)
    assert Overloaded("queue is full").retryable is True


def test_two_kinds_cannot_share_a_code() -> None:
    with pytest.raises(AssertionError, match="two errors have the code refused"):

        class Copy(PreconditionFailed):
            code = "refused"


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert errors.__doc__ is not None
    for kind in all_kinds():
        assert kind.__name__ in errors.__doc__, kind
        assert kind.__name__ in errors.__all__, kind
    assert list(errors.__all__) == sorted(errors.__all__, key=lambda name: (name[0].islower(), name))


def test_the_examples_hold() -> None:
    assert doctest.testmod(errors).failed == 0
