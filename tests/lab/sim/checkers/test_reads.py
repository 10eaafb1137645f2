"""The linearizability check is exact: it says what a search over all orders says."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.sim.checkers.scene import Scene, barrier, entry_id, txn

from penstock.kernel.ids import NO_ENTRY, NodeId, RequestId
from penstock_lab.sim.checkers.history import HistoryRead
from penstock_lab.sim.checkers.reads import FOREVER, Interval, check_linearizable

Reads = list[tuple[int, Interval]]


def is_linearizable(order: list[bytes], writes: dict[bytes, Interval], reads: Reads) -> bool:
    try:
        check_linearizable(b"k", order, writes, reads)
    except AssertionError:
        return False
    return True


def search(order: list[bytes], writes: dict[bytes, Interval], reads: Reads) -> bool:
    """Wing and Gong without haste: some order of all operations which respects time and gives every read its list."""
    operations = [(value, *writes[value]) for value in order] + [(length, *interval) for length, interval in reads]
    for candidate in permutations(operations):
        seen: list[bytes] = []
        is_right = True
        for what, _, _ in candidate:
            if isinstance(what, bytes):
                seen.append(what)
            elif what != len(seen):
                is_right = False
                break
        in_time = all(
            earlier[1] <= later[2] for at, later in enumerate(candidate) for earlier in candidate[:at]
        )  # no answer comes before an earlier operation has called
        if is_right and seen == order and in_time:
            return True
    return False


intervals = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda pair: (min(pair), max(pair)))


@given(st.lists(intervals, max_size=3), st.lists(st.tuples(st.integers(0, 3), intervals), max_size=3), st.booleans())
def test_the_check_is_exact(writes: list[Interval], reads: Reads, is_lost: bool) -> None:
    order = [b"%d" % number for number in range(len(writes))]
    known = dict(zip(order, writes, strict=True))
    if is_lost and order:
        known[order[0]] = (known[order[0]][0], FOREVER)  # its answer never came
    reads = [read for read in reads if read[0] <= len(order)]
    assert is_linearizable(order, known, reads) == search(order, known, reads)


def test_a_stale_read_is_seen() -> None:
    writes = {b"x": (0, 10)}
    assert is_linearizable([b"x"], writes, [(0, (5, 6)), (1, (8, 9))])
    assert not is_linearizable([b"x"], writes, [(0, (11, 12))]), "it was answered before the read came"
    assert not is_linearizable([b"x"], writes, [(1, (1, 2)), (0, (3, 4))]), "a later read sees less"


def test_a_node_never_shows_less_than_before() -> None:
    scene = Scene()
    scene.checks.book.claim("a", scene.hold("a", barrier(1), txn(1, 1), txn(1, 2)).log, 3)

    def read(applied: int, *values: bytes, after: object = NO_ENTRY) -> HistoryRead:
        made = HistoryRead(RequestId(1), b"k", False, after, NodeId("a"))  # type: ignore[arg-type]
        made.applied, made.values = applied, values
        return made

    checker = scene.checks.reads
    checker.served(scene["a"], read(3, b"c.1", b"c.2", after=entry_id(1, 2)))
    with pytest.raises(AssertionError, match=r"I11.*has shown 3 before"):
        checker.served(scene["a"], read(2, b"c.1"))
    with pytest.raises(AssertionError, match="I24"):
        checker.served(scene["b"], read(3, b"c.1"))
    with pytest.raises(AssertionError, match="does not see"):
        checker.served(scene["b"], read(2, b"c.1", after=entry_id(1, 3)))
