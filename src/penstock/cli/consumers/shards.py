"""`penstock shards`: the shards of consumers, who runs them, and how far they are."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from penstock.cli.consumers.consumer_targets import AtKeySpace, InGroup, groups_of, keyspace_of, shards_of
from penstock.cli.durations import duration
from penstock.cli.noun import InSession, examples, noun
from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.kernel.ids import Offset
from penstock.server.output import make_table
from penstock.server.session import Session
from penstock.server.targets import CLUSTER_FOLDER, AtFolder, addresses_of
from penstock.server.wiring import wiring_of

if TYPE_CHECKING:
    from penstock.consumers.client.shards import ShardInfo, Shards
    from penstock.consumers.stores.recoverylog.hints_keeper import HintsKeeper
    from penstock.journals.client.journal import Journals
    from penstock.keyspace.shell.port import KeySpace

__all__ = ["app"]

app = noun(
    "shards",
    "The shards of consumers: who runs them, how far they are, why one failed.",
    try_this=(
        "penstock shards apply examples/wordcount/shards.yaml",
        "penstock shards list",
        "penstock shards stat wordcount --through words/lines=1024",
    ),
)

Name = Annotated[str, Parameter(help="The shard's id.", metavar="SHARD")]
AtBrokers = Annotated[
    tuple[str, ...],
    Parameter(name="--broker", help="A broker to ask. Default: the local cluster's.", metavar="HOST:PORT"),
]
REASON_WIDTH = 60


@app.command(name="list", help_epilogue=examples("penstock shards list", "penstock shards list --output json"))
async def list_shards(
    prefix: Annotated[str, Parameter(help="Only those whose ids begin so.", metavar="PREFIX")] = "",
    /,
    *,
    group: Annotated[str | None, Parameter(help="Only this group of consumers. Default: all.", metavar="NAME")] = None,
    keyspace: AtKeySpace = None,
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """List shards: who runs them (the primary marked with *), and why one failed."""
    from penstock.cli.consumers.shard_specs import definition_text  # what --help does not need
    from penstock.consumers.client.shards import Shards

    session.start_logs(quiet=True)
    async with keyspace_of(session, keyspace, cluster) as space:
        names = [group] if group else await groups_of(space)
        found = [(name, info) for name in names for info in await Shards(space, name).list(prefix)]
    rows = [_row(name, info) for name, info in found]
    data = [
        {
            "group": name,
            **definition_text(info.definition, info.mod_revision),
            "replicas": msgspec.to_builtins(info.replicas),
        }
        for name, info in found
    ]
    session.emit(data, make_table(["group", "shard", "replicas", "run by", "status", "why"], rows))


def _row(group: str, info: "ShardInfo") -> list[str]:
    definition, primary = info.definition, info.primary
    wanted = 0 if definition.is_disabled else 1 + definition.standbys
    status = "disabled" if definition.is_disabled else "no process runs it"
    reason = ""
    if primary is not None:
        status, reason = primary.status.code.value, primary.status.reason
    run_by = " ".join(f"{each.consumer.partition('#')[2]}{'*' if each.is_primary else ''}" for each in info.replicas)
    return [group, definition.id, f"{len(info.replicas)}/{wanted}", run_by or "-", status, reason[:REASON_WIDTH]]


@app.command(help_epilogue=examples("penstock shards apply examples/bank/shards.yaml"))
async def apply(
    file: Annotated[
        Path, Parameter(help="YAML, JSON or TOML; - is stdin, as YAML.", metavar="FILE", allow_leading_hyphen=True)
    ],
    /,
    *,
    group: InGroup = None,
    keyspace: AtKeySpace = None,
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Create, update or delete shards: everything in the file, or nothing."""
    from penstock.cli.consumers.shard_specs import shard_changes_in  # what --help does not need

    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror}") from None
    named, changes = shard_changes_in(file, data)
    if not (group or named):
        raise InvalidArgument(f"{file} names no group: write `group: NAME`, or say --group NAME")
    async with shards_of(session, group or named, keyspace, cluster) as shards:
        revision = await shards.apply(changes)
    names = [change.upsert.id if change.upsert is not None else f"-{change.delete}" for change in changes]
    session.emit({"revision": revision, "shards": names}, f"applied at revision {revision}: {', '.join(names)}")


