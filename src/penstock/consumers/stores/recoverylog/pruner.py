"""Prunes a recovery log: removes stored fragments which no hints need any more. The rules: `pruning.py` of the core.

Two rules are added here. The newest stored fragment stays, whatever the hints say: where no broker serves the journal,
it alone says how far the journal had come. And what only brokers hold stays: it is not stored yet.
"""

from collections.abc import Iterable, Sequence

import msgspec

from penstock.consumers.core.recoverylog.hints import Hints
from penstock.consumers.core.recoverylog.pruning import Extent, plan
from penstock.consumers.stores.recoverylog.hints_keeper import HintsKeeper
from penstock.journals.client.journal import Journals
from penstock.journals.records.fragment import Fragment
from penstock.journals.storage.fragment_store import FragmentStores
from penstock.kernel.errors import Unavailable

__all__ = ["LogPruning", "plan_pruning", "prune"]


class LogPruning(msgspec.Struct, frozen=True):
    """What would be removed of a log, and what stays."""

    log: str
    gone: tuple[Fragment, ...]
    kept: tuple[Fragment, ...]

    @property
    def bytes(self) -> int:
        return sum(fragment.length for fragment in self.gone)


async def plan_pruning(journals: Journals, log: str, keepers: Sequence[HintsKeeper]) -> LogPruning:
    """A dry run. `keepers` are those of every shard which uses the log."""
    # The fragments first: operations recorded meanwhile are in none of them, and newer hints need less of them, not
    # more.
    known = await journals.fragments(log)
    if not known.is_refreshed:
        raise Unavailable(f"{log}: its stores could not be listed yet")
    hints = [each for keeper in keepers for each in await keeper.all()]
    return _planned(log, known.fragments, hints)


async def prune(stores: FragmentStores, pruning: LogPruning) -> int:
    """Remove the planned fragments; return their number of bytes. A fragment that is gone already is no error."""
    await stores.delete(pruning.gone)
    return pruning.bytes


def _planned(log: str, fragments: Iterable[Fragment], hints: Sequence[Hints]) -> LogPruning:
    every = sorted(fragments, key=lambda each: (each.begin, each.end))
    stored = [each for each in every if each.backing_store]
    last_end = max((each.end for each in stored), default=0)
    gone = set(plan(log, [Extent(each.begin, each.end) for each in stored], hints).gone)
    removed = [each for each in stored if Extent(each.begin, each.end) in gone and each.end < last_end]
    return LogPruning(log, tuple(removed), tuple(each for each in every if each not in removed))
