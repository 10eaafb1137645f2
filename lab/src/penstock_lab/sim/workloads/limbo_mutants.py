"""Mutants of the limbo's queue: each breaks one rule in a few lines, and the simulator must catch it.

Most are bugs that real systems had: an acknowledgement counted twice, an aborted waiter whose successors continued, a
length that drifts.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.kernel.effects import Effect
from penstock.kernel.ids import Epoch, Offset
from penstock.quorum.core.follow_cursor import FollowCursors
from penstock.quorum.core.limbo_queue import LimboEntry, LimboQueue, LimboState, _answer
from penstock.quorum.records.answers import Answers, Cause, Fate
from penstock.quorum.records.member import Member, majority
from penstock_lab.sim.workloads.limbo_leader import LimboLeader, LimboRollback, LimboTxn

__all__ = ["MUTANTS", "LimboMutant"]


@dataclass(frozen=True)
class LimboMutant:
    """Which rule is broken, and how."""

    rule: str
    apply: Callable[[LimboLeader], None]


class AcksCounted(FollowCursors):
    """Counts acknowledgements per offset, so that a repeated one counts twice."""

    def __init__(self, epoch: Epoch, leader: Member, ensemble: tuple[Member, ...]) -> None:
        super().__init__(epoch, leader, ensemble)
        self._counts: dict[Offset, int] = {}

    def acknowledge(self, member: Member, epoch: Epoch, upto: Offset) -> bool:
        is_news = super().acknowledge(member, epoch, upto)
        self._counts[upto] = self._counts.get(upto, 0) + 1
        return is_news

    def quorum_offset(self) -> Offset:
        enough = majority(len(self.ensemble)) - 1
        counted = [offset for offset, count in self._counts.items() if count >= enough and offset <= self.durable]
        return Offset(max([super().quorum_offset(), *counted]))

    def check(self, head: Offset) -> None:
        """A machine's own check is not the judge here: the world's must see it."""


class NewestFirst(LimboQueue):
    """Admits the youngest waiter first."""

    def admit(self, epoch: Epoch, next_offset: Offset, *, is_active: bool) -> list[LimboEntry]:
        self._volatile.reverse()
        admitted = super().admit(epoch, next_offset, is_active=is_active)
        self._volatile.reverse()
        return admitted


class NoCascade(LimboQueue):
    """Aborts a waiter and lets the younger ones continue."""

    def _abort_volatile(self, oldest: LimboEntry | None, cause: Cause) -> list[Answers]:
        if oldest is None:
            return super()._abort_volatile(None, cause)
        self._volatile.remove(oldest)
        self.volatile_size -= oldest.size
        answers: list[Answers] = []
        _answer(Fate.ABORTED, [oldest], answers)
        return answers


class Drifts(LimboQueue):
    """Forgets to give back the bytes of what a ROLLBACK removes."""

    def _pop_aborted(self, before: Offset, answers: list[Answers]) -> None:
        size = self.size
        super()._pop_aborted(before, answers)
        self.size = size


class OldestAbortedFirst(LimboQueue):
    """Answers a cascade of aborts in the order of submission."""

    def _pop_aborted(self, before: Offset, answers: list[Answers]) -> None:
        mine: list[Answers] = []
        super()._pop_aborted(before, mine)
        answers += [
            Answers(each.fate, each.epoch, each.requests[::-1], each.offsets[::-1], each.results) for each in mine
        ]


class AnswersTwice(LimboQueue):
    """A detached waiter is answered again when its entry commits."""

    def time_out(self, entry: LimboEntry) -> list[Answers]:
        request = entry.request
        answers = super().time_out(entry)
        if entry.state is LimboState.SUBMITTED:
            entry.request = request
        return answers


class OvertakesSync(LimboQueue):
    """Acknowledges async transactions over the head of a pending sync one: not an error until a ROLLBACK dooms them."""

    def acknowledge(self, durable: Offset) -> list[Answers]:
        held: list[LimboEntry] = []
        while self._submitted and self._submitted[0].is_sync:
            held.append(self._submitted.popleft())
        answers = super().acknowledge(durable)
        self._submitted.extendleft(reversed(held))
        return answers


class VoteBeforeDurable(LimboLeader):
    """Counts the leader's own vote when it appends, not when the append is durable."""

    def _append(self, entries: tuple[LimboTxn | LimboRollback, ...]) -> list[Effect]:
        effects = super()._append(entries)
        self.cursors.durable = self.head
        return effects


class NoLanding(LimboLeader):
    """Commits inside a doomed range."""

    def landing(self, offset: Offset) -> Offset:
        return offset


def _queue(kind: type[LimboQueue]) -> Callable[[LimboLeader], None]:
    def apply(leader: LimboLeader) -> None:
        leader.queue = kind(leader.queue.limits)

    return apply


def _cursors(kind: type[FollowCursors]) -> Callable[[LimboLeader], None]:
    def apply(leader: LimboLeader) -> None:
        cursors = kind(leader.cursors.epoch, leader.cursors.leader, leader.cursors.ensemble)
        for member in leader.followers:
            cursors.attach(member, Offset(0))
        leader.cursors = cursors

    return apply


def _leader(kind: type[LimboLeader]) -> Callable[[LimboLeader], None]:
    def apply(leader: LimboLeader) -> None:
        leader.__class__ = kind

    return apply


MUTANTS: dict[str, LimboMutant] = {
    "acks-counted-twice": LimboMutant("I17: a repeated acknowledgement changes nothing", _cursors(AcksCounted)),
    "vote-before-durable": LimboMutant("P2: the own vote counts only when locally durable", _leader(VoteBeforeDurable)),
    "no-landing": LimboMutant("P2: no commit inside a doomed range", _leader(NoLanding)),
    "newest-first": LimboMutant("I20: VOLATILE is FIFO", _queue(NewestFirst)),
    "no-cascade": LimboMutant("I20: aborting a VOLATILE entry aborts all younger ones", _queue(NoCascade)),
    "length-drifts": LimboMutant("I21: length and bytes are the sums over SUBMITTED", _queue(Drifts)),
    "oldest-aborted-first": LimboMutant("I15: cascaded aborts come newest first", _queue(OldestAbortedFirst)),
    "answers-twice": LimboMutant("I15: each request is answered exactly once", _queue(AnswersTwice)),
    "overtakes-sync": LimboMutant("P8: an async OK waits for every sync transaction before it", _queue(OvertakesSync)),
}
