"""`penstock quorum`: the quorum log's shards, their leaders and their ensembles."""

import sys
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from penstock.cli.durations import duration
from penstock.cli.noun import InSession, examples, noun
from penstock.cli.quorum.quorum_text import metadata_lines, status_parts
from penstock.kernel.errors import InvalidArgument, NotFound, PenstockError
from penstock.kernel.ids import EntryId, Epoch, Offset
from penstock.plumbing.process.reader_thread import head_of
from penstock.quorum.records.metadata import Metadata
from penstock.server.output import make_table
from penstock.server.targets import (
    CLUSTER_FOLDER,
    AtFolder,
    AtNodes,
    AtOperators,
    Shard,
    operators_of,
    quorum_log_of,
)

__all__ = ["app"]

app = noun(
    "quorum",
    "The quorum log: its shards, their leaders and their ensembles.",
    try_this=(
        "penstock cluster up --nodes 3                 in another terminal",
        "penstock quorum status",
        "echo hello | penstock quorum append",
        "penstock quorum tail",
    ),
)

Node = Annotated[str, Parameter(help="The node's name.", metavar="NODE")]


@app.command(help_epilogue=examples("penstock quorum status", "penstock quorum status --output json"))
async def status(
    *, shard: Shard = "main", node_address: AtNodes = (), cluster: AtFolder = CLUSTER_FOLDER, session: InSession
) -> int:
    """Show every replica: epoch, leader, head, commit and apply index, lags, limbo; and why an append is waiting."""
    async with quorum_log_of(session, shard, node_address, cluster) as log:
        found = await log.status()
    data: dict[str, Any] = {}
    for address, answer in found.items():
        if isinstance(answer, PenstockError):
            data[address] = {"error": msgspec.to_builtins(answer.to_record())}
        else:
            data[address] = [{**msgspec.to_builtins(each), "why": why} for each, why in answer if each.shard == shard]
    session.emit(data, *status_parts(shard, found))
    return 0 if any(not isinstance(answer, PenstockError) for answer in found.values()) else 1


@app.command(help_epilogue=examples("penstock quorum shards"))
async def shards(*, operator: AtOperators = (), cluster: AtFolder = CLUSTER_FOLDER, session: InSession) -> None:
    """List the shards, as the KeySpace has them, and what the operator is doing about each."""
    async with operators_of(session, operator, cluster) as operators:
        known = await operators.status()
    rows = [[name, *metadata_lines(metadata), doing] for name, (metadata, doing) in known.shards.items()]
    session.emit(
        msgspec.to_builtins(known),
        make_table(["shard", "epoch", "status", "leader", "ensemble", "change", "operator is"], rows),
    )


