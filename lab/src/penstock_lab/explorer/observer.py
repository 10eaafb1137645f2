"""Sees what a node does and turns it into facts. It trusts the disk's side of the story, not the node's.

Rules that one node alone can break are judged right here: I18 (nothing is said for an epoch already left), I19 (only a
leader decides), I5 (nothing applied or confirmed is truncated; commit never falls) and I11 (no node applies more than
it may).
"""

from collections.abc import Sequence

from penstock.kernel.effects import Effect, Persist, SaveState, Send, TruncateLog
from penstock.kernel.ids import Epoch
from penstock.quorum.core.node import Node
from penstock.quorum.records.answers import Answers, Fate
from penstock.quorum.records.effects import Apply
from penstock.quorum.records.entry import Txn
from penstock.quorum.records.member import majority
from penstock.quorum.records.messages import HeartbeatResponse, Refusal
from penstock_lab.explorer.disk_image import DiskImage
from penstock_lab.explorer.facts import AppendFact, CommitFact, Exposes, Fact, Holds, Knows, Opens, Tells

__all__ = ["Observer"]

DECISIONS = (Fate.COMMITTED, Fate.COMMITTED_BELOW_LEVEL, Fate.ACKNOWLEDGED)


class Observer:
    """Watches one node during one step of the world."""

    def __init__(self, node: Node, disk: DiskImage) -> None:
        self.node = node
        self.name = disk.state.member.node
        self.disk = disk
        self.facts: list[Fact] = []
        self._leads = self._lead_epoch()
        self._commit = node.replica.commit
        self._applied = node.replica.applied
        self._exposed = self._exposes()
        self._appended: list[Persist] = []
        self._is_cut = False
        self._has_learnt = False

    def _lead_epoch(self) -> Epoch | None:
        return self.node.epoch if self.node.leader is not None else None

    def _exposes(self) -> int:
        return self.node.replica.applied if self.node.serves_reads else -1

    def booted(self) -> None:
        """A restarted node must have learnt before every entry that it takes for committed."""
        self._has_learnt = True

    def stepped(self, effects: Sequence[Effect]) -> None:
        """The core has taken an event; its effects have not run yet."""
        node, name = self.node, self.name
        leads = self._lead_epoch()
        if leads is not None and leads != self._leads:
            written = self.disk.written()
            self.facts.append(Opens(name, leads, *written.log()))
        self._leads = leads
        self._see_commit(leads)
        for effect in effects:
            self._see(effect, leads)
        exposed = self._exposes()
        if exposed != self._exposed and exposed >= 0:
            self.facts.append(Exposes(name, exposed))
        self._exposed, self._applied = exposed, node.replica.applied

    def _see_commit(self, leads: Epoch | None) -> None:
        commit = self.node.replica.commit
        assert commit >= self._commit, f"I5: the commit index of {self.name} fell from {self._commit} to {commit}"
        if commit == self._commit:
            return
        self._commit = commit
        leader = self.node.leader
        if leads is None or leader is None:
            self._has_learnt = True
        else:
            voters = tuple(leader.replication.cursors.voters())
            self.facts.append(CommitFact(self.name, leads, commit, voters, majority(len(leader.ensemble))))

    def _knows(self, written: DiskImage) -> None:
        upto = self.node.replica.commit
        first, entries = written.log()
        assert upto < first + len(entries), f"I7: {self.name} takes {upto} for committed, and does not have it"
        self.facts.append(Knows(self.name, upto, first, entries[: upto + 1 - first]))

    def _see(self, effect: Effect, leads: Epoch | None) -> None:
        node = self.node
        match effect:
            case Send(_, message):
                is_free = isinstance(message, Refusal | HeartbeatResponse)
                assert is_free or message.epoch == node.epoch, f"I18: {self.name} is in {node.epoch}, says {message}"
            case Persist():
                self._appended.append(effect)
            case TruncateLog(lsn):
                self._see_truncate(int(lsn))
            case SaveState(state):
                assert state.member == self.disk.state.member, "P14"
                self._is_cut = state.snapshot != self.disk.written().state.snapshot or self._is_cut
            case Apply(first, entries):
                self._see_apply(first + len(entries) - 1)
            case Answers():
                self._see_answers(effect, leads)
            case _:
                pass

    def _see_truncate(self, to: int) -> None:
        known = max(self._commit, self._applied)
        covered = self.node.replica.snapshot.head.offset
        assert max(to, covered) >= known, f"I5: {self.name} truncates to {to}; {known} are committed"
        self._is_cut = True

    def _see_apply(self, last: int) -> None:
        limit = self._commit if self.node.leader is not None else self.node.log.confirmed
        assert last <= limit, f"I11: {self.name} applies {last}, and may apply {limit}"
        assert last <= self.disk.last, f"I11: {self.name} applies {last}, and {self.disk.last} are durable"

    def _see_answers(self, answers: Answers, leads: Epoch | None) -> None:
        for request, offset in zip(answers.requests, answers.offsets, strict=True):
            is_decision = answers.fate in DECISIONS or (answers.fate is Fate.ABORTED and offset > 0)
            assert not is_decision or leads is not None, f"I19: {self.name} says {answers.fate} without leading"
            if answers.fate is Fate.ACKNOWLEDGED:
                self._see_acknowledged(offset)
            self.facts.append(Tells(self.name, answers.fate, request, answers.epoch, offset))

    def _see_acknowledged(self, offset: int) -> None:
        """I16, as far as this node's disk shows it."""
        first, entries = self.disk.log()
        commit, epoch = self._commit, self.node.epoch
        assert offset <= self.disk.last, f"I16: {offset} is acknowledged, and not durable"
        own = [at for at, entry in enumerate(entries, first) if entry.epoch == epoch]
        assert not own or own[0] <= commit, f"I16: {offset} is acknowledged before the barrier of {epoch} committed"
        for at, entry in enumerate(entries[: offset - first], first):
            is_open = isinstance(entry, Txn) and entry.is_sync and at > commit
            assert not is_open, f"I16: {offset} is acknowledged before the sync one at {at}"

    def wrote(self, disk: DiskImage) -> None:
        """The effects of the step have run: what the log looks like now, once all writes are done."""
        self.disk = disk
        if self._leads is not None:
            for effect in self._appended:
                first, entries = int(effect.first), effect.records
                self.facts.append(AppendFact(self.name, self._leads, first, entries, self._commit))
        if self._is_cut or (self._appended and self._leads is None):
            self.facts.append(Holds(self.name, *disk.written().log()))
        if self._has_learnt:
            self._knows(disk.written())
        self._appended, self._is_cut, self._has_learnt = [], False, False
