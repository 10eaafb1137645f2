"""What leaders commit and followers take for committed, counted over the disks. Invariants of quorum-log.md:

I4 every advance of commit has its quorum, by brute force · I5 commit never falls, and is one log · I7 `confirmed` is
committed · I17 cursors only rise, and no cursor claims more than its follower ever held · I22 across reconfigurations.
"""

from penstock.kernel.ids import EntryId, Epoch, Offset
from penstock.quorum.core.node import Node as Core
from penstock.quorum.records.member import Ensemble, Member
from penstock_lab.sim.checkers.book import Book
from penstock_lab.sim.checkers.hosts import CheckedHost, HostRecord

__all__ = ["CommitChecker", "Quorum"]

Quorum = tuple[int, Ensemble]  # this many of these members


class CommitChecker:
    """Looks at every node after each of its steps."""

    def __init__(self, book: Book, records: dict[Member, HostRecord], quorums: dict[int, list[Quorum]]) -> None:
        self.book = book
        self.records = records
        self.quorums = quorums  # members that may commit in an epoch, by the metadata so far
        self.committed: dict[Epoch, int] = {}  # how far the leader of an epoch has committed

    def stepped(self, host: CheckedHost) -> bool:
        """Returns whether the committed log has grown."""
        core = host.core
        assert core is not None
        is_news = False
        commit = core.replica.commit
        if commit != host.commit:
            is_news = self._commit(host, core, commit)
        confirmed = core.log.confirmed
        if confirmed != host.confirmed:
            assert confirmed > host.confirmed, f"P4: confirmed fell from {host.confirmed} to {confirmed}"
            host.confirmed = confirmed
            assert confirmed <= self.book.end, f"I7: {host.name} is confirmed to {confirmed} of {self.book.end}"
            self.book.claim(host.name, host.log, confirmed)
        host.known = max(host.known, host.record.confirmed, commit if core.leader is not None else 0)
        if core.leader is not None:
            self._cursors(host, core)
        return is_news

    def _commit(self, host: CheckedHost, core: Core, commit: Offset) -> bool:
        assert commit > host.commit, f"I5: {host.name}'s commit fell from {host.commit} to {commit}"
        host.commit = commit
        if core.leader is None:
            assert commit <= self.book.end, f"I5: {host.name} takes {commit} of {self.book.end} for committed"
        elif host.leads == core.epoch:
            self._check_quorum(host, core, commit)
            self.committed[core.epoch] = commit
        return self.book.claim(host.name, host.log, commit)

    def _check_quorum(self, host: CheckedHost, core: Core, upto: Offset) -> None:
        """P2, by everything that has ever been durable on the members' disks."""
        id_ = EntryId(Epoch(host.log.epoch_at(upto)), upto)
        assert id_.epoch == core.epoch, f"I4: {host.name} commits {id_} in epoch {core.epoch}"
        quorums = self.quorums.get(core.epoch, [])
        for size, members in quorums:
            if sum(self.records[each].has_held(id_) for each in members if each in self.records) >= size:
                return
        holders = [str(member) for member, record in self.records.items() if record.has_held(id_)]
        raise AssertionError(f"I4: {host.name} commits {id_}, held by {holders}; a quorum is one of {quorums}")

    def _cursors(self, host: CheckedHost, core: Core) -> None:
        assert core.leader is not None
        cursors = core.leader.replication.cursors
        seen = host.cursors
        for cursor in cursors:
            confirmed = cursor.last_confirmed
            epoch, before = seen.get(cursor.member, (None, -1))
            if (epoch, before) == (core.epoch, confirmed):
                continue
            assert epoch != core.epoch or confirmed >= before, f"I17: {cursor.member}'s cursor fell to {confirmed}"
            seen[cursor.member] = (core.epoch, confirmed)
            assert confirmed <= host.log.end, f"I17: {cursor.member} has confirmed {confirmed} of {host.log.end}"
            if confirmed > host.log.base.offset:
                id_ = EntryId(Epoch(host.log.epoch_at(confirmed)), confirmed)
                held = self.records[cursor.member].has_held(id_)
                assert held, f"I17: {host.name} believes {cursor.member} holds {id_}, and it never did"

    def before(self, epoch: Epoch) -> int:
        """Return how much leaders of lower epochs committed: a leader of this one must have that."""
        return max((upto for each, upto in self.committed.items() if each < epoch), default=0)