@app.command(
    help_epilogue=examples("penstock shards stat wordcount", "penstock shards stat wordcount --through words/lines=812")
)
async def stat(
    shard: Name,
    /,
    *,
    through: Annotated[
        tuple[str, ...],
        Parameter(help="Wait until all before this offset has taken effect.", metavar="JOURNAL=OFFSET"),
    ] = (),
    timeout: Annotated[float, duration("Wait at most this long, e.g. 30s.")] = 30.0,
    group: InGroup = None,
    keyspace: AtKeySpace = None,
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Show how far a shard has read; --through waits for an offset."""
    wanted = dict(_offset(text) for text in through)
    async with shards_of(session, group, keyspace, cluster) as shards:
        found = await shards.stat(shard, wanted, timeout=timeout)
    rows: list[list[str]] = [["read", journal, str(offset)] for journal, offset in found.read_through.items()]
    rows += [["published", journal, str(offset)] for journal, offset in found.publish_at.items()]
    session.emit(msgspec.to_builtins(found), make_table(["", "journal", "up to"], rows, right=["up to"]))


def _offset(text: str) -> tuple[str, Offset]:
    journal, equals, offset = text.rpartition("=")
    if not equals or not offset.isdigit():
        raise InvalidArgument(f"--through {text}: expected JOURNAL=OFFSET")
    return journal, Offset(int(offset))


@app.command(help_epilogue=examples("penstock shards restart wordcount"))
async def restart(
    shard: Name,
    /,
    *,
    group: InGroup = None,
    keyspace: AtKeySpace = None,
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Restart a shard now instead of after its back-off."""
    async with shards_of(session, group, keyspace, cluster) as shards:
        await shards.restart(shard)
    result: dict[str, Any] = {"shard": shard}
    session.emit(result, f"{shard} restarts")


@app.command(help_epilogue=examples("penstock shards recover wordcount /tmp/wordcount"))
async def recover(
    shard: Name,
    folder: Annotated[Path, Parameter(help="A folder that does not exist yet.", metavar="FOLDER")],
    /,
    *,
    group: InGroup = None,
    keyspace: AtKeySpace = None,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Play a shard's recovery log back into a folder: a copy of its files. Does not disturb the running shard."""
    from penstock.consumers.stores.recoverylog.log_reader import LogReader
    from penstock.consumers.stores.recoverylog.player import Player

    if folder.exists():
        raise InvalidArgument(f"{folder} exists already: its files would be lost")
    async with _logs(session, group, keyspace, broker, cluster) as (shards, space, journals):
        keeper = _keeper(space, shards, await shards.get(shard))
        player = Player(await keeper.pick(), folder, LogReader(journals, keeper.log))
        await player.copy()
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    session.emit(
        {"shard": shard, "folder": str(folder), "files": files, "played_bytes": player.played_bytes},
        f"{len(files)} files in {folder}, from {player.played_bytes} bytes of {keeper.log}: {', '.join(files)}",
    )


@app.command(help_epilogue=examples("penstock shards prune wordcount", "penstock shards prune wordcount --delete"))
async def prune(
    shard: Name,
    /,
    *,
    delete: Annotated[bool, Parameter(help="Do it. Without it, say only what would go.")] = False,
    group: InGroup = None,
    keyspace: AtKeySpace = None,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Remove the fragments of a shard's recovery log which no hints need any more. A dry run, unless told otherwise."""
    from penstock.consumers.stores.recoverylog.pruner import plan_pruning
    from penstock.consumers.stores.recoverylog.pruner import prune as prune_log
    from penstock.journals.storage.fragment_store import FragmentStores

    async with _logs(session, group, keyspace, broker, cluster) as (shards, space, journals):
        log = _keeper(space, shards, await shards.get(shard)).log
        users = [info for info in await shards.list() if info.definition.recovery_log == log]
        pruning = await plan_pruning(journals, log, [_keeper(space, shards, info) for info in users])
        if delete:
            async with FragmentStores() as stores:
                await prune_log(stores, pruning)
    done = "removed" if delete else "would be removed; do it with --delete"
    session.emit(
        {"log": log, "deleted": delete, "bytes": pruning.bytes, "gone": msgspec.to_builtins(pruning.gone)},
        f"{log}: {len(pruning.gone)} fragments with {pruning.bytes} bytes {done}; {len(pruning.kept)} stay",
    )


@asynccontextmanager
async def _logs(
    session: Session, group: str | None, keyspace: str | None, broker: tuple[str, ...], cluster: Path
) -> "AsyncIterator[tuple[Shards, KeySpace, Journals]]":
    from penstock.journals.client.journal import Journals

    wiring = wiring_of(session)
    addresses = addresses_of(session, broker, cluster, "broker", "--broker")
    async with (
        shards_of(session, group, keyspace, cluster) as shards,
        Journals(addresses, token=wiring.token, tls=wiring.client_tls) as journals,
    ):
        yield shards, shards.keyspace, journals


def _keeper(space: "KeySpace", shards: "Shards", info: "ShardInfo") -> "HintsKeeper":
    from penstock.consumers.client.definition import root_of
    from penstock.consumers.stores.recovered_stores import hints_prefix
    from penstock.consumers.stores.recoverylog.hints_keeper import HintsKeeper

    definition = info.definition
    if not definition.recovery_log:
        raise InvalidArgument(f"shard {definition.id} has no recovery log: its store is elsewhere")
    return HintsKeeper(space, hints_prefix(definition.id, root_of(shards.group)), definition.recovery_log)
