"""GC_FENCE and CONDEMN: what makes it safe to delete objects. Design: lake.md L15.

Every object a record can introduce has a link epoch. A fence raises the epoch, and from then on objects that are two
epochs old can no longer be linked. A collector marks after its fence, condemns the commits whose data it will give up,
and sweeps only objects that are unmarked and older still: nothing can come to refer to them any more.
"""

from penstock.lake.core.staging.branch import Repository
from penstock.lake.core.staging.records import CommitId, Condemn, GcFence
from penstock.lake.core.staging.refs import Refs
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.core.staging.tables import Plan

__all__ = ["GarbageState"]


class GarbageState(Refs):
    """The rules of the garbage collector."""

    def _gc_fence(self, fence: GcFence) -> Result | Plan:
        repository = self.repositories.get(fence.repository)
        if repository is None:
            return Result(Status.NO_REPOSITORY)

        def fenced() -> Result:
            self.clear_touched(repository)
            with self.changing(repository):
                repository.gce += 1
                repository.has_touched_too_many = False
            return Result(Status.OK, detail=str(repository.gce))

        return fenced

    def _condemn(self, condemn: Condemn) -> Result | Plan:
        repository = self.repositories.get(condemn.repository)
        if repository is None:
            return Result(Status.NO_REPOSITORY)
        if not self._is_current_run(repository, condemn) or repository.has_touched_too_many:
            return Result(Status.REFUSED)
        if not set(condemn.commits).isdisjoint(self.held(repository)):
            return Result(Status.REFUSED)

        def condemned() -> Result:
            for commit in condemn.commits:
                if commit not in repository.expired:
                    repository.expired[commit] = None
                    self.total.add("expired", repository.instance, commit)
            return Result(Status.OK)

        return condemned

    def _is_current_run(self, repository: Repository, condemn: Condemn) -> bool:
        return condemn.gce == repository.gce

    def held(self, repository: Repository) -> set[CommitId]:
        """Commits which something refers to, or came to refer to since the fence."""
        heads = {branch.head for branch in repository.branches.values()}
        return heads | {tag.commit for tag in repository.tags.values()} | set(repository.touched)
