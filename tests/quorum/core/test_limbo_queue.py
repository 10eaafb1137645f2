from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.kernel.ids import Epoch, Offset, RequestId
from penstock.quorum.core.limbo_queue import LimboEntry, LimboLimits, LimboQueue, LimboState
from penstock.quorum.records.answers import Answers, Cause, Fate

E1, E2 = Epoch(1), Epoch(2)
ROOMY = LimboLimits()


def entry(request: int, *, size: int = 10, is_sync: bool = True, level: int = 0) -> LimboEntry:
    return LimboEntry(RequestId(request), None, size, is_sync=is_sync, level=level)


def filled(*entries: LimboEntry, limits: LimboLimits = ROOMY, first: int = 1) -> LimboQueue:
    queue = LimboQueue(limits)
    assert queue.offer(entries) == []
    queue.admit(E1, Offset(first), is_active=True)
    queue.check()
    return queue


def told(fate: Fate, *pairs: tuple[int, int], epoch: int = 1, cause: Cause = Cause.NONE) -> Answers:
    requests, offsets = zip(*pairs, strict=True)
    return Answers(fate, Epoch(epoch), tuple(map(RequestId, requests)), tuple(map(Offset, offsets)), cause=cause)


def test_commit_answers_in_offset_order_and_frees_space() -> None:
    queue = filled(entry(1), entry(2), entry(3))
    assert queue.size == 30
    assert queue.commit(Offset(2)) == [told(Fate.COMMITTED, (1, 1), (2, 2))]
    assert (len(queue), queue.size) == (1, 10)
    assert queue.commit(Offset(2)) == []
    assert queue.commit(Offset(7)) == [told(Fate.COMMITTED, (3, 3))]
    assert (len(queue), queue.size) == (0, 0)


def test_a_committed_rollback_aborts_newest_first_between_the_oks() -> None:
    queue = filled(entry(1), entry(2), entry(3))
    queue.doom(Offset(2), Offset(4))
    queue.offer([entry(5)])
    queue.admit(E1, Offset(5), is_active=True)
    assert queue.commit(Offset(5)) == [
        told(Fate.COMMITTED, (1, 1)),
        told(Fate.ABORTED, (3, 3), (2, 2), cause=Cause.ROLLBACK),
        told(Fate.COMMITTED, (5, 5)),
    ]


def test_an_appended_rollback_decides_nothing_before_it_commits() -> None:
    queue = filled(entry(1), entry(2))
    queue.doom(Offset(2), Offset(3))
    assert queue.commit(Offset(1)) == [told(Fate.COMMITTED, (1, 1))]
    assert len(queue) == 1


def test_a_transaction_covered_twice_is_answered_once() -> None:
    queue = filled(entry(1), entry(2), entry(3))
    queue.doom(Offset(3), Offset(4))
    queue.doom(Offset(1), Offset(5))
    assert queue.commit(Offset(5)) == [told(Fate.ABORTED, (3, 3), (2, 2), (1, 1), cause=Cause.ROLLBACK)]


def test_overflow_stays_volatile_and_is_admitted_in_order_when_space_comes() -> None:
    queue = filled(*map(entry, (1, 2, 3, 4)), limits=LimboLimits(length_max=2))
    assert [each.request for each in queue.waiting()] == [3, 4]
    assert queue.admit(E1, Offset(3), is_active=True) == []
    queue.commit(Offset(1))
    assert queue.admit(E1, Offset(3), is_active=False) == [], "a deposed owner admits nothing"
    assert [each.offset for each in queue.admit(E1, Offset(3), is_active=True)] == [3]
    assert [each.request for each in queue.waiting()] == [4]


def test_a_small_entry_does_not_overtake_a_large_one() -> None:
    queue = filled(entry(1, size=60), entry(2, size=60), entry(3, size=1), limits=LimboLimits(bytes_max=100))
    assert len(queue) == 1
    assert queue.volatile_length == 2


def test_an_entry_larger_than_the_limbo_is_let_in_alone() -> None:
    queue = filled(entry(1, size=1), entry(2, size=1000), limits=LimboLimits(bytes_max=100))
    assert len(queue) == 1
    queue.commit(Offset(1))
    assert len(queue.admit(E1, Offset(2), is_active=True)) == 1
    queue.check()


