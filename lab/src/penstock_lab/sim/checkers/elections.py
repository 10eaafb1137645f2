"""Leaders, and nodes that could be elected right now. Invariants of quorum-log.md:

I2 and P9: one leader per epoch, fenced into it in this run, with nothing done in it before · I5: every leader's log has
the whole committed prefix · I22: every node that a fence quorum could make leader at this very moment has it, too. That
last one looks ahead: it fails at the step which makes a bad election possible, not when one happens.
"""

from collections.abc import Mapping

from penstock.kernel.ids import EntryId, Epoch, NodeId
from penstock.quorum.core.node import Node as Core
from penstock.quorum.records.member import Ensemble, majority
from penstock_lab.sim.checkers.book import Author, Book
from penstock_lab.sim.checkers.commits import CommitChecker
from penstock_lab.sim.checkers.hosts import CheckedHost
from penstock_lab.sim.checkers.shadow_log import durable_epoch_at, durable_head

__all__ = ["ElectionChecker"]


class ElectionChecker:
    """Looks at leaders when they begin, and at the disks whenever one changes."""

    def __init__(self, book: Book, commits: CommitChecker, hosts: Mapping[NodeId, CheckedHost]) -> None:
        self.book = book
        self.commits = commits
        self.hosts = hosts
        self.leaders: dict[Epoch, Author] = {}

    def stepped(self, host: CheckedHost) -> None:
        core = host.core
        assert core is not None
        if core.leader is None:
            host.leads = Epoch(0)
        elif host.leads != core.epoch:
            self._leads(host, core)
        if core.epoch != host.epoch:
            assert core.epoch > host.epoch, f"P9: {host.name}'s epoch fell from {host.epoch} to {core.epoch}"
            host.epoch = core.epoch

    def _leads(self, host: CheckedHost, core: Core) -> None:
        """A node has become leader, or continues in a higher epoch by a reconfiguration."""
        epoch, me = core.epoch, (host.node.name, host.node.run)
        assert self.leaders.setdefault(epoch, me) == me, f"I2: {self.leaders[epoch]} and {me} lead epoch {epoch}"
        if not host.leads:
            self._check_right(host, epoch)
            self._check_complete(host, epoch)
        host.leads = host.led = epoch

    def _check_right(self, host: CheckedHost, epoch: Epoch) -> None:
        assert host.fenced == epoch, f"P9: {host.name} leads {epoch}, but was fenced into {host.fenced}"
        assert host.led < epoch, f"P9: {host.name} leads {epoch} for the second time"
        assert host.followed < epoch, f"P9: {host.name} leads {epoch}, which it has followed"

    def _check_complete(self, host: CheckedHost, epoch: Epoch) -> None:
        """Late news may make a node lead an epoch that is over: it has everything committed before that epoch."""
        end = self.commits.before(epoch)
        has_it = end < host.log.base.offset or host.log.epoch_at(end) == self.book.epoch_at(end)
        assert has_it, f"I5: {host.name} leads {epoch} without {self.book.epoch_at(end)}/{end}, which is committed"

    def check_electable(self, ensemble: Ensemble) -> None:
        """Every member of the ensemble which some fence quorum would choose has everything committed."""
        able: list[tuple[EntryId, CheckedHost]] = []
        for member in ensemble:
            host = self.hosts.get(member.node)
            if host is not None and host.member == member and host.node.disk.state.is_formatted:
                able.append((durable_head(host.node.disk), host))
        end = self.book.end
        epoch = self.book.epoch_at(end)
        for head, host in able:
            disk = host.node.disk
            if head.offset >= end and (durable_epoch_at(disk, end) == epoch or disk.state.snapshot.head.offset >= end):
                continue
            voters = sum(other <= head for other, _ in able)
            assert voters < majority(len(ensemble)), (
                f"I22: {host.name}, whose log ends at {head}, could be elected without {epoch}/{end}, "
                f"which is committed, by {[str(each.member) for other, each in able if other <= head]} of "
                f"{[str(each) for each in ensemble]}"
            )