@app.command(help_epilogue=examples("penstock quorum create main n1 n2 n3"))
async def create(
    shard: Annotated[str, Parameter(help="The new shard's name.", metavar="SHARD")],
    /,
    *nodes: Annotated[str, Parameter(help="Its nodes.", metavar="NODE")],
    operator: AtOperators = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Make a shard on these nodes. Three tolerate the loss of one, five of two; two tolerate none."""
    async with operators_of(session, operator, cluster) as operators:
        _say(session, await operators.create(shard, nodes))


@app.command(
    help_epilogue=examples(
        "penstock quorum elect", "penstock quorum elect --prefer n2", "penstock quorum elect --abort    a swap hangs"
    )
)
async def elect(
    *,
    prefer: Annotated[
        str | None, Parameter(help="Hand over to this node, if it is as far as any.", metavar="NODE")
    ] = None,
    abort: Annotated[
        bool, Parameter(help="Elect at once, and drop a change that is not prepared yet.", negative=())
    ] = False,
    shard: Shard = "main",
    operator: AtOperators = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Hand a shard over to another leader. Appends wait meanwhile, and none is left in doubt.

    With --abort the election begins at once. It ends a swap or an expansion that hangs in its preparation.
    """
    async with operators_of(session, operator, cluster) as operators:
        _say(session, await operators.elect(shard, prefer, aborts=abort))


@app.command(
    help_epilogue=examples("penstock quorum swap n3 n4", "penstock quorum swap n3 n3    after n3 lost its data")
)
async def swap(
    old: Node,
    new: Node,
    /,
    *,
    shard: Shard = "main",
    operator: AtOperators = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Replace a node by another; the same name twice brings a node back whose data was lost."""
    async with operators_of(session, operator, cluster) as operators:
        _say(session, await operators.swap(shard, old, new))


@app.command(help_epilogue=examples("penstock quorum expand n4"))
async def expand(
    new: Node,
    /,
    *,
    shard: Shard = "main",
    operator: AtOperators = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Add a node. It gets a snapshot and catches up before it has a vote."""
    async with operators_of(session, operator, cluster) as operators:
        _say(session, await operators.expand(shard, new))


@app.command(help_epilogue=examples("penstock quorum contract n4"))
async def contract(
    old: Node,
    /,
    *,
    shard: Shard = "main",
    operator: AtOperators = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Remove a node. Never the leader: elect another first."""
    async with operators_of(session, operator, cluster) as operators:
        _say(session, await operators.contract(shard, old))


@app.command(
    help_epilogue=examples(
        "echo hello | penstock quorum append", "penstock quorum append --async --timeout 2 < order.bin"
    )
)
async def append(
    *,
    asynchronous: Annotated[
        bool, Parameter(name="--async", help="Answer when it is durable on the leader, in order.")
    ] = False,
    ack: Annotated[str, Parameter(help="majority, all, applied, or a number of nodes.")] = "majority",
    timeout: Annotated[float, duration("Wait this long for a quorum.")] = 5.0,
    roll_back: Annotated[bool, Parameter(help="On a time-out, try to make the outcome definite.")] = False,
    shard: Shard = "main",
    node_address: AtNodes = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Append stdin as one transaction and print its entry id."""
    from penstock.quorum.client.quorum import OPS_BYTES_MAX

    level: Any = int(ack) if ack.isdigit() else ack
    data, _ = await head_of(sys.stdin.buffer, OPS_BYTES_MAX + 1)
    async with quorum_log_of(session, shard, node_address, cluster) as log:
        done = await log.append(data, sync=not asynchronous, ack=level, timeout=timeout, roll_back=roll_back)
    session.emit(
        {"entry": str(done.entry), "fate": done.fate.value, "result": done.result}, f"{done.entry} {done.fate.value}"
    )


@app.command(help_epilogue=examples("penstock quorum resolve 7/1042"))
async def resolve(
    entry: Annotated[str, Parameter(help="EPOCH/OFFSET, as an append or an error printed it.", metavar="ENTRY")],
    /,
    *,
    shard: Shard = "main",
    node_address: AtNodes = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> int:
    """Tell what became of an entry: committed, aborted, pending, or expired."""
    async with quorum_log_of(session, shard, node_address, cluster) as log:
        found = await log.resolve(_entry(entry))
    session.emit({"entry": entry, "resolution": found.value}, found.value)
    return 0 if found.value in ("committed", "aborted") else 1


@app.command(help_epilogue=examples("penstock quorum snapshot n1"))
async def snapshot(
    node: Node,
    /,
    *,
    shard: Shard = "main",
    operator: AtOperators = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Write a node's snapshot now and trim its log."""
    async with operators_of(session, operator, cluster) as operators:
        known = await operators.status()
    addresses = {str(name): address for name, address in known.nodes.items()}
    if node not in addresses:
        raise NotFound(f"no node is called {node}; known: {', '.join(addresses)}", next_step="penstock quorum shards")
    async with quorum_log_of(session, shard, (addresses[node],), cluster) as log:
        await log.take_snapshot()
    session.say(f"{node} is taking a snapshot of {shard}; see: penstock quorum status")


@app.command(help_epilogue=examples("penstock quorum tail", "penstock quorum tail --from 1 --no-follow --output json"))
async def tail(
    *,
    first: Annotated[int, Parameter(name="--from", help="The offset to begin at.", metavar="OFFSET")] = 1,
    follow: Annotated[bool, Parameter(help="Continue as more commits.", negative="--no-follow")] = True,
    shard: Shard = "main",
    node_address: AtNodes = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Print committed transactions, one a line: id, client, sequence number, bytes."""
    if first < 1:
        raise InvalidArgument(f"--from {first}: offsets begin at 1")
    async with quorum_log_of(session, shard, node_address, cluster) as log:
        async for offset, txn in log.subscribe(Offset(first), follow=follow):
            if session.wants_json:
                line = msgspec.json.encode(
                    {"epoch": txn.epoch, "offset": offset, "client": txn.client, "seq": txn.seq, "ops": txn.ops}
                )
                sys.stdout.buffer.write(line + b"\n")
            else:
                preview = txn.ops[:60].decode("utf-8", "replace").rstrip("\n")
                sys.stdout.write(f"{txn.epoch}/{offset} {txn.client} {txn.seq} {len(txn.ops)} B  {preview!r}\n")
            sys.stdout.flush()


def _entry(text: str) -> EntryId:
    epoch, slash, offset = text.partition("/")
    if not (slash and epoch.isdigit() and offset.isdigit()):
        raise InvalidArgument(f"{text}: expected EPOCH/OFFSET, like 7/1042")
    return EntryId(Epoch(int(epoch)), Offset(int(offset)))


def _say(session: Any, metadata: Metadata) -> None:
    epoch, status, leader, ensemble, change = metadata_lines(metadata)
    text = f"epoch {epoch}, {status}: leader {leader}, ensemble {ensemble}"
    session.emit(msgspec.to_builtins(metadata), text + (f", change {change}" if change != "-" else ""))
