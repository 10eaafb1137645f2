"""The KeySpace as a machine: time by ticks, snapshots, bounds, and refusals without words."""

from typing import TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.errors import Compacted, InvalidArgument, LeaseExpired, LimitExceeded, PreconditionFailed
from penstock.kernel.ids import MILLISECOND, EntryId, Epoch, Instant, Offset, Revision
from penstock.keyspace.core.records import KeySpaceStatus, Lease, LeaseId, LeaseStatus, WatchBatch
from penstock.keyspace.core.transaction import Operation, PutKey, ReadKey, Transaction, TransactOutcome
from penstock.quorum.core.machines import keyspace_machine
from penstock.quorum.core.machines.keyspace_machine import SLACK_MS, KeySpaceMachine
from penstock.quorum.core.machines.lease_ticks import TICK_EVERY_NS, LeaseTicks
from penstock.quorum.core.machines.state_machine import Applier
from penstock.quorum.records.effects import Apply
from penstock.quorum.records.entry import ClientId, Txn
from penstock.quorum.records.keyspace import (
    KEYSPACE_OP,
    KEYSPACE_QUERY,
    Compact,
    DoneAt,
    EntryAt,
    FoundKeySpace,
    GetKey,
    Grant,
    KeepAlive,
    KeySpaceOp,
    LeaseQuery,
    LeaseTick,
    RangePart,
    RangeQuery,
    Revoke,
    RunTransaction,
    StatusQuery,
    WatchQuery,
    decode_answer,
)

T = TypeVar("T")


class Run:
    """A machine, and the log that it applies."""

    def __init__(self, machine: KeySpaceMachine | None = None) -> None:
        self.machine = machine or KeySpaceMachine()
        self.offset = 0

    def do(self, kind: type[T], op: KeySpaceOp, epoch: int = 1) -> T:
        self.offset += 1
        entry = EntryId(Epoch(epoch), Offset(self.offset))
        return decode_answer(kind, self.machine.apply(entry, KEYSPACE_OP.encode(op)))

    def put(self, *operations: Operation) -> TransactOutcome:
        return self.do(TransactOutcome, RunTransaction(Transaction(then=operations)))

    def tick(self, ms: int, epoch: int = 1) -> None:
        self.do(DoneAt, LeaseTick(ms), epoch)

    def status(self, lease: LeaseId) -> LeaseStatus:
        return decode_answer(LeaseStatus, self.machine.query(KEYSPACE_QUERY.encode(LeaseQuery(lease))))


def test_time_moves_by_ticks_and_the_first_of_an_epoch_moves_it_by_nothing() -> None:
    run = Run()
    for epoch, ms, now in ((1, 400, 0), (1, 250, 250), (2, 400, 250), (2, 250, 500), (1, 9, 500), (1, 10_000, 1_000)):
        run.tick(ms, epoch)
        assert run.machine.now == now * MILLISECOND, (epoch, ms)
    run.tick(-5, 1)
    assert run.machine.now == 1_000 * MILLISECOND


def test_a_lease_has_slack_and_a_holder_may_renew_after_a_pause() -> None:
    run = Run()
    run.tick(0)
    lease = run.do(Lease, Grant(1_000))
    run.put(PutKey("a", b"", lease.id))
    for _ in range(5):
        run.tick(250)
    assert run.status(lease.id).remaining_ms == SLACK_MS - 250
    run.tick(3_600_000)  # a leader that was frozen for an hour: the tick is capped, and here that ends the lease
    with pytest.raises(LeaseExpired):
        run.status(lease.id)
    held = run.do(Lease, Grant(1_000))
    run.tick(3_600_000)
    assert run.do(Lease, KeepAlive(held.id)) == held, "its holder renews at once after the pause"
    assert run.status(held.id).remaining_ms == 1_000


