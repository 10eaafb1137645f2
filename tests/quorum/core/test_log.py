import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.kernel.errors import WalCorrupt
from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, Offset
from penstock.quorum.core.log import Log, cut_to_bytes
from penstock.quorum.records.entry import Barrier, ClientId, Confirm, Entry, Rollback, Txn
from penstock.quorum.records.state import NO_SNAPSHOT, SnapshotMeta

E1, E2, E3 = Epoch(1), Epoch(2), Epoch(3)


def txn(epoch: int, value: str = "x") -> Txn:
    return Txn(Epoch(epoch), ClientId("c"), 0, value.encode())


def log_of(*entries: Entry, snapshot: SnapshotMeta = NO_SNAPSHOT, confirmed: int = 0) -> Log:
    log = Log(snapshot, Offset(confirmed), 1 << 20)
    log.append(entries)
    log.made_durable(log.end)
    log.check()
    return log


def id_(epoch: int, offset: int) -> EntryId:
    return EntryId(Epoch(epoch), Offset(offset))


THREE_EPOCHS = (Barrier(E1), txn(1), Barrier(E2), txn(2), txn(2), Barrier(E3))


def test_ids_and_epochs() -> None:
    log = log_of(*THREE_EPOCHS)
    assert log.head == id_(3, 6)
    assert [log.epoch_at(Offset(offset)) for offset in range(8)] == [0, 1, 1, 2, 2, 2, 3, 0]
    assert [log.barrier(Epoch(epoch)) for epoch in range(5)] == [None, 1, 3, 6, None]
    assert log.holds(id_(2, 4))
    assert log.holds(NO_ENTRY)
    assert not log.holds(id_(1, 3))
    assert not log.holds(id_(3, 7))


def test_how_far_a_log_of_an_epoch_can_agree() -> None:
    log = log_of(Barrier(E1), txn(1), Barrier(E3), txn(3))
    assert log.highest_not_above(Epoch(0)) == NO_ENTRY
    assert log.highest_not_above(E1) == id_(1, 2)
    assert log.highest_not_above(E2) == id_(1, 2)
    assert log.highest_not_above(E3) == id_(3, 4)
    assert log.highest_not_above(Epoch(9)) == id_(3, 4)


def test_landing_is_outside_every_doomed_range() -> None:
    log = log_of(Barrier(E1), txn(1), txn(1), Rollback(E1, Offset(3)), txn(1), Rollback(E1, Offset(2)), txn(1))
    assert [log.landing(Offset(offset)) for offset in range(1, 8)] == [1, 1, 1, 1, 1, 6, 7]
    assert [offset for offset in range(1, 8) if log.is_doomed(Offset(offset))] == [2, 3, 4, 5]
    assert log.doomed_between(Offset(1), Offset(7)) == (2, 3, 4, 5)
    assert log.doomed_between(Offset(6), Offset(7)) == ()


def test_truncating_the_outer_rollback_leaves_the_inner_one() -> None:
    log = log_of(Barrier(E1), txn(1), txn(1), Rollback(E1, Offset(3)), txn(1), Rollback(E1, Offset(2)))
    log.truncate(Offset(5))
    assert [offset for offset in range(1, 6) if log.is_doomed(Offset(offset))] == [3]
    assert log.landing(Offset(2)) == 2


def test_a_confirm_counts_when_it_is_durable_and_outlives_its_truncation() -> None:
    log = Log(NO_SNAPSHOT, Offset(0), 1 << 20)
    log.append((Barrier(E1), txn(1), Confirm(E1, Offset(2))))
    assert log.confirmed == 0
    log.made_durable(Offset(2))
    assert log.confirmed == 0
    log.made_durable(Offset(3))
    assert log.confirmed == 2
    log.truncate(Offset(2))
    assert log.confirmed == 2


def test_an_unsettled_confirm_which_is_truncated_says_nothing() -> None:
    log = Log(NO_SNAPSHOT, Offset(0), 1 << 20)
    log.append((Barrier(E1),))
    log.made_durable(Offset(1))
    log.append((txn(1), Confirm(E1, Offset(2))))
    log.truncate(Offset(1))
    log.append((Barrier(E2), txn(2)))
    log.made_durable(Offset(3))
    assert log.confirmed == 0


