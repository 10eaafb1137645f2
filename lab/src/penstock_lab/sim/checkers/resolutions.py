"""What `resolve` says, on any node at any time (quorum-log.md P10, I13, I14): one answer, and the committed log's."""

from penstock.kernel.ids import EntryId
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.records.resolution import Resolution
from penstock_lab.sim.checkers.book import Book
from penstock_lab.sim.checkers.hosts import CheckedHost

__all__ = ["ResolutionChecker"]


class ResolutionChecker:
    """Compares every answer with the book."""

    def __init__(self, book: Book, config: NodeConfig) -> None:
        self.book = book
        self.config = config

    def answered(self, host: CheckedHost, entry: EntryId, answer: Resolution) -> None:
        core = host.core
        assert core is not None
        verdict = self.book.verdict(entry)
        match answer:
            case Resolution.COMMITTED | Resolution.ABORTED:
                assert answer.value == verdict, f"P10: {host.name} says {entry} is {answer.value}, it is {verdict}"
            case Resolution.PENDING:
                self._check_may_not_know(host, entry)
            case Resolution.EXPIRED:
                snapshot = core.replica.snapshot
                reach = max(snapshot.window_start, snapshot.head.offset - self.config.resolve_window)
                assert entry.offset < reach, f"P10: {host.name} says {entry} is expired, and its window is {reach}"
            case Resolution.NOT_LEADER:
                assert entry.epoch > core.epoch, f"P10: {host.name} is in {core.epoch} and knows {entry.epoch}"

    def _check_may_not_know(self, host: CheckedHost, entry: EntryId) -> None:
        core = host.core
        assert core is not None
        assert entry.offset > core.log.confirmed, f"P10: {host.name} is confirmed beyond {entry}, and says PENDING"
        if core.leader is not None:
            assert entry.offset > host.commit, f"P10: {host.name} has committed beyond {entry}, and says PENDING"
            barrier = next((at for epoch, at in self.book.epochs if epoch == core.epoch), None)
            is_past = barrier is not None and barrier <= host.commit and entry.epoch < core.epoch
            assert not is_past, f"P10: {host.name} has its barrier at {barrier}, and says {entry} is PENDING"

    def finish(self, host: CheckedHost, entry: EntryId) -> None:
        """At the end every member knows."""
        assert host.core is not None
        answer = host.core.resolve(entry)
        self.answered(host, entry, answer)
        assert answer in (Resolution.COMMITTED, Resolution.ABORTED, Resolution.EXPIRED), (
            f"I14: at the end {host.name} says {entry} is {answer}"
        )
