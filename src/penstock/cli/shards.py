"""`penstock shards`: the shards of consumers, who runs them, and how far they are."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from penstock.base.errors import InvalidArgument, NotFound
from penstock.base.ids import Offset
from penstock.cli.consumer_targets import AtKeySpace, InGroup, groups_of, keyspace_of, shards_of
from penstock.cli.noun import InSession, examples, noun
from penstock.cli.output import make_table
from penstock.cli.targets import CLUSTER_FOLDER, AtFolder

if TYPE_CHECKING:
    from penstock.client.consumer.shards import ShardInfo

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
    from penstock.cli.shard_specs import definition_text  # what --help does not need
    from penstock.client.consumer.shards import Shards

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
    status = "disabled" if definition.is_disabled else "nobody runs it"
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
    from penstock.cli.shard_specs import shard_changes_in  # what --help does not need

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
    timeout: Annotated[float, Parameter(help="Seconds to wait at most.", metavar="S")] = 30.0,
    group: InGroup = None,
    keyspace: AtKeySpace = None,
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Say how far a shard has come; with --through, as soon as what was written before has taken its full effect."""
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
    """Begin a new life of a shard at once: one which failed otherwise waits longer each time."""
    async with shards_of(session, group, keyspace, cluster) as shards:
        await shards.restart(shard)
    result: dict[str, Any] = {"shard": shard}
    session.emit(result, f"{shard} begins anew")
