"""The answers to clients about their transactions, against the committed log. Invariants of quorum-log.md:

I12 OK means committed, and in effect · I13 ABORTED means never · I14 each waiter gets an answer in time · I15 in order,
and once · I16 the promises of an async OK · I19 only an active leader decides · I20 VOLATILE is FIFO and cascades.

A leader answers one copy of a transaction. The checker judges the answer that the user gets in the end by pair (P10).
"""

from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, Offset
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.records.answers import Answers, Fate
from penstock.quorum.records.effects import APPLIED, MAJORITY
from penstock.quorum.records.entry import OVERHEAD_BYTES, Txn
from penstock.quorum.records.member import Member
from penstock_lab.sim.checkers.book import Author, Book
from penstock_lab.sim.checkers.commits import Quorum
from penstock_lab.sim.checkers.history import HistoryAttempt, OperationHistory, UserAppend
from penstock_lab.sim.checkers.hosts import CheckedHost, HostRecord
from penstock_lab.sim.checkers.logs import LogChecker

__all__ = ["AnswerChecker"]

NEVER_APPENDED = (Fate.NOT_LEADER, Fate.OVERLOADED, Fate.INVALID)
SLACK_NS = 2_000_000  # between a deadline and the step which tells


class AnswerChecker:
    """Follows every attempt from its arrival to its answer."""

    def __init__(
        self,
        book: Book,
        logs: LogChecker,
        history: OperationHistory,
        records: dict[Member, HostRecord],
        quorums: dict[int, list[Quorum]],
        config: NodeConfig,
    ) -> None:
        self.book = book
        self.logs = logs
        self.history = history
        self.records = records
        self.quorums = quorums
        self.config = config
        self.acknowledged: list[tuple[HistoryAttempt, Member]] = []  # and by whom
        self.indeterminate: list[HistoryAttempt] = []
        self._volatile: dict[
            Author, dict[int, HistoryAttempt]
        ] = {}  # arrived and neither appended nor answered, in order
        self._last_ok: dict[tuple[Author, int, bool], int] = {}  # by leader and lane: OKs come in order within a lane

    def arrived(self, host: CheckedHost, attempts: list[HistoryAttempt]) -> None:
        waiting = self._volatile.setdefault((host.node.name, host.node.run), {})
        for attempt in attempts:
            waiting[attempt.request] = attempt

    def appended(self, host: CheckedHost, offset: int, txn: Txn) -> None:
        """A leader has put a transaction into its log for the first time."""
        attempt = self.history.by_ops[txn.ops]
        assert attempt.appended == NO_ENTRY, f"I26: {txn} is appended at {offset}, and was at {attempt.appended}"
        attempt.appended = EntryId(txn.epoch, offset)  # type: ignore[arg-type]
        assert (txn.client, txn.seq, txn.is_sync) == (attempt.client, attempt.seq, attempt.is_sync)
        assert attempt.fate is None, f"I13: {txn} is appended after its client was told {attempt.fate}"
        waiting = self._volatile[host.node.name, host.node.run]
        oldest = next(iter(waiting))
        assert oldest == attempt.request, f"I20: {attempt.request} is appended before {oldest}"
        del waiting[attempt.request]

    def answered(self, host: CheckedHost, answers: Answers, now: int) -> None:
        attempts = [self.history.attempts[request] for request in answers.requests]
        results = answers.results or (None,) * len(attempts)
        for attempt, offset, result in zip(attempts, answers.offsets, results, strict=True):
            assert attempt.fate is None, f"I15: request {attempt.request}: {attempt.fate}, and then {answers.fate}"
            assert (attempt.node, attempt.run) == (host.node.name, host.node.run), "answered by somebody else"
            attempt.fate, attempt.cause, attempt.told_at, attempt.result = answers.fate, answers.cause, now, result
            attempt.entry = EntryId(answers.epoch, offset) if offset else NO_ENTRY
            is_right = attempt.entry in (attempt.appended, self._effect(attempt))
            assert is_right, f"{attempt} was told that it is at {attempt.entry}"
            self._check_time(host, attempt, now)
        self._check_fate(host, answers.fate, attempts)

    def _check_fate(self, host: CheckedHost, fate: Fate, attempts: list[HistoryAttempt]) -> None:
        self._check_active(host, fate, attempts)
        match fate:
            case Fate.COMMITTED:
                self._committed(host, attempts)
            case Fate.COMMITTED_BELOW_LEVEL:
                self._check_committed(attempts)
                assert all(attempt.level != MAJORITY for attempt in attempts)
            case Fate.ACKNOWLEDGED:
                self._check_order(host, attempts)
                for attempt in attempts:
                    self._check_acknowledged(host, attempt)
                    self.acknowledged.append((attempt, host.member))
            case Fate.ABORTED:
                self._aborted(host, attempts)
            case Fate.EXPIRED:
                assert all(self.book.is_expired(attempt.client, attempt.seq) for attempt in attempts), "P10: EXPIRED"
            case Fate.INDETERMINATE:
                assert all(attempt.entry != NO_ENTRY for attempt in attempts), "what was never appended is ABORTED"
                self.indeterminate += attempts
            case Fate.NOT_LEADER | Fate.OVERLOADED | Fate.INVALID:
                waiting = self._volatile[host.node.name, host.node.run]
                for attempt in attempts:
                    assert attempt.entry == NO_ENTRY, f"{attempt} was told {fate}, and is in the log"
                    del waiting[attempt.request]

    def _check_active(self, host: CheckedHost, fate: Fate, attempts: list[HistoryAttempt]) -> None:
        is_decision = fate not in (*NEVER_APPENDED, Fate.INDETERMINATE) and attempts[0].entry != NO_ENTRY
        assert host.core is not None
        assert not is_decision or host.core.leader is not None, f"I19: {host.name} says {fate} without leading"

    def _check_time(self, host: CheckedHost, attempt: HistoryAttempt, now: int) -> None:
        """I14: by the waiter's deadline, at the leader's own pace; a frozen process is excused."""
        config = self.config
        patience = attempt.timeout_ns + 2 * config.timeout_grain_ns
        if attempt.rolls_back:
            patience += config.rollback_grace_ns
        since = max(attempt.arrived_at, host.node.resumed_at)
        late = now - since - patience * 106 // 100 - SLACK_NS
        assert late <= 0, f"I14: {attempt} was told {late} ns after its deadline"

    # OK

    def _check_committed(self, attempts: list[HistoryAttempt]) -> None:
        """At once, not only at the end."""
        self._in_log(attempts)

    def _in_log(self, attempts: list[HistoryAttempt]) -> None:
        for attempt in attempts:
            verdict = self.book.verdict(attempt.entry)
            assert verdict == "committed", f"I12: {attempt} was told {attempt.fate}, and is {verdict}"

    def _committed(self, host: CheckedHost, attempts: list[HistoryAttempt]) -> None:
        self._check_committed(attempts)
        self._check_order(host, attempts)
        for attempt in attempts:
            if attempt.level == APPLIED:
                self._check_result(host, attempt)
            elif attempt.level != MAJORITY:
                self._check_level(host, attempt)

    def _check_order(self, host: CheckedHost, attempts: list[HistoryAttempt]) -> None:
        for attempt in attempts:
            lane = ((host.node.name, host.node.run), attempt.level, attempt.is_repeat)
            before, offset = self._last_ok.get(lane, 0), attempt.appended.offset
            assert offset > before, f"I15: OK for {offset} after one for {before}"
            self._last_ok[lane] = offset

    def _check_result(self, host: CheckedHost, attempt: HistoryAttempt) -> None:
        """The result of the copy that took effect, whichever copy this is: one shape, through every fail-over."""
        book, offset = self.book, attempt.appended.offset
        assert host.applied >= offset, f"{attempt} was told its result before it was applied"
        effect = self._effect(attempt)
        assert attempt.entry == effect, f"I26: {attempt} took effect at {effect}"
        expected = len(book.list_at(attempt.key, effect.offset))
        is_wrong = host.record.is_damaged  # not found out yet, see AgreementChecker
        assert is_wrong or attempt.result == expected, f"I10: {attempt} was told {attempt.result}, it is {expected}"

    def _effect(self, attempt: HistoryAttempt) -> EntryId:
        """Return the entry with which the pair took effect."""
        offset = self.book.effects.get((attempt.client, attempt.seq), 0)
        return EntryId(Epoch(self.book.epoch_at(offset)), Offset(offset)) if offset else NO_ENTRY

    def _check_level(self, host: CheckedHost, attempt: HistoryAttempt) -> None:
        for _, members in self.quorums[host.leads]:
            wanted = min(attempt.level, len(members))
            if sum(self.records[each].has_held(attempt.entry) for each in members if each in self.records) >= wanted:
                return
        raise AssertionError(f"P7: {attempt} was told that so many members hold it")

    def _check_acknowledged(self, host: CheckedHost, attempt: HistoryAttempt) -> None:
        """I16, at the time of the OK."""
        offset, core = attempt.entry.offset, host.core
        assert core is not None
        assert not attempt.is_sync
        assert host.node.disk.last >= offset, f"I16: {attempt} is acknowledged, and not durable"
        barrier = next((at for epoch, at in self.book.epochs if epoch == core.epoch), None)
        assert barrier is not None, f"I16: {attempt} is acknowledged before the barrier of {core.epoch} is committed"
        for at in range(max(host.commit + 1, host.log.first), offset):
            entry = host.log.entry_at(at)
            assert type(entry) is not Txn or not entry.is_sync, f"I16: {attempt} overtakes the sync one at {at}"
        assert not self.logs.is_doomed_anywhere(attempt.entry.epoch, offset), f"I16: {attempt} is doomed"

    # ABORTED

    def _aborted(self, host: CheckedHost, attempts: list[HistoryAttempt]) -> None:
        if attempts[0].is_repeat and attempts[0].entry != NO_ENTRY:
            for attempt in attempts:
                pair = (attempt.client, attempt.seq)
                is_retired = pair in self.book.retired and pair not in self.book.effects
                assert is_retired, f"I13: {attempt} is ABORTED before a ROLLBACK of its pair is committed"
        elif attempts[0].entry != NO_ENTRY:
            offsets = [attempt.entry.offset for attempt in attempts]
            assert offsets == sorted(offsets, reverse=True), f"I15: aborts come newest first: {offsets}"
            self._check_rolled_back(attempts)
        else:
            self._never_appended(host, attempts)

    def _never_appended(self, host: CheckedHost, attempts: list[HistoryAttempt]) -> None:
        waiting = self._volatile[host.node.name, host.node.run]
        requests = [attempt.request for attempt in attempts]
        youngest = list(waiting)[-len(requests) :]
        assert requests == youngest[::-1], f"I20: {requests} are aborted, the youngest are {youngest}"
        for request in requests:
            del waiting[request]

    def _check_rolled_back(self, attempts: list[HistoryAttempt]) -> None:
        for attempt in attempts:
            entry = attempt.entry
            is_rolled_back = self.book.holds(entry) and entry.offset in self.book.doomed
            assert is_rolled_back, f"I13: {attempt} was told ABORTED before a ROLLBACK of it is committed"

    # the end

    def finish(self) -> None:
        book = self.book
        told = {attempt.ops: attempt for attempt in self.history.attempts.values()}
        for offset, entry in enumerate(book.committed, 1):
            if type(entry) is Txn and book.effects.get((entry.client, entry.seq)) == offset:
                fate = told[entry.ops].fate
                assert fate is not Fate.ABORTED, f"I13: {entry} at {offset} was told ABORTED"
                assert fate not in NEVER_APPENDED, f"I13: {entry} at {offset} was told {fate}"
        for attempt in self.history.attempts.values():
            if attempt.fate in (Fate.COMMITTED, Fate.COMMITTED_BELOW_LEVEL):
                self._in_log([attempt])
        for asked in self.history.asked:
            self.told(asked)
        self._finish_acknowledged()

    def told(self, asked: UserAppend) -> None:
        """Check the answer that a user gets against the transaction: now, and at the end."""
        has_effect = (asked.client, asked.seq) in self.book.effects
        if asked.fate in (Fate.COMMITTED, Fate.COMMITTED_BELOW_LEVEL):
            assert has_effect, f"I12: {asked} ends {asked.fate}, and has no effect"
        elif asked.fate in (Fate.ABORTED, *NEVER_APPENDED):
            assert not has_effect, f"I13: {asked} ends {asked.fate}, and took effect"

    def _finish_acknowledged(self) -> None:
        """I16: acknowledged transactions are lost only by an epoch change, as a suffix, and not more than the
        window.
        """
        book, lost_bytes = self.book, dict.fromkeys((each.entry.epoch for each, _ in self.acknowledged), 0)
        for attempt, _ in self.acknowledged:
            epoch, offset = attempt.entry.epoch, attempt.entry.offset
            assert not self.logs.is_doomed_anywhere(epoch, offset), f"I16: {attempt} was covered by a ROLLBACK"
            if book.verdict(attempt.entry) == "committed":
                continue
            lost_bytes[epoch] += OVERHEAD_BYTES + len(attempt.ops)
            later = [at for at, each in enumerate(book.committed, 1) if each.epoch == epoch and at > offset]
            assert not later, f"I16: {attempt} is lost, but {later} of its epoch are not"
            assert book.epochs[-1][0] > epoch, f"I16: {attempt} is lost without an epoch change"
        window = self.config.limbo.async_window_bytes
        for epoch, lost in lost_bytes.items():
            assert lost <= window, f"I16: {lost} acknowledged bytes of epoch {epoch} are lost; the window is {window}"