def test_a_lease_is_never_early_by_the_clock_of_its_holder() -> None:
    """The renewal comes right before a tick that tells of the time before it."""
    ticks, run, now = LeaseTicks(), Run(), 0

    def step(ms: int) -> None:
        nonlocal now
        now += ms
        tick = ticks.due(Instant(now * MILLISECOND), Epoch(1), is_wanted=True)
        if tick is not None:
            run.do(DoneAt, tick)
            ticks.answered()

    step(0)
    lease = run.do(Lease, Grant(100))
    step(249)
    run.do(Lease, KeepAlive(lease.id))
    step(1)
    for _ in range(100):
        step(1)
        assert run.status(lease.id).remaining_ms > 0


def test_ticks_tell_the_time_since_the_one_before_and_wait_for_its_answer() -> None:
    ticks = LeaseTicks()

    def due(ms: int, epoch: int | None = 1, *, is_wanted: bool = True) -> int | None:
        tick = ticks.due(Instant(ms * MILLISECOND), Epoch(epoch) if epoch else None, is_wanted=is_wanted)
        return tick.ms if tick is not None else None

    assert (due(1_000), due(1_300)) == (0, None), "one at a time"
    ticks.answered()
    assert (due(1_240), due(1_300)) == (None, 300)
    ticks.answered()
    assert due(1_600, None) is None
    assert due(9_000) == 0, "it led no more for a while"
    assert due(9_001, 2) == 0, "another epoch does not wait for the answer to the tick of the last one"
    ticks.answered()
    assert due(9_100, 2, is_wanted=False) is None
    assert due(9_999, 2) == 0, "the time before the first lease is nobody's"
    assert TICK_EVERY_NS == 250 * MILLISECOND


def test_refusals_are_the_errors_of_the_port() -> None:
    run = Run()
    run.put(PutKey("a", b"1"))
    run.put(PutKey("a", b"2"))
    run.do(DoneAt, Compact(Revision(3)))
    with pytest.raises(LeaseExpired, match="lease 7 does not exist"):
        run.do(Lease, KeepAlive(LeaseId(7)))
    with pytest.raises(LeaseExpired):
        run.do(DoneAt, Revoke(LeaseId(7)))
    with pytest.raises(PreconditionFailed, match="at 3"):
        run.do(DoneAt, Compact(Revision(9)))
    with pytest.raises(InvalidArgument):
        run.do(Lease, Grant(1))
    with pytest.raises(InvalidArgument):
        run.put(PutKey("", b""))
    with pytest.raises(Compacted):
        decode_answer(EntryAt, run.machine.query(KEYSPACE_QUERY.encode(GetKey("a", Revision(1)))))
    for bad in (b"", b"\xc1", msgspec.msgpack.encode(["unknown", 1])):
        with pytest.raises(InvalidArgument):
            decode_answer(DoneAt, run.machine.apply(EntryId(Epoch(1), Offset(99)), bad))
        with pytest.raises(InvalidArgument):
            decode_answer(DoneAt, run.machine.query(bad))
        found = run.machine.changes(bad, 0)
        assert found is not None
        with pytest.raises(InvalidArgument):
            decode_answer(WatchBatch, found[1])
    assert run.machine.store.revision == 3


def test_every_bound_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyspace_machine, "HISTORY_REVISIONS", 5)
    monkeypatch.setattr(keyspace_machine, "HISTORY_BYTES_MAX", 2_000)
    monkeypatch.setattr(keyspace_machine, "LIVE_BYTES_MAX", 5_000)
    monkeypatch.setattr(keyspace_machine, "ANSWER_BYTES_MAX", 2_500)
    run = Run()
    for number in range(30):
        run.put(PutKey("a", b"%d" % number))
        assert run.machine.store.revision - run.machine.store.compacted <= 10
    for number in range(10):
        run.put(PutKey("b", bytes(500 + number)))
        assert run.machine.store.history_bytes <= 2_000
    run.put(PutKey("c/1", bytes(1_000)), PutKey("c/2", bytes(1_000)))
    with pytest.raises(LimitExceeded, match="the KeySpace is full"):
        run.put(PutKey("c/3", bytes(3_000)))
    run.put(PutKey("c/3", bytes(900)))
    with pytest.raises(LimitExceeded, match="more than one answer holds"):
        run.put(PutKey("d", b""), ReadKey("c/", is_prefix=True))
    run.machine.store.check()
    assert run.machine.store.get("d") is None, "refused as a whole"


