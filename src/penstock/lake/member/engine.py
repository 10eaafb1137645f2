"""The engine under the lake's service: names to instances, refs to views, records to results. Design: lake.md L2, L6.

A read syncs first, then takes everything it needs from the state in one go. A write names instances. If it hits a
branch that was made again meanwhile, it does nothing, and is repeated with a request of its own.
"""

import asyncio
import copy
from collections.abc import Callable
from typing import Any, Final, Protocol

from penstock.kernel.errors import (
    AlreadyExists,
    DeadlineExceeded,
    DirtyBranch,
    Forbidden,
    Gone,
    Indeterminate,
    InternalError,
    NoChanges,
    NotFound,
    Overloaded,
    PenstockError,
    PreconditionFailed,
    Refused,
    Unavailable,
)
from penstock.lake.core.refs.expression import BaseKind, RefExpression, follow, lookup_order, parse_ref
from penstock.lake.core.staging.branch import Branch, Repository
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.proposing.port import Commit, Move, Write
from penstock.lake.core.staging.records import (
    Changing,
    CommitId,
    Condemn,
    CreateRepository,
    GcFence,
    Instance,
    Request,
    SetProtection,
    StagingToken,
)
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.member.builder import LakeBuilder
from penstock.lake.member.names import check_branch, check_repository
from penstock.lake.member.shelves import LakeShelf, Shelves, lost_if_absent
from penstock.lake.member.view import View

__all__ = ["Engine", "Host", "made_at"]

READ_ONLY_STEP: Final = "send force=true with a change that must be made, or change another repository"
QUEUE_S: Final = 30.0  # how long the queue may take
_HOUSEKEEPING: Final = (CreateRepository, SetProtection, GcFence, Condemn)  # a read-only repository takes these
AGAIN_MAX: Final = 5  # how often a write is made again on a newer view


class Host(Protocol):
    """The requests to a member: `MemberHost` implements it."""

    @property
    def machine(self) -> StagingMachine: ...

    @property
    def failed(self) -> str: ...

    async def request(self, body: Any, *, to_the_end: bool = False) -> Any: ...

    async def sync(self) -> None: ...

    async def ended(self) -> str: ...


def made_at(instance: str) -> float:
    """When an instance was made, in seconds since 1970."""
    number = instance.split("-")[1]
    return int(number) / 1e9 if number.isdigit() else 0.0