def test_the_tail_forgets_old_payloads_but_never_what_is_not_durable() -> None:
    log = Log(NO_SNAPSHOT, Offset(0), 300)
    log.append((Barrier(E1),))
    for _ in range(20):
        log.append((txn(1, "y" * 36),))
    assert log.is_in_tail(Offset(1)), "nothing is durable yet"
    log.made_durable(Offset(20))
    log.append((txn(1),))
    assert not log.is_in_tail(Offset(10))
    assert log.is_in_tail(Offset(21))
    log.check()


def test_a_tail_is_read_in_pieces_of_at_most_so_many_bytes() -> None:
    log = log_of(Barrier(E1), txn(1, "a" * 36), txn(1, "b" * 36), txn(1, "c" * 36))
    assert len(log.tail_between(Offset(2), Offset(4), 200)) == 2
    assert len(log.tail_between(Offset(2), Offset(4), 1)) == 1
    assert len(log.tail_between(Offset(2), Offset(3), 1 << 20)) == 2
    assert cut_to_bytes((), 1) == ()


def test_recovery_reads_back_epochs_confirms_and_rollbacks() -> None:
    entries = (Barrier(E1), txn(1), Rollback(E1, Offset(2)), Confirm(E1, Offset(3)), Barrier(E2))
    log = Log(NO_SNAPSHOT, Offset(0), 1 << 20)
    assert log.recover(Offset(1), entries)
    assert log.fingerprint() == log_of(*entries).fingerprint()


def test_recovery_behind_a_snapshot_keeps_entries_before_it_for_late_followers() -> None:
    snapshot = SnapshotMeta(id_(2, 4), ((E1, Offset(1)), (E2, Offset(3))))
    log = Log(snapshot, Offset(0), 1 << 20)
    assert log.recover(Offset(3), THREE_EPOCHS[2:])
    assert (log.first, log.end, log.confirmed) == (3, 6, 4)
    assert log.base == id_(1, 2)
    assert not log.is_in_tail(Offset(4)), "they are read from the disk when needed"


@pytest.mark.parametrize(
    ("first", "entries"),
    [(1, (Barrier(E1), txn(1), Barrier(E2))), (3, (Barrier(E3), txn(3)))],
    ids=["ends before the snapshot", "has something else there"],
)
def test_recovery_drops_a_log_which_a_snapshot_has_replaced(first: int, entries: tuple[Entry, ...]) -> None:
    snapshot = SnapshotMeta(id_(2, 4), ((E1, Offset(1)), (E2, Offset(3))))
    log = Log(snapshot, Offset(0), 1 << 20)
    assert not log.recover(Offset(first), entries)


def test_recovery_refuses_a_log_with_a_hole_or_without_what_was_committed() -> None:
    snapshot = SnapshotMeta(id_(1, 2), ((E1, Offset(1)),))
    with pytest.raises(WalCorrupt, match="missing"):
        Log(snapshot, Offset(0), 1 << 20).recover(Offset(5), (txn(1),))
    with pytest.raises(WalCorrupt, match="committed"):
        Log(NO_SNAPSHOT, Offset(3), 1 << 20).recover(Offset(1), (Barrier(E1), txn(1)))


def test_a_snapshot_carries_what_resolve_needs() -> None:
    log = log_of(Barrier(E1), txn(1), Rollback(E1, Offset(2)), Barrier(E2), txn(2), Barrier(E3))
    snapshot = log.snapshot_at(Offset(5))
    assert snapshot == SnapshotMeta(id_(2, 5), ((E1, Offset(1)), (E2, Offset(4))), ((Offset(2), Offset(3)),))
    with pytest.raises(AssertionError, match="doomed"):
        log.snapshot_at(Offset(2))
    log.trim(Offset(5))
    log.forget_before(Offset(4))
    assert log.epochs == ((E2, 4), (E3, 6))
    assert log.doomed == []
    assert log.window_start == 4


