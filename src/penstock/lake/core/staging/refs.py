"""Repositories, branches, tags: how they come and go. Design: lake.md L11, L15 b.

A created thing has an instance of its own, given in the record and never used again; a deletion names it.
"""

from penstock.lake.core.refs.protection import are_sound, etag_of
from penstock.lake.core.staging.areas.area import StagingArea
from penstock.lake.core.staging.branch import Branch, Repository, Tag
from penstock.lake.core.staging.commits import Commits
from penstock.lake.core.staging.namespaces import is_canonical
from penstock.lake.core.staging.records import (
    CommitId,
    CreateBranch,
    CreateRepository,
    CreateTag,
    DeleteBranch,
    DeleteRepository,
    DeleteTag,
    SetProtection,
)
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.core.staging.tables import Plan

__all__ = ["Refs"]


class Refs(Commits):
    """The rules of names."""

    def _create_repository(self, create: CreateRepository) -> Result | Plan:
        is_taken = create.instance in self.repositories or create.branch_instance in self.branches
        if is_taken or self.repository_named(create.name) is not None:
            return Result(Status.EXISTS)
        refusal = self._refuse_namespace(create.storage) if self.has_disjoint_namespaces else None
        if refusal is not None:
            return refusal

        def created() -> Result:
            is_read_only = create.is_read_only and self.has_protection
            repository = Repository(
                create.instance, create.name, create.storage, create.branch, is_read_only=is_read_only
            )
            repository.gce = self.retired.get(create.storage, repository.gce)
            self.retire(create.storage, None)
            self.add_repository(repository)
            area = StagingArea(create.branch_instance, create.token)
            self.add_branch(Branch(create.branch_instance, create.instance, create.branch, create.commit, [area]))
            return Result(Status.OK, create.commit)

        return created

    def _refuse_namespace(self, storage: str) -> Result | None:
        """D17: canonical, and disjoint from all others, those of deleted repositories included."""
        if not is_canonical(storage):
            return Result(Status.MALFORMED, detail="the storage namespace is not canonical")
        owner = self.namespaces.overlapping(storage) or self.retired_namespaces.overlapping(storage, may_be_equal=True)
        return None if owner is None else Result(Status.IN_USE, detail=owner)

    def _delete_repository(self, delete: DeleteRepository) -> Result | Plan:
        repository = self.repositories.get(delete.repository)
        if repository is None:
            return Result(Status.NO_REPOSITORY)

        def deleted() -> Result:
            self.drop_repository(repository)
            if self.has_disjoint_namespaces:
                self.retire(repository.storage, repository.gce + 1)
            return Result(Status.OK)

        return deleted

    def _set_protection(self, change: SetProtection) -> Result | Plan:
        repository = self.repositories.get(change.repository)
        if repository is None:
            return Result(Status.NO_REPOSITORY)
        if not self.has_protection or not are_sound(change.rules):
            return Result(Status.MALFORMED, detail="the rules of protection cannot be read")
        if change.expected not in (None, etag_of(repository.protection)):
            return Result(Status.PRECONDITION_FAILED, detail="the rules of protection have changed")

        def protected() -> Result:
            with self.changing(repository):
                repository.protection = change.rules
            return Result(Status.OK)

        return protected

    def _create_branch(self, create: CreateBranch) -> Result | Plan:
        repository = self.repositories.get(create.repository)
        if repository is None:
            return Result(Status.NO_REPOSITORY)
        if create.name in repository.branches or create.instance in self.branches:
            return Result(Status.EXISTS)
        head = self._resolve(repository, create)
        if isinstance(head, Result):
            return head

        def created() -> Result:
            self.touch(repository, head)
            area = StagingArea(create.instance, create.token)
            self.add_branch(
                Branch(create.instance, create.repository, create.name, head, [area], is_hidden=create.is_hidden)
            )
            return Result(Status.OK, head)

        return created

    def _resolve(self, repository: Repository, create: CreateBranch | CreateTag) -> CommitId | Result:
        """The source, resolved at apply if it is a branch."""
        if create.branch is not None:
            source = self.branches.get(create.branch)
            if source is None or source.repository != repository.instance:
                return Result(Status.NO_BRANCH)
            return source.head
        if create.commit is None:
            return Result(Status.MALFORMED, detail="a source is missing")
        return create.commit if self.may_reference(repository, create.commit) else Result(Status.EXPIRED_COMMIT)

    def _delete_branch(self, delete: DeleteBranch) -> Result | Plan:
        branch = self.branches.get(delete.instance)
        if branch is None:
            return Result(Status.NO_BRANCH)

        def deleted() -> Result:
            self.drop_branch(branch)
            return Result(Status.OK)

        return deleted

    def _create_tag(self, create: CreateTag) -> Result | Plan:
        repository = self.repositories.get(create.repository)
        if repository is None:
            return Result(Status.NO_REPOSITORY)
        if create.name in repository.tags:
            return Result(Status.EXISTS)
        commit = self._resolve(repository, create)
        if isinstance(commit, Result):
            return commit

        def created() -> Result:
            self.touch(repository, commit)
            repository.tags[create.name] = Tag(create.name, create.instance, commit)
            self.total.add("tag", repository.instance, repository.tags[create.name])
            return Result(Status.OK, commit)

        return created

    def _delete_tag(self, delete: DeleteTag) -> Result | Plan:
        repository = self.repositories.get(delete.repository)
        tags = {} if repository is None else repository.tags
        tag = next((each for each in tags.values() if each.instance == delete.instance), None)
        if tag is None:
            return Result(Status.NO_TAG)

        def deleted() -> Result:
            self.total.remove("tag", delete.repository, tag)
            del tags[tag.name]
            return Result(Status.OK)

        return deleted
