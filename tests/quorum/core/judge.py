"""Looks at the whole cluster after every step, and knows what must hold across nodes and time: I1 to I13, I18, I19.

It keeps the one committed log, as it grows, and compares with it whatever any node commits, applies, confirms or tells.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.kernel.effects import Effect, Persist, Send
from penstock.kernel.ids import EntryId, Epoch, Offset
from penstock.quorum.core.leader import Leader
from penstock.quorum.records.answers import Answers, Fate
from penstock.quorum.records.effects import Apply, TakeSnapshot
from penstock.quorum.records.entry import Confirm, Entry, Rollback, Txn
from penstock.quorum.records.messages import HeartbeatResponse, Refusal

if TYPE_CHECKING:
    from tests.quorum.core.cluster import Host

OKS = (Fate.COMMITTED, Fate.COMMITTED_BELOW_LEVEL)


class Judge:
    """The memory of everything that must never change again."""

    def __init__(self) -> None:
        self.payloads: dict[EntryId, Entry] = {}
        self.leaders: dict[Epoch, tuple[str, int]] = {}
        self.committed: list[Entry] = []  # at offset - 1
        self.commits: dict[str, int] = {}  # per host, as it last said
        self.runs: dict[str, int] = {}
        self.oks: list[EntryId] = []
        self.aborts: list[EntryId] = []

    def booted(self, host: "Host") -> None:
        self.commits[host.name] = 0
        self.runs[host.name] = host.run

    def stepped(self, host: "Host", effects: Sequence[Effect]) -> None:
        """A host has taken a step; its effects have not run yet."""
        node = host.up
        if node.has_failed:
            return
        node.check()
        self._see_log(host)
        if node.leader is not None:
            self._see_leader(host, node.leader)
        self._see_commit(host)
        for effect in effects:
            self._see_effect(host, effect)
        twin = node.copy()
        assert twin.fingerprint() == node.fingerprint()

    def stopped(self, reason: str) -> None:
        assert "truncate" not in reason, f"I5: {reason}"

    # state

    def _see_log(self, host: "Host") -> None:
        log = host.up.log
        for offset in range(max(log.first, log._tail_first), log.end + 1):
            entry = log._tail[offset - log._tail_first]
            known = self.payloads.setdefault(EntryId(entry.epoch, Offset(offset)), entry)
            assert known == entry, f"I1: two entries have the id {entry.epoch}/{offset}"
        assert log.confirmed <= len(self.committed), "I7: confirmed, but not committed"

    def _see_leader(self, host: "Host", leader: Leader) -> None:
        me = (host.name, host.run)
        assert self.leaders.setdefault(host.up.epoch, me) == me, "I2: one leader per epoch, in one run"
        upto = host.up.replica.commit
        if upto > max(self.commits[host.name], len(self.committed)):
            self._check_quorum(host, leader, upto)

    def _check_quorum(self, host: "Host", leader: Leader, upto: int) -> None:
        """I4, by what is really on the disks."""
        log, cursors = host.up.log, leader.replication.cursors
        assert log.epoch_at(Offset(upto)) == host.up.epoch, "I4: only the current epoch commits directly"
        voters = [each for each in leader.ensemble if each != cursors.removed]
        disks = [(each, host.cluster.hosts[each.node].disk) for each in voters]
        is_gone = {each: disk.state.member != each for each, disk in disks}  # it lost its disk since: trust its word
        holding = [each for each, disk in disks if is_gone[each] or disk.id_at(upto) == log.id_at(Offset(upto))]
        assert len(holding) * 2 > len(leader.ensemble), (
            f"I4: {upto} is durable on {[str(each) for each in holding]} only"
        )

    def _see_commit(self, host: "Host") -> None:
        node = host.up
        commit = node.replica.commit
        assert commit >= self.commits[host.name], "I5: commit fell"
        self.commits[host.name] = commit
        log = node.log
        for offset in range(log.first, commit + 1):
            entry = self._entry_at(host, offset)
            if offset <= len(self.committed):
                assert self.committed[offset - 1] == entry, f"I5: {host.name} has something else at {offset}"
            else:
                assert offset == len(self.committed) + 1
                self.committed.append(entry)
        assert commit <= len(self.committed)

    def _entry_at(self, host: "Host", offset: int) -> Entry:
        log, disk = host.up.log, host.disk
        is_in_tail = log.is_in_tail(Offset(offset))
        return log._tail[offset - log._tail_first] if is_in_tail else disk.records[offset - disk.first]

    def is_doomed(self, offset: int) -> bool:
        """By a committed ROLLBACK."""
        for at, entry in enumerate(self.committed, 1):
            if isinstance(entry, Rollback) and entry.first <= offset < at:
                return True
        return False

    def holds(self, entry: EntryId) -> bool:
        """Is this transaction committed, and not rolled back?"""
        is_there = 0 < entry.offset <= len(self.committed) and self.committed[entry.offset - 1].epoch == entry.epoch
        return is_there and not self.is_doomed(entry.offset)

    # effects

    def _see_effect(self, host: "Host", effect: Effect) -> None:
        match effect:
            case Send(_, message):
                is_free = isinstance(message, Refusal | HeartbeatResponse)
                assert is_free or message.epoch == host.up.epoch, "I18: something was said for another epoch"
            case Persist(first, records):
                for offset, entry in enumerate(records, first):
                    self._see_record(host, offset, entry)
            case Apply(first, entries, doomed):
                for offset, entry in enumerate(entries, first):
                    assert offset <= len(self.committed), "I10: applied, but not committed"
                    assert self.committed[offset - 1] == entry, "I10: applied something else"
                    if isinstance(entry, Txn):
                        assert (offset in doomed) == self.is_doomed(offset), f"I10: {offset} doomed, or not"
            case TakeSnapshot(snapshot):
                assert not any(first <= snapshot.head.offset < at for first, at in self._ranges()), "I9"
            case Answers():
                self._see_answers(host, effect)
            case _:
                pass

    def _ranges(self) -> list[tuple[int, int]]:
        return [(entry.first, at) for at, entry in enumerate(self.committed, 1) if isinstance(entry, Rollback)]

    def _see_record(self, host: "Host", offset: int, entry: Entry) -> None:
        node = host.up
        if node.leader is None:
            return
        assert entry.epoch == node.epoch
        match entry:
            case Confirm(upto=upto):
                assert upto < offset
                assert node.log.epoch_at(upto) == entry.epoch, "I6: confirms within its epoch"
                assert upto <= len(self.committed), "I7: confirms what is not committed"
            case Rollback(first=first):
                assert node.log.epoch_at(first) == entry.epoch, "I8: rolls back within its epoch"
                assert first > node.replica.commit, "I8: rolls back what is committed"
            case _:
                pass

    def _see_answers(self, host: "Host", answers: Answers) -> None:
        ids = [EntryId(answers.epoch, offset) for offset in answers.offsets if offset]
        if answers.fate in OKS:
            assert host.up.leader is not None, "I19: an OK without leading"
            for entry in ids:
                assert self.holds(entry), f"I12: {entry} was told committed, but is not"
            self.oks += ids
        elif answers.fate is Fate.ACKNOWLEDGED:
            leader = host.up.leader
            assert leader is not None, "I19: an OK without leading"
            assert leader.barrier <= host.up.replica.commit, "I16"
            assert all(entry.offset <= host.up.log.durable for entry in ids), "I16"
        elif answers.fate is Fate.ABORTED:
            for entry in ids:
                assert entry.offset <= len(self.committed), f"I13: {entry} was told aborted too early"
                assert not self.holds(entry), f"I13: {entry} was told aborted, but is committed"
            self.aborts += ids

    def at_the_end(self) -> None:
        """I12 and I13 once more, by the log as it ended."""
        assert all(self.holds(entry) for entry in self.oks), "I12"
        assert not any(self.holds(entry) for entry in self.aborts), "I13"