class Engine:
    """What the parts of the service share."""

    def __init__(self, host: Host, shelves: Shelves, builder: LakeBuilder) -> None:
        self.host = host
        self.shelves = shelves
        self.ports = shelves.ports
        self.is_forced = False  # changes read-only repositories too
        builder.shelf_of = self.shelf_of

    @property
    def machine(self) -> StagingMachine:
        return self.host.machine

    def shelf_of(self, instance: Instance) -> LakeShelf | None:
        """Return the object store of a branch."""
        branch = self.machine.branches.get(instance)
        return None if branch is None else self.shelves.of(self.machine.repositories[branch.repository])

    async def sync(self) -> None:
        """Until everything acknowledged before is in the state; `Unavailable` if the queue does not answer."""
        try:
            async with asyncio.timeout(QUEUE_S):
                await self.host.sync()
        except TimeoutError:
            raise Unavailable(
                f"the lake's queue did not answer within {QUEUE_S:g} s", next_step="penstock quorum status"
            ) from None

    # names

    async def repository(self, name: str) -> Repository:
        """A repository, fresh."""
        check_repository(name)
        await self.sync()
        return self.known_repository(name)

    def known_repository(self, name: str) -> Repository:
        found = self.machine.repository_named(name)
        if found is None:
            raise NotFound(
                f"there is no repository {name!r}",
                kind="repository",
                next_step=f"run penstock lake repo list, or penstock lake repo create {name}",
            )
        return found

    async def branch(self, repository: str, name: str) -> tuple[Repository, Branch]:
        """A branch, fresh."""
        found = await self.repository(repository)
        return found, self.known_branch(found, name)

    def known_branch(self, repository: Repository, name: str) -> Branch:
        branch = repository.branches.get(name)
        if branch is None:
            check_branch(name)
            list_them = f"run penstock lake branch list lake://{repository.name}"
            raise NotFound(f"there is no branch {name!r} in {repository.name}", kind="branch", next_step=list_them)
        return branch

    async def branch_to_write(self, repository: str, name: str) -> tuple[Repository, Branch]:
        """Return a branch as this member knows it: the record itself checks that it still exists and takes changes."""
        try:
            found = self.known_repository(repository)
            branch = self.known_branch(found, name)
            self._check_open(found, branch)
        except (NotFound, Forbidden):
            found, branch = await self.branch(repository, name)
            self._check_open(found, branch)
        return found, branch

    def _check_open(self, repository: Repository, branch: Branch) -> None:
        """Refuse early, before bytes travel."""
        self._check_changeable(repository)
        blocked = self.machine.is_blocked(branch, "staging_write")
        if blocked is not None:
            raise _error_of(blocked, branch.name)

    def _check_changeable(self, repository: Repository | None) -> None:
        """Refuse changes of a read-only repository. It is one for good, so no record needs to decide it."""
        if repository is not None and repository.is_read_only and not self.is_forced:
            raise Forbidden(f"read-only repository: {repository.name} takes no changes", next_step=READ_ONLY_STEP)

    def forced(self) -> "Engine":
        """Return the same engine, whose changes a read-only repository takes."""
        other = copy.copy(self)
        other.is_forced = True
        return other

    # refs

    async def view(self, repository: str, ref: str, *, stale_ok: bool = False) -> View:
        """Return the view of a ref. Only what a whole commit id names needs no SYNC."""
        wanted = parse_ref(ref)
        if not stale_ok:
            await self._sync_for(repository, wanted)
        found = self.known_repository(repository)
        shelf = self.shelves.of(found)
        branch = found.branches.get(wanted.base)
        if branch is not None and not wanted.committed_only:
            snapshot = self.machine.capture(branch.instance)
            assert snapshot is not None
            with lost_if_absent(f"the head of branch {wanted.base}"):
                tree = (await shelf.history.get(snapshot.head)).tree
            return View(shelf, snapshot.head, tree, snapshot)
        commit = await self._resolve(found, shelf, wanted, ref)
        return View(shelf, commit, (await shelf.history.get(commit)).tree)

    async def commit_of(self, repository: str, ref: str) -> tuple[LakeShelf, str]:
        """The commit a ref names; of a branch, its head."""
        wanted = parse_ref(ref)
        await self._sync_for(repository, wanted)
        found = self.known_repository(repository)
        shelf = self.shelves.of(found)
        return shelf, await self._resolve(found, shelf, wanted, ref)

    async def _sync_for(self, repository: str, wanted: RefExpression) -> None:
        is_commit = lookup_order(wanted.base)[0] is BaseKind.COMMIT
        if not is_commit or self.machine.repository_named(repository) is None:
            check_repository(repository)
            await self.sync()

    async def _resolve(self, repository: Repository, shelf: LakeShelf, wanted: RefExpression, text: str) -> str:
        base = await self._base(repository, shelf, wanted.base)
        if base is None:
            named = f"lake://{repository.name}"
            raise NotFound(
                f"there is no ref {text!r} in {repository.name}",
                kind="ref",
                next_step=f"run penstock lake branch list {named}, or penstock lake tag list {named}",
            )
        if base in repository.expired:
            raise Gone(f"commit {base} was given up by the garbage collector")
        await shelf.history.get(base, is_asked=lookup_order(wanted.base)[0] is BaseKind.COMMIT)
        commit = await shelf.history.search(follow(base, wanted.steps)) if wanted.steps else base
        if commit in repository.expired:
            raise Gone(f"commit {commit} was given up by the garbage collector")
        await shelf.history.get(commit)
        return commit

    async def _base(self, repository: Repository, shelf: LakeShelf, name: str) -> CommitId | None:
        for kind in lookup_order(name):
            if kind is BaseKind.COMMIT:
                return CommitId(name)
            if kind is BaseKind.BRANCH and name in repository.branches:
                return repository.branches[name].head
            if kind is BaseKind.TAG and name in repository.tags:
                return repository.tags[name].commit
            if kind is BaseKind.COMMIT_PREFIX:
                return await shelf.history.find(name)
        return None

    # writing

    def request(self) -> Request:
        """A new wish, under an id of its own."""
        return Request(self.ports.chance.token(16).hex(), self.machine.now)

    def new_instance(self, kind: str) -> Instance:
        """Return a name for one life of something. It tells when it was made."""
        return Instance(f"{kind}-{self.ports.clock.time_ns()}-{self.ports.chance.token(6).hex()}")

    def new_token(self) -> StagingToken:
        return StagingToken(self.ports.chance.token(12).hex())

    async def ask(self, wish: Commit | Move, *, to_the_end: bool = False) -> Result:
        """Have a head moved; the final result."""
        self._check_changeable(self._repository_of(wish.instance))
        result: Result = await self.host.request(wish, to_the_end=to_the_end)
        return result

    def _repository_of(self, instance: Instance) -> Repository | None:
        """Return the repository of a branch or a tag's record, or that with the instance itself."""
        branch = self.machine.branches.get(instance)
        return self.machine.repositories.get(instance if branch is None else branch.repository)

    async def write(self, record: Changing) -> Result:
        """Have a record applied; its final result."""
        if not isinstance(record, _HOUSEKEEPING):
            named = getattr(record, "repository", None) or getattr(record, "instance", None)
            self._check_changeable(self._repository_of(named) if named is not None else None)
        try:
            async with asyncio.timeout(QUEUE_S):
                result: Result = await self.host.request(Write(record))
                return result
        except TimeoutError:
            raise DeadlineExceeded(
                f"the lake's queue did not answer within {QUEUE_S:g} s; the change may still be made",
                next_step="look whether it was made, before asking again",
            ) from None

    async def write_to_branch(
        self, repository: str, branch: str, make: Callable[[Repository, Branch], Changing]
    ) -> tuple[Result, LakeShelf]:
        """Write a record for a branch by name, and repeat it if the branch that this member knew is gone."""
        found, known = await self.branch_to_write(repository, branch)
        result = await self.write(make(found, known))
        if result.status is Status.NO_BRANCH:
            found, fresh = await self.branch(repository, branch)
            if fresh.instance == known.instance:
                raise InternalError(f"branch {branch} both exists and does not")
            result = await self.write(make(found, fresh))
        self.judge(result, branch)
        return result, self.shelves.of(found)

    def judge(self, result: Result, what: str) -> None:
        """Raise the error of a result that is not OK."""
        if result.status is not Status.OK:
            raise _error_of(result, what)