class LogAgainstModel(RuleBasedStateMachine):
    """Appends, truncations, trims and restarts, against a plain list of entries."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log(NO_SNAPSHOT, Offset(0), 500)
        self.entries: list[Entry] = []  # all of them, from offset 1 on
        self.first = 1
        self.durable = 0
        self.confirmed = 0

    @property
    def end(self) -> int:
        return len(self.entries)

    @property
    def epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else 0

    def append(self, *entries: Entry) -> None:
        assert self.log.append(entries) == self.end + 1
        self.entries += entries

    @rule(raised=st.integers(1, 2))
    def new_epoch(self, raised: int) -> None:
        self.append(Barrier(Epoch(self.epoch + raised)))

    @precondition(lambda self: self.entries)
    @rule(count=st.integers(1, 4), size=st.integers(0, 90))
    def transactions(self, count: int, size: int) -> None:
        self.append(*(txn(self.epoch, "v" * size) for _ in range(count)))

    @precondition(lambda self: self.entries and self.durable > self.confirmed)
    @rule(pick=st.integers(0, 99))
    def confirm(self, pick: int) -> None:
        upto = self.confirmed + 1 + pick % (self.durable - self.confirmed)
        if not self.is_doomed(upto):
            self.append(Confirm(Epoch(self.epoch), Offset(upto)))

    @precondition(lambda self: any(isinstance(entry, Txn) for entry in self.entries))
    @rule(pick=st.integers(0, 99))
    def rollback(self, pick: int) -> None:
        lawful = [
            offset
            for offset, entry in enumerate(self.entries, 1)
            if isinstance(entry, Txn) and entry.epoch == self.epoch and offset > max(self.confirmed, self.first)
            if not self.is_doomed(offset)
            if not any(isinstance(later, Confirm) and later.upto >= offset for later in self.entries)
        ]
        if lawful:
            self.append(Rollback(Epoch(self.epoch), Offset(lawful[pick % len(lawful)])))

    @rule(count=st.integers(0, 9))
    def sync(self, count: int) -> None:
        self.durable = min(self.end, self.durable + count)
        self.log.made_durable(Offset(self.durable))
        confirms = [entry.upto for entry in self.entries[: self.durable] if isinstance(entry, Confirm)]
        self.confirmed = max(self.confirmed, *confirms, 0)

    @rule(pick=st.integers(0, 99))
    def truncate(self, pick: int) -> None:
        low = max(self.confirmed, self.first - 1)
        to = low + pick % (self.end - low + 1)
        self.log.truncate(Offset(to))
        del self.entries[to:]
        self.durable = min(self.durable, to)

    @rule(pick=st.integers(0, 99))
    def trim(self, pick: int) -> None:
        if self.confirmed + 1 > self.first:
            self.first += pick % (self.confirmed + 1 - self.first)
            self.log.trim(Offset(self.first))

    @rule()
    def restart(self) -> None:
        snapshot = self.log.snapshot_at(Offset(self.confirmed))
        twin = Log(snapshot, Offset(self.confirmed), 500)
        assert twin.recover(Offset(self.first), self.entries[self.first - 1 : self.durable])
        del self.entries[self.durable :]
        self.log = twin

    def is_doomed(self, offset: int) -> bool:
        rollbacks = [(entry.first, at) for at, entry in enumerate(self.entries, 1) if isinstance(entry, Rollback)]
        return any(first <= offset < at for first, at in rollbacks)

    @invariant()
    def agrees(self) -> None:
        log = self.log
        log.check()
        assert (log.first, log.end, log.durable, log.confirmed) == (self.first, self.end, self.durable, self.confirmed)
        for offset in range(self.first - 1, self.end + 1):
            epoch = self.entries[offset - 1].epoch if offset else 0
            assert log.epoch_at(Offset(offset)) == epoch
            assert log.is_doomed(Offset(offset)) == self.is_doomed(offset)
            outside = [each for each in range(offset + 1) if not self.is_doomed(each)]
            assert log.landing(Offset(offset)) == max(outside)
        for epoch in range(self.epoch + 2):
            below = [each for each, entry in enumerate(self.entries, 1) if entry.epoch <= epoch]
            assert log.highest_not_above(Epoch(epoch)).offset == (max(below) if below else 0)
        assert log.copy().fingerprint() == log.fingerprint()


TestLogAgainstModel = LogAgainstModel.TestCase
TestLogAgainstModel.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
