"""The inputs of state machines, and their results. Invariants of quorum-log.md:

I9 snapshots lie in no doomed range · I10 every node applies the committed log, doomed transactions left out · I11 no
node applies beyond the entries that it knows to be committed and holds durably. And of wrong state machines (decision
0108; Q-12, Q-13): a right one is never accused, and one that was found wrong stays out, also after a restart.
"""

from collections.abc import Mapping, Sequence

from penstock.kernel.effects import Effect
from penstock.kernel.ids import Offset
from penstock.quorum.records.effects import Apply, Serve, TakeSnapshot
from penstock.quorum.records.entry import Txn
from penstock.quorum.records.member import Member
from penstock.quorum.records.state import SnapshotMeta
from penstock_lab.sim.checkers.book import Book
from penstock_lab.sim.checkers.hosts import CheckedHost, HostRecord

__all__ = ["AgreementChecker", "ApplyChecker"]


class ApplyChecker:
    """Compares the applied entries with the book."""

    def __init__(self, book: Book) -> None:
        self.book = book

    def apply(self, host: CheckedHost, effect: Apply) -> None:
        book, first = self.book, int(effect.first)
        last = first + len(effect.entries) - 1
        assert last <= book.end, f"I10: {host.name} applies up to {last}, and {book.end} are committed"
        self._check_limit(host, last)
        host.applied = last
        doomed = effect.doomed
        for offset, entry in enumerate(effect.entries, first):
            known = book.committed[offset - 1]
            assert entry is known or entry == known, f"I10: {host.name} applies {entry} at {offset}: it is {known}"
            if type(entry) is Txn:
                is_doomed = offset in book.doomed
                assert (offset in doomed) == is_doomed, f"I10: {host.name} applies {offset}, doomed: {is_doomed}"

    def _check_limit(self, host: CheckedHost, last: int) -> None:
        core = host.core
        assert core is not None
        if core.leader is not None:
            durable = host.node.disk.last if host.node.disk.records else host.node.disk.state.snapshot.head.offset
            assert last <= min(host.commit, durable), f"I11: the leader {host.name} applies {last}"
        else:
            limit = max(host.known, host.record.confirmed)
            assert last <= limit, f"I11: {host.name} applies {last}, and is confirmed to {limit}"

    def restores(self, host: CheckedHost, snapshot: SnapshotMeta) -> None:
        """The state machine goes to where a snapshot was taken: never back in one run of a process."""
        assert snapshot.head.offset >= host.applied, f"I5: {host.name} goes back from {host.applied} to {snapshot.head}"
        host.applied = snapshot.head.offset
        self.snapshot(host, snapshot)

    def snapshot(self, host: CheckedHost, snapshot: SnapshotMeta) -> None:
        """I9, and that its statements about the log are true."""
        book, head = self.book, snapshot.head
        if head.offset == 0:
            return
        assert book.holds(head), f"{host.name} has a snapshot at {head}, which is not committed"
        assert not book.is_doomed(Offset(head.offset)), f"I9: {host.name} has a snapshot at {head}, in a doomed range"
        for epoch, barrier in snapshot.epochs:
            assert (epoch, barrier) in book.epochs, f"{host.name}'s snapshot has {epoch} begin at {barrier}"
        window = snapshot.window_start
        kept = [each for each in book.ranges if window < each[1] <= head.offset]
        known = [each for each in snapshot.doomed if each[1] > window]
        assert known == kept, f"{host.name}'s snapshot at {head} says {known} is doomed, it is {kept}"

    def state(self, host: CheckedHost, applied: int, lists: dict[bytes, list[bytes]]) -> None:
        """A whole state machine, at rest."""
        expected = self.book.state_at(applied)
        assert lists == expected, f"I10: {host.name} at {applied} has {lists}, the log makes {expected}"


WRONG_MAX = 1  # state machines that the world makes wrong; beyond that a wrong snapshot has spread


class AgreementChecker:
    """Looks at every replica that was ever made wrong, or says that it is."""

    def __init__(self, records: Mapping[Member, HostRecord]) -> None:
        self.records = records

    def booted(self, host: CheckedHost) -> None:
        assert host.core is not None
        is_known = host.core.divergence is not None
        assert is_known or not host.record.is_diverged, f"{host.name} has forgotten that its state is wrong"

    def stepped(self, host: CheckedHost, effects: Sequence[Effect]) -> None:
        core, record = host.core, host.record
        assert core is not None
        if core.replica.agreement.divergence is None and not record.is_diverged:
            return
        assert record.is_damaged or self._has_spread(), f"{host.name} is right, and was found wrong"
        if record.is_diverged:
            assert core.leader is None, f"{host.name} leads with a state that it knows to be wrong"
            told = [effect for effect in effects if isinstance(effect, Serve | TakeSnapshot)]
            assert not told, f"{host.name} shows a state that it knows to be wrong: {told}"

    def _has_spread(self) -> bool:
        return sum(record.is_damaged for record in self.records.values()) > WRONG_MAX
