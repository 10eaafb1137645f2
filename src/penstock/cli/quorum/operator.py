"""`penstock operator`: run one operator of the quorum log."""

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.durations import duration
from penstock.cli.noun import InSession, noun
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import MILLISECOND, NodeId
from penstock.quorum.core.config import OperatorConfig
from penstock.quorum.operator.process import running_operator
from penstock.server.keyspaces import open_keyspace
from penstock.server.wiring import metrics_endpoint, parse_address, wiring_of

__all__ = ["app", "parse_nodes"]

app = noun(
    "operator",
    "Run one operator of the quorum log: it elects leaders and changes ensembles. Several are safe.",
    try_this=(
        "penstock operator --listen 127.0.0.1:7100 --node n1=127.0.0.1:7101",
        "penstock cluster up --nodes 3        a whole cluster on this machine",
    ),
)


def parse_nodes(nodes: tuple[str, ...]) -> dict[NodeId, str]:
    """`NAME=HOST:PORT`, each name once."""
    found: dict[NodeId, str] = {}
    for text in nodes:
        name, equals, address = text.partition("=")
        if not equals:
            raise InvalidArgument(f"--node {text}: expected NAME=HOST:PORT, like n1=127.0.0.1:7101")
        found[NodeId(name)] = str(parse_address(address, "--node"))
    return found


@app.default
async def run(
    *,
    id: Annotated[str, Parameter(help="The operator's name.", metavar="NAME")] = "operator",
    keyspace: Annotated[
        str | None,
        Parameter(
            help="The KeySpace: a folder, or etcd://HOST:PORT,… Default: keyspace in the data folder.",
            metavar="FOLDER|URL",
        ),
    ] = None,
    listen: Annotated[
        str | None, Parameter(help="Where it listens. Default: wire.listen.", metavar="HOST:PORT")
    ] = None,
    node: Annotated[
        tuple[str, ...], Parameter(help="A node it should know. May be given again.", metavar="NAME=HOST:PORT")
    ] = (),
    failure_after: Annotated[float, duration("Replace a leader that is silent this long.")] = (
        OperatorConfig().failure_ns / 1_000_000_000
    ),
    session: InSession,
) -> None:
    """Run until SIGTERM or Ctrl-C. All it must remember is in the KeySpace: it can be killed at any time."""
    session.start_logs()
    nodes = parse_nodes(node)
    failure_ms = round(failure_after * 1_000)
    if failure_ms < 10:
        raise InvalidArgument(f"--failure-after {failure_ms}ms: expected at least 10ms")
    failure_ns = failure_ms * MILLISECOND
    config = OperatorConfig(failure_ns=failure_ns, heartbeat_ns=min(OperatorConfig().heartbeat_ns, failure_ns // 4))
    where = keyspace if keyspace is not None else str(session.effective.config.data.folder / "keyspace")
    wiring = wiring_of(session, listen)
    async with (
        await open_keyspace(_url(where), wiring) as store,
        running_operator(NodeId(id), store, wiring, config=config) as (operator, server),
        metrics_endpoint(session),
    ):
        for name, address in nodes.items():
            await operator.add_node(name, address)
        session.say(f"operator {id} serves on {server.address}, with the KeySpace in {where}")
        await asyncio.Event().wait()


def _url(where: str) -> str:
    """A folder is an embedded KeySpace."""
    return where if "://" in where else Path(where).absolute().as_uri().replace("file:", "embedded:", 1)
