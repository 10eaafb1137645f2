"""What clients of the simulated lake do: putters, readers, committers, movers, administrators, protectors of branches,
drivers of a sink.
"""

from collections.abc import Generator
from random import Random
from typing import Any

from penstock.kernel.ids import MILLISECOND
from penstock.lake.core.refs.protection import ProtectionRule, etag_of
from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.areas.entry_columns import batch_of, batch_to_bytes
from penstock.lake.core.staging.areas.run import SMALL_ROWS_MAX
from penstock.lake.core.staging.branch import Branch
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.proposing.port import Commit, Move, Read, RefsRead, Write
from penstock.lake.core.staging.records import (
    FromCommit,
    FromStaged,
    Instance,
    Limits,
    Precondition,
    Put,
    Row,
    SinkPart,
    StagingToken,
)
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.core.staging.tables import RULES
from penstock_lab.sim.workloads.lake_builder import Import, Merge, Revert
from penstock_lab.sim.workloads.lake_clients import Pause, Script, SimLakeClient
from penstock_lab.sim.workloads.lake_collector import collect
from penstock_lab.sim.workloads.lake_lookup import copied, with_basis

__all__ = ["PATHS", "SCRIPTS"]

PATHS = ("a/1", "a/2", "b/1", "c/1", "d")
REPOSITORY = Instance("r1")
TTL_NS = 15 * MILLISECOND
MAIN_RULES = (ProtectionRule("main"),)

Steps = Generator[Any, Any, None]


def some_branch(client: SimLakeClient) -> tuple[StagingMachine, Branch] | None:
    """A branch as some member knows it; mostly main."""
    machine = client.peek()
    if machine is None or not machine.branches:
        return None
    branches = list(machine.branches.values())
    return machine, branches[0] if client.rng.random() < 0.6 else client.rng.choice(branches)


def upload(client: SimLakeClient, machine: StagingMachine) -> tuple[Entry, int]:
    """A new data object, and the link epoch of its address. Few contents, so that equal ones meet."""
    repository = machine.repositories[REPOSITORY]
    return Entry(client.workload.shelf.upload(repository.gce), 1, client.rng.choice("xyz")), repository.gce


def put(client: SimLakeClient) -> Steps:
    """Put, delete, put on a condition, copy; now and then long after the upload."""
    rng = client.rng
    found = some_branch(client)
    if found is None:
        return
    machine, branch = found
    kind = rng.random()
    path = rng.choice(PATHS)
    if kind < 0.2:
        yield Write(r.Delete(client.request(machine), branch.instance, (path,)))
        return
    if kind < 0.35:
        row = copied(client.workload.shelf, machine, FromStaged(branch.instance, path), rng.choice(PATHS))
        if rng.random() < 0.4:
            row = _copied_from_history(client, path)
        if row is not None:
            epoch = machine.repositories[REPOSITORY].gce
            to = rng.choice(list(machine.branches))
            request = client.request(machine)
            yield Pause(int(rng.random() * rng.choice((1, 40)) * MILLISECOND))
            yield Write(Put(request, to, epoch, (row,)))
        return
    entry, epoch = upload(client, machine)
    rows: tuple[Row, ...] = (Row(path, entry),)
    if kind < 0.55:
        rows = (Row(path, entry, rng.choice((Precondition(absent=True), Precondition(), Precondition(etag="x")))),)
    elif kind < 0.65:
        other, _ = upload(client, machine)
        wide = [(f"w/{row}", other) for row in range(SMALL_ROWS_MAX)] if client.workload.is_wide else []
        batch = batch_to_bytes(batch_of([(path, entry), (path + "'", other), *wide]))
        yield Write(Put(client.request(machine), branch.instance, epoch, batch=batch))
        return
    pinned = branch.tokens[-1] if rng.random() < 0.1 else None
    record = Put(client.request(machine), branch.instance, epoch, rows, pinned=pinned)
    record = with_basis(client.workload.shelf, machine, record)
    yield Pause(int(rng.random() * rng.choice((1, 8, 60)) * MILLISECOND))
    yield Write(record)


def _copied_from_history(client: SimLakeClient, path: str) -> Row | None:
    """A row which copies what some commit had under the path."""
    commit = client.rng.choice(list(client.workload.checks.ever_heads))
    entry = client.workload.shelf.commits[commit].tree.get(path)
    return None if entry is None else Row(client.rng.choice(PATHS), entry, source=FromCommit(commit))


def read(client: SimLakeClient) -> Steps:
    """Look at a branch, or at all of them."""
    kind = client.rng.random()
    if kind < 0.2:
        yield RefsRead("repo")
    else:
        yield Read("repo", client.rng.choice(("main", "main", "dev")), stale_ok=kind < 0.35)


def commit(client: SimLakeClient) -> Steps:
    found = some_branch(client)
    if found is not None:
        machine, branch = found
        expected = branch.head if client.rng.random() < 0.1 else None
        allow_empty = client.rng.random() < 0.2
        yield Commit(client.request(machine), branch.instance, TTL_NS, None, allow_empty, expected)


def move(client: SimLakeClient) -> Steps:
    """Merge, revert, import."""
    rng = client.rng
    found = some_branch(client)
    if found is None:
        return
    machine, branch = found
    kind = rng.random()
    what: Any
    epoch: int | None = None
    if kind < 0.5:
        heads = [other.head for other in machine.branches.values()]
        what = Merge(rng.choice(heads if rng.random() < 0.6 else list(client.workload.checks.ever_heads)))
    elif kind < 0.75:
        what = Revert(branch.head)
    else:
        entry, epoch = upload(client, machine)
        what = Import(((rng.choice(PATHS), entry),))
    is_clean = rng.random() < 0.2
    yield Move(client.request(machine), branch.instance, what, is_clean=is_clean, link_epoch=epoch)


