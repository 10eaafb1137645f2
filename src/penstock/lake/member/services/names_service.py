"""Repositories, branches and tags of the lake's service. Design: lake.md L11, L12."""

import bisect
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from penstock.kernel.errors import AlreadyExists, Forbidden, InvalidArgument, NotFound
from penstock.lake.core.committed.metarange import EMPTY_TREE
from penstock.lake.core.refs.commit import Commit
from penstock.lake.core.refs.protection import ACTIONS, RULES_MAX, ProtectionRule, are_sound
from penstock.lake.core.staging.branch import Branch as BranchState
from penstock.lake.core.staging.branch import Repository as RepositoryState
from penstock.lake.core.staging.records import (
    CommitId,
    CreateBranch,
    CreateRepository,
    CreateTag,
    DeleteBranch,
    DeleteRepository,
    DeleteTag,
    HardReset,
    Reset,
    SetProtection,
)
from penstock.lake.core.staging.results import Status
from penstock.lake.member.engine import Engine, made_at
from penstock.lake.member.history import History
from penstock.lake.member.names import check_branch, check_repository, check_tag
from penstock.lake.records.service import AMOUNT_MAX, Branch, Page, Repository, Tag

__all__ = ["Names"]

T = TypeVar("T")


class Names:
    """The part of the service which deals with names."""

    engine: Engine

    # repositories

    async def create_repository(
        self, name: str, *, storage: str = "", default_branch: str = "main", is_read_only: bool = False
    ) -> Repository:
        check_repository(name)
        check_branch(default_branch)
        shelves = self.engine.shelves
        storage = shelves.canonical(storage or f"{shelves.prefix}{name}")
        await self.engine.sync()
        if self.engine.machine.repository_named(name) is not None:
            raise AlreadyExists(f"repository {name} already exists")
        owner = self.engine.machine.namespaces.overlapping(storage)  # the record decides; this saves its work
        if owner is not None:
            raise namespace_in_use(storage, owner)
        instance, token = self.engine.new_instance("repository"), self.engine.new_token()
        made_ns = int(made_at(instance) * 1e9)
        first = Commit(EMPTY_TREE, (), "penstock", "Repository created", made_ns, {}, instance, 1)
        commit = await History(shelves.store, shelves.folder_of(storage)).save(first)
        result = await self.engine.write(
            CreateRepository(
                self.engine.request(),
                name,
                instance,
                storage,
                default_branch,
                self.engine.new_instance("branch"),
                token,
                commit,
                is_read_only,
            )
        )
        if result.status is Status.IN_USE:
            raise namespace_in_use(storage, result.detail)
        self.engine.judge(result, f"repository {name}")
        return Repository(name, storage, default_branch, made_at(instance), is_read_only)

    async def repository(self, name: str) -> Repository:
        return _repository(await self.engine.repository(name))

    async def repositories(self, *, prefix: str = "", after: str = "", limit: int = AMOUNT_MAX) -> Page[Repository]:
        await self.engine.sync()
        found = {each.name: each for each in self.engine.machine.repositories.values()}
        return _page(found, prefix, after, limit, lambda name: _repository(found[name]))

    async def delete_repository(self, name: str) -> None:
        found = await self.engine.repository(name)
        result = await self.engine.write(DeleteRepository(self.engine.request(), found.instance))
        self.engine.judge(result, f"repository {name}")

    # protection

    async def protection(self, repository: str) -> tuple[ProtectionRule, ...]:
        return (await self.engine.repository(repository)).protection

    async def set_protection(
        self, repository: str, rules: Sequence[ProtectionRule], *, expected: str | None = None
    ) -> None:
        chosen = tuple(rules)
        if not are_sound(chosen):
            raise InvalidArgument(
                f"rules of protection: expected at most {RULES_MAX}, each with a pattern like main or release-* and "
                f"some of {', '.join(ACTIONS)}",
                next_step="write one rule for each pattern; braces have no meaning",
            )
        found = await self.engine.repository(repository)
        result = await self.engine.write(SetProtection(self.engine.request(), found.instance, chosen, expected))
        self.engine.judge(result, f"repository {repository}")

    # branches

    async def create_branch(self, repository: str, name: str, source: str, *, is_hidden: bool = False) -> Branch:
        check_branch(name)
        found = await self.engine.repository(repository)
        if name in found.branches:
            raise AlreadyExists(f"branch {name} already exists")
        other = found.branches.get(source)
        commit = None if other is not None else (await self.engine.commit_of(repository, source))[1]
        result = await self.engine.write(
            CreateBranch(
                self.engine.request(),
                found.instance,
                name,
                self.engine.new_instance("branch"),
                self.engine.new_token(),
                commit=CommitId(commit) if commit is not None else None,
                branch=other.instance if other is not None else None,
                is_hidden=is_hidden,
            )
        )
        self.engine.judge(result, f"branch {name}")
        return Branch(name, result.commit, is_hidden)

    async def branch(self, repository: str, name: str) -> Branch:
        _, found = await self.engine.branch(repository, name)
        return _branch(found)

    async def branches(
        self, repository: str, *, prefix: str = "", after: str = "", limit: int = AMOUNT_MAX, show_hidden: bool = False
    ) -> Page[Branch]:
        found = (await self.engine.repository(repository)).branches
        shown = [name for name, each in found.items() if show_hidden or not each.is_hidden]
        return _page(shown, prefix, after, limit, lambda name: _branch(found[name]))

    async def delete_branch(self, repository: str, name: str) -> None:
        found, branch = await self.engine.branch(repository, name)
        if name == found.default_branch:
            raise Forbidden(f"cannot delete repository default branch: {name} is that of {repository}")
        result = await self.engine.write(DeleteBranch(self.engine.request(), branch.instance))
        self.engine.judge(result, f"branch {name}")

    async def reset(self, repository: str, branch: str, *, path: str = "", prefix: str = "") -> None:
        await self.engine.write_to_branch(
            repository,
            branch,
            lambda _, known: Reset(
                self.engine.request(),
                known.instance,
                self.engine.new_token(),
                (path,) if path else (),
                (prefix,) if prefix else (),
            ),
        )

    async def hard_reset(self, repository: str, branch: str, ref: str) -> None:
        _, commit = await self.engine.commit_of(repository, ref)
        await self.engine.write_to_branch(
            repository,
            branch,
            lambda _, known: HardReset(
                self.engine.request(), known.instance, CommitId(commit), self.engine.new_token()
            ),
        )

    # tags

    async def create_tag(self, repository: str, name: str, ref: str) -> Tag:
        check_tag(name)
        found = await self.engine.repository(repository)
        if name in found.tags:
            raise AlreadyExists(f"tag already exists: {name}")
        _, commit = await self.engine.commit_of(repository, ref)
        record = CreateTag(
            self.engine.request(), found.instance, name, self.engine.new_instance("tag"), commit=CommitId(commit)
        )
        self.engine.judge(await self.engine.write(record), f"tag {name}")
        return Tag(name, commit)

    async def tag(self, repository: str, name: str) -> Tag:
        found = (await self.engine.repository(repository)).tags.get(name)
        if found is None:
            raise _no_tag(repository, name)
        return Tag(found.name, found.commit)

    async def tags(self, repository: str, *, prefix: str = "", after: str = "", limit: int = AMOUNT_MAX) -> Page[Tag]:
        found = (await self.engine.repository(repository)).tags
        return _page(found, prefix, after, limit, lambda name: Tag(name, found[name].commit))

    async def delete_tag(self, repository: str, name: str) -> None:
        found = await self.engine.repository(repository)
        tag = found.tags.get(name)
        if tag is None:
            raise _no_tag(repository, name)
        result = await self.engine.write(DeleteTag(self.engine.request(), found.instance, tag.instance))
        self.engine.judge(result, f"tag {name}")


def namespace_in_use(storage: str, owner: str) -> InvalidArgument:
    return InvalidArgument(
        f"storage namespace {storage!r} is in use: it overlaps that of {owner}",
        next_step="name another folder with --storage, or none: then it is named like the repository",
    )


def _no_tag(repository: str, name: str) -> NotFound:
    list_them = f"penstock lake tag list lake://{repository}"
    return NotFound(f"there is no tag {name!r} in {repository}", kind="tag", next_step=list_them)


def _page(names: Iterable[str], prefix: str, after: str, limit: int, show: Callable[[str], T]) -> Page[T]:
    """Names which begin so and come behind `after`, sorted."""
    inside = sorted(name for name in names if name.startswith(prefix))
    start = bisect.bisect_right(inside, after) if after else 0
    chosen = inside[start : start + limit]
    return Page([show(name) for name in chosen], chosen[-1] if chosen and start + limit < len(inside) else "")


def _repository(found: RepositoryState) -> Repository:
    return Repository(found.name, found.storage, found.default_branch, made_at(found.instance), found.is_read_only)


def _branch(found: BranchState) -> Branch:
    return Branch(found.name, found.head, found.is_hidden)
