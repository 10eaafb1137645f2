from tests.quorum.core.cluster import entry_id
from tests.quorum.core.single import E1, E2, I1, A, Single, txn

from penstock.kernel.effects import Effect, Reply, Requested, SetTimer, TimerFired
from penstock.kernel.errors import Overloaded, PreconditionFailed, Unavailable
from penstock.kernel.ids import SECOND, EntryId, Instant, Offset, RequestId
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.reading.reads import QuorumRead
from penstock.quorum.records.effects import Applied, Serve
from penstock.quorum.records.entry import Barrier, Confirm
from penstock.quorum.records.messages import AddEntryRequest, AddEntryResponse
from penstock.quorum.records.state import Comparison, NodeState


def read(single: Single, request: int, after: EntryId | None = None) -> list[Effect]:
    body = QuorumRead(is_linearizable=False) if after is None else QuorumRead(is_linearizable=False, after=after)
    return single.step(Requested(RequestId(request), body))


def errors(effects: list[Effect]) -> list[tuple[int, type]]:
    return [(effect.request, type(effect.result)) for effect in effects if isinstance(effect, Reply)]


def test_a_node_shows_what_it_has_applied() -> None:
    single = Single()
    single.lead_in_peace()
    assert Serve((RequestId(7),), Offset(2)) in read(single, 7)


def test_after_a_restart_nothing_is_shown_before_the_new_epochs_barrier_is_applied() -> None:
    entries = (Barrier(E1), txn("x", 1), Confirm(E1, Offset(2)))
    single = Single(entries, state=NodeState(A, E1, is_formatted=True))
    assert single.node.replica.applied == 2
    assert read(single, 7) == [SetTimer("local-reads", Instant(5 * SECOND))]
    single.hear("B", AddEntryRequest(E2, I1, entry_id(1, 3), (Barrier(E2), Confirm(E2, Offset(4)))))
    single.save()
    single.sync()
    assert single.apply() == [Serve((RequestId(7),), Offset(4))]


def test_a_read_waits_for_its_own_async_write() -> None:
    single = Single()
    single.lead_in_peace()
    single.append("a", is_sync=False)
    single.sync()
    read(single, 7, entry_id(1, 3))
    assert Serve((RequestId(7),), Offset(2)) not in single.last
    single.ack("B", 1, 3)
    assert single.apply()[0] == Serve((RequestId(7),), Offset(3))


def test_a_read_hears_that_its_write_was_lost() -> None:
    single = Single()
    single.lead_in_peace()
    assert errors(read(single, 7, entry_id(0, 1))) == [(7, PreconditionFailed)]


def test_a_read_which_waits_too_long_ends() -> None:
    single = Single()
    single.lead_in_peace()
    read(single, 7, entry_id(1, 99))
    single.now = Instant(SECOND)
    read(single, 8, entry_id(1, 99))
    single.now = Instant(5 * SECOND)
    assert single.step(TimerFired("local-reads"))[0] == single.last[0]
    assert errors(single.last) == [(7, Unavailable)]
    assert SetTimer("local-reads", Instant(6 * SECOND)) in single.last


def test_there_is_room_for_so_many() -> None:
    single = Single(config=NodeConfig(reads_max=1))
    single.lead_in_peace()
    read(single, 7, entry_id(1, 99))
    assert errors(read(single, 8, entry_id(1, 99))) == [(8, Overloaded)]


def test_a_diverged_replica_shows_nothing() -> None:
    single = Single()
    single.lead_in_peace()
    single.append("x")
    single.sync()
    single.ack("B", 1, 3)
    single.step(Applied(Offset(3), (1,), 5, (Comparison(Offset(2), E1, 4, 5),)))
    assert errors(read(single, 7)) == [], "nobody knows yet who is wrong: it waits"
    for name in "BC":
        single.hear(name, AddEntryResponse(E1, I1, entry_id(1, 3), checked=Offset(2), checksum=4))
    assert single.node.divergence == Comparison(Offset(2), E1, 4, 5)
    assert errors(read(single, 8)) == [(8, Unavailable)]