def test_what_finds_no_room_is_refused_with_all_behind_it() -> None:
    queue = LimboQueue(LimboLimits(volatile_length_max=5, volatile_bytes_max=25))
    refused = queue.offer([entry(1, size=20), entry(2, size=20), entry(3, size=5)])
    assert [each.request for each in refused] == [2, 3]


def test_timing_out_a_volatile_entry_aborts_every_younger_one() -> None:
    entries = [entry(request) for request in range(1, 5)]
    queue = filled(*entries, limits=LimboLimits(length_max=1))
    assert queue.time_out(entries[2]) == [told(Fate.ABORTED, (4, 0), (3, 0), epoch=0, cause=Cause.NO_ROOM)]
    assert [each.request for each in queue.waiting()] == [2]
    queue.check()


def test_timing_out_a_submitted_entry_detaches_its_waiter_only() -> None:
    first, second = entry(1), entry(2)
    queue = filled(first, second)
    assert queue.time_out(first) == [told(Fate.INDETERMINATE, (1, 1), cause=Cause.QUORUM_TIMEOUT)]
    assert queue.time_out(first) == []
    assert (len(queue), queue.size) == (2, 20)
    assert queue.commit(Offset(2)) == [told(Fate.COMMITTED, (2, 2))]


def test_async_is_acknowledged_up_to_the_first_pending_sync_entry() -> None:
    queue = filled(entry(1, is_sync=False), entry(2, is_sync=False), entry(3), entry(4, is_sync=False))
    assert queue.acknowledge(Offset(1)) == [told(Fate.ACKNOWLEDGED, (1, 1))]
    assert queue.acknowledge(Offset(9)) == [told(Fate.ACKNOWLEDGED, (2, 2))]
    assert queue.acknowledged_bytes == 20
    assert queue.commit(Offset(3)) == [told(Fate.COMMITTED, (3, 3))]
    assert queue.acknowledged_bytes == 0
    assert queue.acknowledge(Offset(9)) == [told(Fate.ACKNOWLEDGED, (4, 4))]


def test_async_beyond_the_window_waits_for_the_commit() -> None:
    queue = filled(*(entry(request, is_sync=False) for request in (1, 2, 3)), limits=LimboLimits(async_window_bytes=25))
    assert queue.acknowledge(Offset(3)) == [told(Fate.ACKNOWLEDGED, (1, 1), (2, 2))]
    assert queue.acknowledge(Offset(3)) == []
    assert queue.commit(Offset(3)) == [told(Fate.COMMITTED, (3, 3))]


def test_a_higher_level_delays_its_own_answer_only() -> None:
    queue = filled(entry(1, level=3), entry(2), entry(3, level=3))
    assert queue.commit(Offset(3)) == [told(Fate.COMMITTED, (2, 2))]
    assert (len(queue), queue.size) == (0, 0)
    assert queue.levels() == [3]
    assert queue.level_reached(3, Offset(1)) == [told(Fate.COMMITTED, (1, 1))]
    assert queue.level_reached(3, Offset(3)) == [told(Fate.COMMITTED, (3, 3))]
    assert queue.levels() == []


def test_a_level_not_reached_in_time_is_committed_below_level() -> None:
    high = entry(1, level=3)
    queue = filled(high)
    queue.commit(Offset(1))
    assert queue.time_out(high) == [told(Fate.COMMITTED_BELOW_LEVEL, (1, 1))]
    assert queue.levels() == []
    assert queue.level_reached(3, Offset(1)) == []


def test_freeze_aborts_volatile_and_leaves_the_rest_indeterminate() -> None:
    queue = filled(
        entry(1, level=9), entry(2), entry(3), entry(4), entry(5), entry(6), limits=LimboLimits(length_max=4)
    )
    queue.commit(Offset(1))
    assert queue.freeze() == [
        told(Fate.ABORTED, (6, 0), (5, 0), epoch=0, cause=Cause.FENCED),
        told(Fate.INDETERMINATE, (1, 1), (2, 2), (3, 3), (4, 4), cause=Cause.FENCED),
    ]
    assert queue.freeze() == []
    assert [each.request for each in queue.offer([entry(7)])] == [7]
    assert queue.admit(E1, Offset(9), is_active=True) == []
    assert queue.commit(Offset(9)) == []
    queue.check()


