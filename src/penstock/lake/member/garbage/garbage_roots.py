"""The roots of a repository's garbage, for a process that marks and compares by itself, as Spark does.

Design: lake.md L15. The kept commits are decided here, as for the collector's own dry run; nothing is changed, and no
range is read. Roots must be asked for after a listing of the store: objects that come in between are then in neither.
"""

from penstock.lake.core.committed.metarange import EMPTY, tree_key
from penstock.lake.member.engine import Engine
from penstock.lake.member.garbage.garbage_marks import held_by, reachable
from penstock.lake.member.garbage.retention_service import kept_by_rules
from penstock.lake.member.shelves import LakeShelf
from penstock.lake.records.sink_batch import Roots

__all__ = ["GarbageRoots"]


class GarbageRoots:
    """The part of the service which tells them."""

    engine: Engine
    store_url: str

    async def garbage_roots(self, repository: str) -> Roots:
        found = await self.engine.repository(repository)
        held, shelf = held_by(self.engine.machine, found), self.engine.shelves.of(found)
        reached = await reachable(shelf, held.commits)
        kept = await kept_by_rules(shelf, held.heads, held.tags, reached) - held.expired
        return Roots(
            self.store_url,
            shelf.folder,
            shelf.storage,
            held.gce,
            await _metaranges(shelf, sorted(kept)),
            await _metaranges(shelf, sorted(reached - kept)),
            tuple(address for frame in held.staged for address in frame["address"]),
        )


async def _metaranges(shelf: LakeShelf, commits: list[str]) -> tuple[str, ...]:
    trees = [(await shelf.history.get(commit)).tree for commit in commits]
    return tuple(dict.fromkeys(tree_key(tree) for tree in trees if tree.id != EMPTY.id))
