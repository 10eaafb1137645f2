"""The checker itself: it accepts what some order explains, and rejects what none does."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st
from tests.integration.linearizability import FOREVER, Operation, is_linearizable


def put(began: float, ended: float, value: bytes) -> Operation:
    return Operation("put", began, ended, argument=value)


def get(began: float, ended: float, result: bytes | None) -> Operation:
    return Operation("get", began, ended, result=result)


def test_a_sequential_history_is_linearizable() -> None:
    assert is_linearizable([put(0, 1, b"a"), get(2, 3, b"a"), put(4, 5, b"b"), get(6, 7, b"b")])
    assert is_linearizable([])


def test_a_stale_read_is_rejected() -> None:
    assert not is_linearizable([put(0, 1, b"a"), put(2, 3, b"b"), get(4, 5, b"a")])


def test_a_read_beside_a_write_may_see_either() -> None:
    assert is_linearizable([put(0, 1, b"a"), put(2, 6, b"b"), get(3, 4, b"a")])
    assert is_linearizable([put(0, 1, b"a"), put(2, 6, b"b"), get(3, 4, b"b")])


def test_reads_must_not_go_back() -> None:
    assert not is_linearizable([put(0, 1, b"a"), put(2, 9, b"b"), get(3, 4, b"b"), get(5, 6, b"a")])


def test_an_unknown_write_may_happen_late_or_never() -> None:
    lost = put(0, FOREVER, b"x")
    assert is_linearizable([lost, get(1, 2, None), get(3, 4, b"x")])
    assert is_linearizable([lost, get(1, 2, None)])
    assert not is_linearizable([lost, get(1, 2, b"x"), get(3, 4, None)])


def test_compare_and_set_succeeds_once() -> None:
    def cas(began: float, ended: float, expected: bytes | None, new: bytes, result: bool) -> Operation:
        return Operation("cas", began, ended, argument=new, expected=expected, result=result)

    assert is_linearizable([cas(0, 5, None, b"a", True), cas(0, 5, None, b"b", False)])
    assert not is_linearizable([cas(0, 5, None, b"a", True), cas(0, 5, None, b"b", True)])


operations = st.lists(
    st.builds(
        lambda kind, began, length, value: Operation(
            "put" if kind else "get", began, began + length, argument=value, result=value
        ),
        st.booleans(),
        st.integers(0, 6),
        st.integers(0, 4),
        st.sampled_from([b"a", b"b"]),
    ),
    max_size=5,
)


@given(operations)
def test_it_agrees_with_trying_every_order(history: list[Operation]) -> None:
    def explains(order: tuple[Operation, ...]) -> bool:
        value: bytes | None = None
        for at, each in enumerate(order):
            if any(later.ended < each.began for later in order[at + 1 :]):
                return False
            fits, value = each.apply(value)
            if not fits:
                return False
        return True

    assert is_linearizable(history) == any(map(explains, permutations(history)))