def test_entries_of_two_epochs_are_answered_in_two_runs() -> None:
    queue = filled(entry(1))
    queue.offer([entry(2)])
    queue.admit(E2, Offset(3), is_active=True)
    assert queue.commit(Offset(3)) == [
        told(Fate.COMMITTED, (1, 1), epoch=1),
        told(Fate.COMMITTED, (2, 3), epoch=2),
    ]


def test_a_copy_is_equal_and_apart() -> None:
    queue = filled(entry(1), entry(2, level=3), entry(3, is_sync=False))
    queue.commit(Offset(2))
    twin = queue.copy()
    assert twin.fingerprint() == queue.fingerprint()
    queue.commit(Offset(3))
    assert twin.fingerprint() != queue.fingerprint()
    twin.check()
    assert twin.commit(Offset(3)) == [told(Fate.COMMITTED, (3, 3))]


class QueueAgainstModel(RuleBasedStateMachine):
    """Random calls of a lawful owner, against a model which keeps everything in plain lists and looks at all of it."""

    limits = LimboLimits(
        length_max=4, bytes_max=60, volatile_length_max=4, volatile_bytes_max=60, async_window_bytes=30
    )

    def __init__(self) -> None:
        super().__init__()
        self.queue = LimboQueue(self.limits)
        self.next_request, self.next_offset = 1, 1
        self.volatile: list[LimboEntry] = []
        self.pending: dict[int, LimboEntry] = {}  # by offset
        self.ranges: list[tuple[int, int]] = []
        self.acknowledged: dict[int, int] = {}  # offset to size
        self.levels: dict[int, LimboEntry] = {}
        self.commit = 0
        self.fates: dict[int, Fate] = {}
        self.detached: set[int] = set()
        self.is_frozen = False

    def expect(self, answers: list[Answers], *expected: tuple[Fate, int]) -> None:
        """Exactly these (fate, request) in this order, none ever told before."""
        told_now = [(each.fate, int(request)) for each in answers for request in each.requests]
        assert told_now == [pair for pair in expected if pair[1] not in self.detached]
        for fate, request in told_now:
            assert request not in self.fates, "each exactly once"
            self.fates[request] = fate

    @precondition(lambda self: not self.is_frozen)
    @rule(size=st.integers(1, 40), is_sync=st.booleans(), level=st.sampled_from([0, 0, 0, 3]))
    def offer(self, size: int, is_sync: bool, level: int) -> None:
        new = entry(self.next_request, size=size, is_sync=is_sync, level=level if is_sync else 0)
        self.next_request += 1
        waiting = sum(each.size for each in self.volatile)
        fits = len(self.volatile) < 4 and (waiting + size <= 60 or not self.volatile)
        assert self.queue.offer([new]) == ([] if fits else [new])
        if fits:
            self.volatile.append(new)

    @rule(is_active=st.booleans(), gap=st.integers(0, 1))
    def admit(self, is_active: bool, gap: int) -> None:
        self.next_offset += gap  # a CONFIRM or BARRIER stands between
        expected: list[LimboEntry] = []
        while is_active and not self.is_frozen and self.volatile:
            pending = [*self.pending.values(), *expected]
            size = sum(each.size for each in pending)
            if len(pending) >= 4 or (pending and size + self.volatile[0].size > 60):
                break
            expected.append(self.volatile.pop(0))
        admitted = self.queue.admit(E1, Offset(self.next_offset), is_active=is_active)
        assert admitted == expected
        for each in admitted:
            assert each.offset == self.next_offset
            self.pending[self.next_offset] = each
            self.next_offset += 1

    @precondition(lambda self: any(each.is_sync for each in self.pending.values()))
    @rule(pick=st.integers(0, 9))
    def append_rollback(self, pick: int) -> None:
        lawful = [o for o, each in self.pending.items() if each.is_sync and not self.is_doomed(o)]
        if lawful:
            first = lawful[pick % len(lawful)]
            self.queue.doom(Offset(first), Offset(self.next_offset))
            self.ranges.append((first, self.next_offset))
            self.next_offset += 1

    def is_doomed(self, offset: int) -> bool:
        return any(first <= offset < at for first, at in self.ranges)

    @rule(pick=st.integers(0, 20))
    def commit_to(self, pick: int) -> None:
        landing = [o for o in range(self.commit, self.next_offset) if not self.is_doomed(o)]
        if not landing:
            return
        upto = landing[pick % len(landing)]
        expected: list[tuple[Fate, int]] = []
        offsets = sorted(o for o in self.pending if o <= upto)
        while offsets:
            offset = offsets.pop(0)
            each = self.pending[offset]
            ends = [at for first, at in self.ranges if first <= offset < at]
            if ends:
                doomed = [offset, *(o for o in offsets if o < max(ends))]
                offsets = [o for o in offsets if o >= max(ends)]
                expected += [(Fate.ABORTED, self.request_at(o)) for o in reversed(doomed)]
            elif each.level and each.request is not None:
                self.levels[offset] = each
            else:
                expected.append((Fate.COMMITTED, self.request_at(offset)))
        answers = self.queue.commit(Offset(upto))
        self.commit = upto
        self.expect(answers, *expected)
        self.pending = {o: each for o, each in self.pending.items() if o > upto}
        self.acknowledged = {o: size for o, size in self.acknowledged.items() if o > upto}

    def request_at(self, offset: int) -> int:
        request = self.pending[offset].request
        return -1 if request is None else int(request)

    @rule(durable=st.integers(0, 30))
    def acknowledge(self, durable: int) -> None:
        expected: list[tuple[Fate, int]] = []
        for offset, each in sorted(self.pending.items()):
            fits = sum(self.acknowledged.values()) + each.size <= 30
            if each.is_sync or offset > durable or not fits or self.is_doomed(offset):
                break
            expected.append((Fate.ACKNOWLEDGED, self.request_at(offset)))
            self.acknowledged[offset] = each.size
        answers = self.queue.acknowledge(Offset(durable))
        for offset in self.acknowledged:
            self.pending.pop(offset, None)
        self.expect(answers, *expected)

    @rule(upto=st.integers(0, 30))
    def level_reached(self, upto: int) -> None:
        reached = sorted(o for o in self.levels if o <= upto)
        expected = [(Fate.COMMITTED, int(self.levels.pop(o).request or 0)) for o in reached]
        self.expect(self.queue.level_reached(3, Offset(upto)), *expected)

    @precondition(lambda self: self.volatile)
    @rule(pick=st.integers(0, 9))
    def time_out_volatile(self, pick: int) -> None:
        at = pick % len(self.volatile)
        victim, aborted = self.volatile[at], self.volatile[at:][::-1]
        del self.volatile[at:]
        expected = [(Fate.ABORTED, int(each.request or 0)) for each in aborted]
        self.expect(self.queue.time_out(victim), *expected)

    @precondition(lambda self: self.pending)
    @rule(pick=st.integers(0, 9))
    def time_out_submitted(self, pick: int) -> None:
        victim = list(self.pending.values())[pick % len(self.pending)]
        expected = [] if victim.request is None else [(Fate.INDETERMINATE, int(victim.request))]
        self.expect(self.queue.time_out(victim), *expected)
        self.detached |= {request for _, request in expected} | {-1}
        assert victim.state is LimboState.SUBMITTED

    @precondition(lambda self: self.levels)
    @rule(pick=st.integers(0, 9))
    def time_out_level(self, pick: int) -> None:
        offset = sorted(self.levels)[pick % len(self.levels)]
        victim = self.levels.pop(offset)
        self.expect(self.queue.time_out(victim), (Fate.COMMITTED_BELOW_LEVEL, int(victim.request or 0)))

    @precondition(lambda self: self.next_request > 12)
    @rule()
    def freeze(self) -> None:
        waiters = {o: each for o, each in (self.pending | self.levels).items() if each.request is not None}
        expected = [(Fate.ABORTED, int(each.request or 0)) for each in reversed(self.volatile)]
        expected += [(Fate.INDETERMINATE, int(each.request or 0)) for _, each in sorted(waiters.items())]
        self.expect(self.queue.freeze(), *expected)
        self.volatile, self.pending, self.levels, self.ranges = [], {}, {}, []
        self.acknowledged = {}
        self.is_frozen = True

    @invariant()
    def agrees(self) -> None:
        self.queue.check()
        assert list(self.queue.waiting()) == self.volatile
        assert list(self.queue.pending()) == list(self.pending.values())
        assert (len(self.queue), self.queue.size) == (
            len(self.pending), sum(each.size for each in self.pending.values()),
        )  # fmt: skip
        assert self.queue.acknowledged_bytes == sum(self.acknowledged.values())
        assert self.queue.copy().fingerprint() == self.queue.fingerprint()


TestQueueAgainstModel = QueueAgainstModel.TestCase
TestQueueAgainstModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
