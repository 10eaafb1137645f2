"""`penstock cluster`: a real multi-process cluster on this machine, for trying and for fault drills."""

import asyncio
import signal
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from penstock.cli.noun import InSession, examples, noun
from penstock.cli.quorum.quorum_text import metadata_lines
from penstock.journals.client.journal import Journals
from penstock.kernel.errors import NotFound, PenstockError, PreconditionFailed, Unavailable
from penstock.quorum.client.operator import Operators
from penstock.quorum.records.metadata import Metadata, Status
from penstock.server.cluster.local import LocalCluster
from penstock.server.output import make_table
from penstock.server.session import Session
from penstock.server.targets import CLUSTER_FOLDER

__all__ = ["app", "wait_for_brokers", "wait_until_ready"]

app = noun(
    "cluster",
    "A real multi-process cluster on this machine, for trying and for drills.",
    try_this=(
        "penstock cluster up --nodes 3     until Ctrl-C; what dies is started again",
        "penstock cluster up --nodes 0 --brokers 3     journals only",
        "penstock cluster status",
        "penstock cluster kill leader      a drill: watch the status while it heals",
    ),
)

Folder = Annotated[Path, Parameter(name="--cluster", help="Folder of the local cluster.", metavar="FOLDER")]
Name = Annotated[str, Parameter(help="A process, like n1 or op1; or: leader, follower, operator.", metavar="PROCESS")]
RESTART_S = 1.0
READY_S = 60.0


@app.command(
    help_epilogue=examples(
        "penstock cluster up --nodes 3",
        "penstock cluster up --nodes 3 --spares 1 --detach",
        "penstock cluster up --nodes 5 --operators 2 --cluster /tmp/drill",
        "penstock cluster up --nodes 0 --brokers 3",
    )
)
async def up(
    *,
    nodes: Annotated[int, Parameter(help="Nodes of the shard: 3 survive the loss of 1, 5 of 2.", metavar="N")] = 3,
    spares: Annotated[int, Parameter(help="Nodes which run, but have no part in the shard yet.", metavar="N")] = 0,
    operators: Annotated[int, Parameter(help="Operators. Several are safe.", metavar="N")] = 1,
    brokers: Annotated[int, Parameter(help="Brokers of journals: 3 survive the loss of 2.", metavar="N")] = 0,
    folder: Folder = CLUSTER_FOLDER,
    shard: Annotated[str, Parameter(help="The shard made at the first start.", metavar="NAME")] = "main",
    machine: Annotated[str, Parameter(help="The nodes' state machine: map or log.", metavar="NAME")] = "map",
    detach: Annotated[bool, Parameter(help="Return when it is up, and leave it running.")] = False,
    session: InSession,
) -> None:
    """Start a cluster, or start the one in the folder again, and keep it running until Ctrl-C.

    Every process is a real one, with a port, a folder and a log file of its own.
    """
    cluster = LocalCluster.create(
        folder, nodes=nodes, spares=spares, operators=operators, shard=shard, machine=machine, brokers=brokers
    )
    is_left_running = False
    try:
        cluster.start_all()
        session.say(f"starting {len(cluster.plan.processes)} processes in {folder} …")
        if cluster.names("node"):
            _tell(session, cluster, await wait_until_ready(cluster, nodes))
        if cluster.names("broker"):
            await wait_for_brokers(cluster)
            _tell_brokers(session, cluster)
        if detach:
            is_left_running = True
            return
        await _supervise(session, cluster)
    finally:
        if not is_left_running:
            session.say("stopping …")
            cluster.stop_all()


@app.command(help_epilogue=examples("penstock cluster status", "penstock cluster status --output json"))
async def status(*, folder: Folder = CLUSTER_FOLDER, session: InSession) -> None:
    """Show processes, leaders, epochs and pending changes."""
    session.start_logs(quiet=True)
    cluster = LocalCluster.load(folder)
    rows = [
        [each.name, each.role, each.address, "runs" if cluster.is_running(each.name) else "down"]
        for each in cluster.plan.processes
    ]
    data: dict[str, Any] = {
        "processes": [dict(zip(("name", "role", "address", "state"), row, strict=True)) for row in rows]
    }
    parts: list[Any] = [make_table(["process", "role", "address", "state"], rows), ""]
    if not cluster.names("operator"):
        session.emit(data, *parts, "more: penstock journals list")
        return
    try:
        async with Operators(cluster.addresses("operator")) as operators:
            known = await operators.status()
    except PenstockError as error:
        data["shards"] = {"error": str(error)}
        parts.append(f"no operator answers: {error}")
    else:
        data["shards"] = msgspec.to_builtins(known.shards)
        shards = [[name, *metadata_lines(metadata), doing] for name, (metadata, doing) in known.shards.items()]
        parts.append(make_table(["shard", "epoch", "status", "leader", "ensemble", "change", "operator is"], shards))
    session.emit(data, *parts, "", "more: penstock quorum status")


@app.command(help_epilogue=examples("penstock cluster kill leader", "penstock cluster kill n2"))
async def kill(process: Name, /, *, folder: Folder = CLUSTER_FOLDER, session: InSession) -> None:
    """kill -9 a process. If `cluster up` runs in the foreground, it starts it again after a second."""
    await _signal(session, folder, process, signal.SIGKILL, "killed")


@app.command(help_epilogue=examples("penstock cluster pause leader"))
async def pause(process: Name, /, *, folder: Folder = CLUSTER_FOLDER, session: InSession) -> None:
    """SIGSTOP a process: it is frozen, and believes when it wakes that nothing happened. A zombie."""
    await _signal(session, folder, process, signal.SIGSTOP, "paused")


