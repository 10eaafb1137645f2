"""Checkpoints: the whole state as bytes, the same on every member at the same position. Design: lake.md L1, L17.

A checkpoint is a header in msgpack and the runs of all areas as Arrow IPC streams, in one piece: position and state are
one atomic write. Indexes are not in it; they are built again from the runs.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from penstock.kernel.codec import Codec
from penstock.lake.core.refs.protection import ProtectionRule
from penstock.lake.core.staging.areas.area import StagingArea
from penstock.lake.core.staging.areas.run import Run
from penstock.lake.core.staging.branch import Attempt, Branch, Repository, SinkState, Tag
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import CommitId, Instance, Limits
from penstock.lake.core.staging.requests import Recorded

__all__ = ["dump", "freeze", "load"]

M = TypeVar("M", bound=StagingMachine)


class _Area(msgspec.Struct, frozen=True, array_like=True):
    token: str
    runs: list[bytes]
    memtable: dict[str, Entry | None]


class _Branch(msgspec.Struct, frozen=True, array_like=True):
    instance: Instance
    repository: Instance
    name: str
    head: CommitId
    is_hidden: bool
    areas: list[_Area]
    sinks: dict[str, SinkState]


class _Repository(msgspec.Struct, frozen=True, array_like=True):
    instance: Instance
    name: str
    storage: str
    default_branch: str
    tags: dict[str, Tag]
    gce: int
    expired: list[CommitId]
    touched: list[CommitId]
    has_touched_too_many: bool
    is_read_only: bool = False
    protection: tuple[ProtectionRule, ...] = ()


class _State(msgspec.Struct, frozen=True, tag="lake-staging-1"):
    applied: int
    now: int
    version: int
    limits: Limits
    floor: int
    requests: list[Recorded]
    attempts: list[Attempt]
    repositories: list[_Repository]
    branches: list[_Branch]
    retired: dict[str, int] = {}


_codec: Codec[_State] = Codec(_State)


def dump(machine: StagingMachine) -> bytes:
    """Return everything that any member needs to continue from here."""
    return freeze(machine)()


def freeze(machine: StagingMachine) -> Callable[[], bytes]:
    """The state as it is now; the call makes it bytes, later and on any thread, whatever the machine does meanwhile.

    Runs never change, so the copy made here is small.
    """
    areas = {
        branch.instance: [(area.token, tuple(area.runs), dict(area.memtable)) for area in branch.areas]
        for branch in machine.branches.values()
    }
    state = _State(
        machine.applied,
        machine.now,
        machine.version,
        machine.limits,
        machine.requests.floor,
        list(machine.requests),
        list(machine.attempts.values()),
        [_dump_repository(each) for each in machine.repositories.values()],
        [_dump_branch(each) for each in machine.branches.values()],
        dict(machine.retired),
    )

    def encode() -> bytes:
        for branch in state.branches:
            branch.areas.extend(
                _Area(token, [run.to_bytes() for run in runs], memtable)
                for token, runs, memtable in areas.pop(branch.instance, ())
            )
        return _codec.encode(state)

    return encode


def load(data: bytes, kind: type[M]) -> M:
    """The machine a checkpoint was taken of; empty data is the state before the first record."""
    machine = kind()
    if not data:
        return machine
    state = _codec.decode(data)
    machine.applied, machine.now, machine.version = state.applied, state.now, state.version
    machine.limits = state.limits
    machine.requests = machine.request_table(machine.total, state.requests, state.floor)
    for attempt in state.attempts:
        machine.set_attempt(attempt.request.id, attempt)
    for repository in state.repositories:
        _load_repository(machine, repository)
    for branch in state.branches:
        _load_branch(machine, branch)
    for storage, epoch in state.retired.items():
        machine.retire(storage, epoch)
    return machine


def _dump_repository(repository: Repository) -> _Repository:
    return _Repository(
        repository.instance,
        repository.name,
        repository.storage,
        repository.default_branch,
        dict(repository.tags),
        repository.gce,
        list(repository.expired),
        list(repository.touched),
        repository.has_touched_too_many,
        repository.is_read_only,
        repository.protection,
    )


def _dump_branch(branch: Branch) -> _Branch:
    """Return all of a branch but its areas."""
    sinks = dict(branch.sinks)
    return _Branch(branch.instance, branch.repository, branch.name, branch.head, branch.is_hidden, [], sinks)


def _load_repository(machine: StagingMachine, saved: _Repository) -> None:
    repository = Repository(
        saved.instance, saved.name, saved.storage, saved.default_branch, is_read_only=saved.is_read_only
    )
    repository.protection = saved.protection
    repository.gce, repository.has_touched_too_many = saved.gce, saved.has_touched_too_many
    machine.add_repository(repository)
    for tag in saved.tags.values():
        repository.tags[tag.name] = tag
        machine.total.add("tag", repository.instance, tag)
    for kind, commits, mine in (
        ("expired", saved.expired, repository.expired),
        ("touched", saved.touched, repository.touched),
    ):
        for commit in commits:
            mine[commit] = None
            machine.total.add(kind, repository.instance, commit)


def _load_branch(machine: StagingMachine, saved: _Branch) -> None:
    areas = []
    for area in saved.areas:
        loaded = StagingArea(saved.instance, area.token, [Run.from_bytes(run) for run in area.runs])
        for path, entry in area.memtable.items():
            loaded.put(path, entry)
        areas.append(loaded)
    branch = Branch(saved.instance, saved.repository, saved.name, saved.head, areas, is_hidden=saved.is_hidden)
    machine.add_branch(branch)
    machine.total.change(branch.sum())
    for query, sink in saved.sinks.items():
        machine.set_sink(branch, query, sink)
