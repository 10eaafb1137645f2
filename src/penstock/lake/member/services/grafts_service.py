"""Grafts of the lake's service: trees which were built elsewhere, by Spark say, become commits. Design: lake.md L15.

The builder of the tree has written its ranges and its metarange into a location of its own, under the link epoch that
it was given. One PERFORM moves the head; its link epoch keeps it from naming what a collector may have swept meanwhile.
"""

import re
from dataclasses import dataclass
from typing import Final

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.formats import LAKE_TREE
from penstock.lake.core.committed.leaves.root import Root
from penstock.lake.core.committed.metarange import Location, MetaRangeId, TreeAddress
from penstock.lake.core.refs.commit import Commit
from penstock.lake.core.staging.proposing import port
from penstock.lake.core.staging.records import Request
from penstock.lake.core.staging.results import Status
from penstock.lake.member.services.commits_service import CommitsService
from penstock.lake.member.wishes import Draft, Made
from penstock.lake.records.sink_batch import BatchOutcome, TreeBody

__all__ = ["GraftWish", "Grafts"]

_LOCATION: Final = re.compile(r"_penstock/([0-9]{8})/[A-Za-z0-9_-]{1,128}")
_ID: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(slots=True)
class GraftWish:
    """A whole tree in place of what the branch has below a prefix."""

    draft: Draft
    source: TreeAddress
    prefix: str

    async def make(self, head: str, parent: Commit, location: Location) -> Made:
        trees = self.draft.shelf.trees
        contents = await trees.files.open(self.source)
        own = f"{self.source.location}/"
        files = contents.files if isinstance(contents, Root) else {f"{each}/" for each in contents.locations.values()}
        if not all(each.startswith(own) for each in files):
            raise InvalidArgument(f"tree {self.source.id} refers to files outside of {self.source.location}")
        return Made(await trees.graft(parent.tree, self.source, self.prefix, location))


class Grafts(CommitsService):
    """The part of the service which commits trees."""

    async def commit_tree(self, repository: str, branch: str, body: TreeBody) -> BatchOutcome:
        """Commit a tree; asking again does nothing twice, for a day."""
        where = _LOCATION.fullmatch(body.location)
        if where is None or not _ID.fullmatch(body.tree) or not 0 < len(body.query) <= 200:
            raise InvalidArgument("a tree has an id of 64 hexadecimal digits, a location, and the id of its job")
        if not LAKE_TREE.reads <= body.format <= LAKE_TREE.version:
            raise InvalidArgument(
                f"format {body.format}: expected {LAKE_TREE.reads} to {LAKE_TREE.version}",
                next_step="run the same release of Penstock on the lake and in Spark",
            )
        found, known = await self.engine.branch(repository, branch)
        draft = self._draft(self.engine.shelves.of(found), body.message or "Import", "", body.metadata)
        source = TreeAddress(MetaRangeId(body.tree), Location(body.location), body.format)
        request = Request(f"tree/{body.query}", self.engine.machine.now)
        was_known = self.engine.machine.requests.get(request.id) is not None
        wish = GraftWish(draft, source, body.prefix)
        result = await self.engine.ask(
            port.Move(request, known.instance, wish, is_clean=True, link_epoch=int(where[1]))
        )
        if result.status not in (Status.OK, Status.NO_CHANGES):
            self.engine.judge(result, branch)
        return BatchOutcome("replayed" if was_known else "applied", result.commit)