@app.command(help_epilogue=examples("penstock cluster resume n1"))
async def resume(process: Name, /, *, folder: Folder = CLUSTER_FOLDER, session: InSession) -> None:
    """SIGCONT a paused process."""
    await _signal(session, folder, process, signal.SIGCONT, "resumed")


@app.command(help_epilogue=examples("penstock cluster start n2"))
def start(process: Name, /, *, folder: Folder = CLUSTER_FOLDER, session: InSession) -> None:
    """Start a process which is down, and leave it running."""
    LocalCluster.load(folder).start(process)
    session.say(f"{process} started")


@app.command(help_epilogue=examples("penstock cluster down"))
def down(*, folder: Folder = CLUSTER_FOLDER, session: InSession) -> None:
    """Stop a detached cluster. Its data stays: `cluster up` continues with it."""
    LocalCluster.load(folder).stop_all()
    session.say(f"stopped; the data stays in {folder}")


async def _signal(session: Session, folder: Path, process: str, number: signal.Signals, done: str) -> None:
    session.start_logs(quiet=True)
    cluster = LocalCluster.load(folder)
    name = await _resolve(cluster, process)
    cluster.kill(name, number)
    session.say(f"{name} {done}; see: penstock cluster status")


async def _resolve(cluster: LocalCluster, process: str) -> str:
    """Return a process's name: `leader` and `follower` mean the present ones."""
    if process == "operator":
        return cluster.names("operator")[0]
    if process not in ("leader", "follower"):
        return cluster.process(process).name
    async with Operators(cluster.addresses("operator")) as operators:
        metadata = (await operators.status()).shards.get(cluster.plan.shard, (None, ""))[0]
    if metadata is None or metadata.leader is None:
        raise PreconditionFailed("there is no leader right now", next_step="penstock cluster status")
    if process == "leader":
        return metadata.leader.node
    followers = [member.node for member in metadata.ensemble if member != metadata.leader]
    if not followers:
        raise NotFound("the shard has no follower")
    return followers[0]


async def wait_until_ready(cluster: LocalCluster, nodes: int, within_s: float = READY_S) -> Metadata:
    """Wait until the shard exists and has a leader. If a process ends meanwhile, raise with its last words."""
    deadline = asyncio.get_running_loop().time() + within_s
    async with Operators(cluster.addresses("operator")) as operators:
        while asyncio.get_running_loop().time() < deadline:
            for each in cluster.plan.processes:
                if cluster.exit_status(each.name) is not None:
                    raise Unavailable(f"{each.name} ended at once:\n{cluster.log_tail(each.name)}")
            try:
                shards = (await operators.status()).shards
                if cluster.plan.shard not in shards:
                    await operators.create(cluster.plan.shard, cluster.names("node")[:nodes])
                metadata = shards.get(cluster.plan.shard, (None, ""))[0]
                if metadata is not None and metadata.status is Status.STEADY_STATE:
                    return metadata
            except (Unavailable, NotFound, PreconditionFailed):
                pass  # nodes are still coming up
            await asyncio.sleep(0.1)
    raise Unavailable(f"no leader within {within_s:.0f} s", next_step=f"look into the log files in {cluster.folder}")


async def wait_for_brokers(cluster: LocalCluster, within_s: float = READY_S) -> None:
    """Until each of them answers."""
    deadline = asyncio.get_running_loop().time() + within_s
    for name in cluster.names("broker"):
        async with Journals([cluster.process(name).address]) as journals:
            while True:
                if cluster.exit_status(name) is not None:
                    raise Unavailable(f"{name} ended at once:\n{cluster.log_tail(name)}")
                try:
                    await journals.list()
                    break
                except Unavailable:
                    if asyncio.get_running_loop().time() > deadline:
                        raise
                await asyncio.sleep(0.1)


def _tell_brokers(session: Session, cluster: LocalCluster) -> None:
    where = "" if cluster.folder == CLUSTER_FOLDER else f" --cluster {cluster.folder}"
    session.say(f"up: {len(cluster.names('broker'))} brokers; fragments go to {cluster.store_url}")
    session.say(f"make:  penstock journals apply examples/shop.yaml{where}")
    session.say(f"write: echo hello | penstock journals append shop/orders{where}")
    session.say(f"read:  penstock journals read shop/orders --follow{where}")


def _tell(session: Session, cluster: LocalCluster, metadata: Metadata) -> None:
    assert metadata.leader is not None
    where = "" if cluster.folder == CLUSTER_FOLDER else f" --cluster {cluster.folder}"
    session.say(f"up: {metadata.leader.node} leads {cluster.plan.shard} in epoch {metadata.epoch}")
    session.say(f"look:  penstock quorum status{where}")
    session.say(f"write: echo hello | penstock quorum append{where}")
    session.say(f"read:  penstock quorum tail{where}")
    drill = "" if cluster.folder == CLUSTER_FOLDER else f" --cluster {cluster.folder}"
    session.say(f"drill: penstock cluster kill leader{drill}")


async def _supervise(session: Session, cluster: LocalCluster) -> None:
    """Start again whatever dies, as a supervisor would."""
    while True:
        await asyncio.sleep(0.2)
        for each in cluster.plan.processes:
            ended = cluster.exit_status(each.name)
            if ended is not None:
                how = f"killed by signal {-ended}" if ended < 0 else f"ended with status {ended}"
                session.say(f"{each.name} was {how}; starting it again")
                await asyncio.sleep(RESTART_S)
                cluster.start(each.name)
