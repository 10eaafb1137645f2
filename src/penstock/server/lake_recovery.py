"""Leave a lost queue behind: a new queue begins with the newest checkpoint of the old one. Design: L-17.

The state of the lake is in its checkpoints, so a lost queue takes with it only the changes after the newest one. The
recovered state is safe against the past:

- Its collector's epochs are far above the old ones: uploads from before are refused, and no collector of an old member
  that still runs can delete what the new queue links.
- Commits on their way are aborted. Requests that the checkpoint knows stay known.
- Its cursor is the beginning. A member stops if the queue has records from before the checkpoint.

Nothing is deleted. Commits that were made after the checkpoint are still files in the store, and are named.
"""

import time
from datetime import datetime
from typing import Final

import msgspec

from penstock.kernel.errors import AlreadyExists, DataDamaged, DataMissing, InvalidArgument, NotFound, PenstockError
from penstock.lake.core.refs.commit import commit_key
from penstock.lake.core.staging.branch import Repository
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import CommitId
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.member.checkpoints import Checkpoints
from penstock.lake.member.history import History
from penstock.lake.member.queue import START
from penstock.lake.member.shelves import Shelves
from penstock.plumbing.objects import ObjectStore

__all__ = ["LakeRecovery", "LateCommit", "recover"]

EPOCHS: Final = 1_000  # far above every run of a collector that may still be under way
COMMITS_MAX: Final = 1_000


class LateCommit(msgspec.Struct, frozen=True):
    """A commit that was made after the checkpoint: no branch of the recovered state has it."""

    repository: str
    commit: str
    created_at: float
    message: str


class LakeRecovery(msgspec.Struct, frozen=True):
    """The recovered state, and what may be missing in it."""

    queue: str
    position: int
    taken_at: float  # seconds since 1970; later changes are missing
    repositories: int
    branches: int
    staged_rows: int
    late_commits: tuple[LateCommit, ...] = ()
    late_objects: int = 0  # uploaded after the checkpoint
    lost_heads: tuple[str, ...] = ()  # REPOSITORY@BRANCH whose commit the store does not have
    unreadable: tuple[str, ...] = ()  # newer checkpoints that were passed over


async def recover(store: ObjectStore, store_url: str, queue: str, into: str) -> LakeRecovery:
    """Save the state of one queue as the first checkpoint of another. With one name for both, the old checkpoints move
    aside.
    """
    if not into or "/" in into:
        raise InvalidArgument(f"queue {into!r}: expected the name of a shard or a journal without slashes")
    old, new = _folder(queue), _folder(into)
    checkpoints = Checkpoints(store, old)
    _, machine = await checkpoints.newest()
    if not machine.applied:
        why = "; ".join(checkpoints.unreadable) or f"the store has none below {old}"
        raise NotFound(f"queue {queue} has no checkpoint: {why}", kind="checkpoint", next_step="compare --shard")
    if into != queue and [page async for page in store.list(new) if page.objects]:
        raise AlreadyExists(f"queue {into} has checkpoints already", next_step="name a queue that was never used")
    key, _ = checkpoints.take(START, machine)
    taken = (await store.head(key)).modified
    found = await _look(store, Shelves(store, store_url), machine, taken)
    former = [meta.key async for page in store.list(old) for meta in page.objects] if into == queue else []
    _begin_anew(machine)
    named, encode = Checkpoints(store, new).take(START, machine)
    await store.put(named, encode())
    aside = _folder(f"{queue}.before-{int(time.time())}")
    for each in former:
        await store.copy(each, aside + each.removeprefix(old))
        await store.delete(each)
    return msgspec.structs.replace(
        found, queue=into, position=machine.applied, unreadable=tuple(checkpoints.unreadable)
    )


def _folder(queue: str) -> str:
    return f"_penstock/lake/{queue}/"


def _begin_anew(machine: StagingMachine) -> None:
    machine.applied += 1  # so that the state differs from the old one by its name, too
    for attempt in list(machine.attempts.values()):
        machine.finish(attempt.request, Result(Status.ABORTED))
    for repository in machine.repositories.values():
        with machine.changing(repository):
            repository.gce += EPOCHS
    machine.check()


async def _look(store: ObjectStore, shelves: Shelves, machine: StagingMachine, taken: datetime) -> LakeRecovery:
    """Compare the store with the state."""
    commits: list[LateCommit] = []
    lost: list[str] = []
    objects = 0
    for repository in machine.repositories.values():
        folder = shelves.folder_of(repository.storage)
        history = History(store, folder)
        commits += await _late_commits(store, history, folder, repository, taken)
        lost += [f"{repository.name}@{branch}" for branch in await _lost_heads(history, repository)]
        async for page in store.list(f"{folder}data/"):
            objects += sum(meta.modified > taken for meta in page.objects)
    branches = machine.branches.values()
    return LakeRecovery(
        "", 0, taken.timestamp(), len(machine.repositories), len(branches), sum(branch.rows for branch in branches),
        tuple(sorted(commits, key=lambda each: each.created_at)), objects, tuple(lost),
    )  # fmt: skip


async def _late_commits(
    store: ObjectStore, history: History, folder: str, repository: Repository, taken: datetime
) -> list[LateCommit]:
    place = folder + commit_key(CommitId(""))
    ids = [meta.key[len(place) :] async for page in store.list(place) for meta in page.objects if meta.modified > taken]
    found = []
    for id_ in ids[:COMMITS_MAX]:
        try:
            commit = await history.get(id_)
        except PenstockError:
            continue  # a file that cannot be read is no commit to go back to
        found.append(LateCommit(repository.name, id_, commit.created_ns / 1e9, commit.message))
    return found


async def _lost_heads(history: History, repository: Repository) -> list[str]:
    lost = []
    for branch in repository.branches.values():
        try:
            await history.get(branch.head)
        except (DataMissing, DataDamaged):
            lost.append(branch.name)
    return lost