def _error_of(result: Result, what: str) -> PenstockError:
    detail = f" ({result.detail})" if result.detail else ""
    make = _ERRORS.get(result.status)
    return make(what, result) if make is not None else Refused(f"{what}: {result.status.value}{detail}")


def _missing(what: str, result: Result) -> PenstockError:
    kind = result.status.value.removeprefix("no-")
    return NotFound(f"{what}: there is no such {kind}", kind=kind)


def _cancelled(what: str, result: Result) -> PenstockError:
    match result.detail:
        case Status.STALE_GC.value:
            return Gone(f"{what}: the upload is older than a whole garbage collection: upload again")
        case Status.BUSY.value:
            return Overloaded(f"{what}: too much is staged; commit or reset something")
        case Status.NO_BRANCH.value:
            return NotFound(f"{what}: there is no such branch", kind="branch")
        case _:
            return Refused(f"{what}: given up ({result.detail})")


def _protected(what: str, result: Result) -> PenstockError:
    verb = "commit" if result.detail == "commit" else "write"
    return Forbidden(
        f"cannot {verb} to protected branch {what}",
        next_step="work on another branch and merge it, or change the rules: penstock lake protection list",
    )


_ERRORS: Final[dict[Status, Callable[[str, Result], PenstockError]]] = {
    Status.NO_BRANCH: _missing,
    Status.NO_REPOSITORY: _missing,
    Status.NO_TAG: _missing,
    Status.CANCELLED: _cancelled,
    Status.EXISTS: lambda what, _: AlreadyExists(f"{what} already exists"),
    Status.PRECONDITION_FAILED: lambda _, result: PreconditionFailed(f"precondition failed: {result.detail}"),
    Status.NO_CHANGES: lambda *_: NoChanges("no changes"),
    Status.DIRTY: lambda *_: DirtyBranch(
        "uncommitted changes (dirty branch)",
        next_step="commit the changes of the branch, or reset it",
    ),
    Status.PROTECTED: _protected,
    Status.EXPIRED_COMMIT: lambda what, _: Gone(f"{what}: the commit was given up by the garbage collector"),
    Status.ABORTED: lambda what, _: Unavailable(f"{what}: the commit was aborted: its build failed or took too long"),
    Status.EXPIRED: lambda what, _: Indeterminate(f"{what}: too old for anyone to remember; ask the branch's log"),
}