def administer(client: SimLakeClient) -> Steps:
    """Branches, tags, resets, limits."""
    rng = client.rng
    machine = client.peek()
    if machine is None or REPOSITORY not in machine.repositories:
        return
    repository = machine.repositories[REPOSITORY]
    request = client.request(machine)
    token = StagingToken(f"t-{request.id}")
    branch = rng.choice(list(machine.branches.values()))
    kind = rng.random()
    if kind < 0.35:
        yield Write(_toggle_dev(machine, request, token))
    elif kind < 0.45:
        tag = repository.tags.get("v1")
        made = r.CreateTag(request, REPOSITORY, "v1", Instance(f"v1-{request.id}"), branch=branch.instance)
        yield Write(made if tag is None else r.DeleteTag(request, REPOSITORY, tag.instance))
    elif kind < 0.65:
        paths, prefixes = rng.choice((((), ()), ((rng.choice(PATHS),), ()), ((), ("a/",)), (("d",), ("b", "q/"))))
        yield Write(r.Reset(request, branch.instance, token, paths, prefixes))
    elif kind < 0.8:
        commit = rng.choice(list(client.workload.checks.ever_heads))
        yield Write(r.HardReset(request, branch.instance, commit, token))
    elif kind < 0.9:
        entry, epoch = upload(client, machine)
        parts = tuple(Put(request, instance, epoch, (Row("d", entry),)) for instance in machine.branches)
        yield Write(r.Atomic(request, parts))
    else:
        yield Write(r.Version(request, machine.version, _limits(rng)))


def _toggle_dev(machine: StagingMachine, request: r.Request, token: StagingToken) -> r.CreateBranch | r.DeleteBranch:
    repository = machine.repositories[REPOSITORY]
    dev = repository.branches.get("dev")
    if dev is not None:
        return r.DeleteBranch(request, dev.instance)
    main = repository.branches["main"]
    return r.CreateBranch(request, REPOSITORY, "dev", Instance(f"dev-{request.id}"), token, branch=main.instance)


def _limits(rng: Random) -> Limits:
    """Small, so that every one of them is met."""
    return Limits(
        requests_max=rng.choice((3, 12, 1000)),
        request_age_ns=rng.choice((20, 10_000)) * MILLISECOND,
        attempts_max=rng.choice((2, 10)),
        touched_max=rng.choice((2, 100)),
        now_step_ns=rng.choice((5, 100)) * MILLISECOND,
    )


def protect(client: SimLakeClient) -> Steps:
    """Change the rules of protection. Now and then the change expects the rules that a member has."""
    rng = client.rng
    machine = client.peek()
    if machine is None or REPOSITORY not in machine.repositories:
        return
    if not machine.has_protection:
        yield Write(r.Version(client.request(machine), RULES, machine.limits))
        return
    rules = rng.choice((MAIN_RULES, (ProtectionRule("*", ("commit",)),), (ProtectionRule("d?v", ("staging_write",)),)))
    known = machine.repositories[REPOSITORY].protection
    expected = etag_of(known) if rng.random() < 0.3 else None
    yield Write(r.SetProtection(client.request(machine), REPOSITORY, rules, expected))
    yield Pause(int(rng.random() * 10 * MILLISECOND))
    yield Write(r.SetProtection(client.request(machine), REPOSITORY))


def drive(client: SimLakeClient) -> Steps:
    """A Spark driver: one batch after the other, each one head move; a second driver of the same query is a zombie."""
    machine = client.peek()
    if machine is None or not machine.branches:
        return
    main = next(iter(machine.branches.values()))
    last = client.memory.get("last") or client.workload.checks.sinks.get((main.instance, "q"), (-1, "begin"))
    batch, start = last[0] + 1, last[1]
    if client.rng.random() < 0.1:
        start = f"{batch - 1}:{client.rng.choice('pq')}"  # its checkpoint was rewound, and planned again
    end = f"{batch}:{client.rng.choice('pq')}"  # two drivers may have planned the batch differently
    entry, epoch = upload(client, machine)
    files = ((f"q/{batch:04d}", entry),)
    if client.workload.parts.habits.links_sink_files_first:
        yield Write(Put(client.request(machine), main.instance, epoch, (Row(*files[0]),)))
    part = SinkPart("q", batch, start, end)
    result = yield Move(client.request(machine), main.instance, Import(files), sink=part, link_epoch=epoch)
    is_done = isinstance(result, Result) and result.status is Status.OK
    client.memory["last"] = (batch, end) if is_done else None  # a driver which failed begins from its checkpoint
    if client.rng.random() < 0.3:
        yield Pause(20 * MILLISECOND)


SCRIPTS = (
    Script("put", lambda rng: rng.choice((1, 3)), put, think_ms=3),
    Script("read", lambda rng: rng.choice((1, 2)), read),
    Script("commit", lambda rng: rng.choice((1, 2, 3)), commit, think_ms=8),
    Script("move", lambda rng: rng.choice((0, 1, 2)), move, think_ms=8),
    Script("admin", lambda rng: rng.choice((0, 1)), administer, think_ms=10),
    Script("protect", lambda rng: rng.choice((0, 0, 1)), protect, think_ms=20),
    Script("drive", lambda rng: rng.choice((0, 2)), drive, think_ms=8),
    Script("collect", lambda rng: rng.choice((0, 2)), collect, think_ms=10),
)