def test_pages_and_batches_of_a_watch_are_cut_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyspace_machine, "PAGE_BYTES", 300)
    monkeypatch.setattr(keyspace_machine, "BATCH_BYTES", 300)
    run = Run()
    for number in range(20):
        run.put(PutKey(f"k/{number:02}", b"x" * 50), PutKey(f"l/{number:02}", b""))
    page, keys = RangePart, list[str]()
    after, is_last = "", False
    while not is_last:
        found = decode_answer(page, run.machine.query(KEYSPACE_QUERY.encode(RangeQuery("k/", after, Revision(20)))))
        assert 0 < len(found.snapshot.entries) <= 3
        keys += [entry.key for entry in found.snapshot.entries]
        after, is_last = keys[-1], found.is_last
    assert keys == [f"k/{number:02}" for number in range(19)], "at revision 20, one put was still to come"
    shown, position = list[str](), 1
    while (part := run.machine.changes(KEYSPACE_QUERY.encode(WatchQuery("k/")), position)) is not None:
        position = part[0]
        batch = decode_answer(WatchBatch, part[1])
        assert batch.revision == position
        shown += [change.key for change in batch.changes]
    assert shown == [f"k/{number:02}" for number in range(20)]
    assert position == run.machine.store.revision


def test_the_first_identity_stays() -> None:
    run = Run()
    assert decode_answer(KeySpaceStatus, run.machine.query(KEYSPACE_QUERY.encode(StatusQuery()))).store_id == ""
    assert run.do(KeySpaceStatus, FoundKeySpace("one")).store_id == "one"
    assert run.do(KeySpaceStatus, FoundKeySpace("two")).store_id == "one"


OPS = st.one_of(
    st.builds(
        lambda key, value, lease: RunTransaction(Transaction(then=(PutKey(key, value, LeaseId(lease)),))),
        st.sampled_from("abc"),
        st.binary(max_size=4),
        st.integers(0, 2),
    ),
    st.builds(Grant, st.sampled_from([100, 300])),
    st.builds(KeepAlive, st.builds(LeaseId, st.integers(1, 3))),
    st.builds(Revoke, st.builds(LeaseId, st.integers(1, 3))),
    st.builds(LeaseTick, st.integers(0, 600)),
    st.builds(Compact, st.builds(Revision, st.integers(0, 6))),
)


@given(st.lists(st.tuples(OPS, st.integers(1, 2)), max_size=30), st.integers(0, 30))
@settings(max_examples=150)
def test_a_replica_from_a_snapshot_continues_as_the_others_do(ops: list[tuple[KeySpaceOp, int]], at: int) -> None:
    """The snapshot is encoded after more was applied, as the thread that writes it does."""
    one, frozen = Applier(KeySpaceMachine()), None
    txns = [Txn(Epoch(epoch), ClientId("c"), seq, KEYSPACE_OP.encode(op)) for seq, (op, epoch) in enumerate(ops, 1)]
    for offset, txn in enumerate(txns, 1):
        if offset == at + 1:
            frozen = one.freeze()
        one.apply(Apply(Offset(offset), (txn,)))
    if frozen is None:
        return
    other = Applier(KeySpaceMachine())
    other.restore(frozen())
    results = other.apply(Apply(Offset(at + 1), tuple(txns[at:])))
    assert (other.checksum, other.snapshot()) == (one.checksum, one.snapshot())
    assert len(results.results) == len(txns) - at
    assert isinstance(other.machine, KeySpaceMachine)
    other.machine.store.check()
