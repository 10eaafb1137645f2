"""`penstock node`: run one node of the quorum log."""

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from penstock.cli.noun import InSession, noun
from penstock.kernel.ids import NodeId
from penstock.plumbing.files.data_folder import enter_folder
from penstock.plumbing.wiring.options import wal_options
from penstock.quorum.core.config import SERVED
from penstock.quorum.node.process import running_node
from penstock.server.wiring import metrics_endpoint, wiring_of

__all__ = ["app"]

app = noun(
    "node",
    "Run one node of the quorum log: it keeps replicas of shards, and does as operators say.",
    try_this=(
        "penstock node --id n1 --folder data/n1 --listen 127.0.0.1:7101",
        "penstock cluster up --nodes 3        a whole cluster on this machine",
    ),
)


@app.default
async def run(
    *,
    id: Annotated[str, Parameter(help="The node's name: a-z 0-9 . _ -", metavar="NAME")],
    folder: Annotated[
        Path | None, Parameter(help="Where its replicas are kept. Default: NAME in the data folder.", metavar="FOLDER")
    ] = None,
    listen: Annotated[
        str | None, Parameter(help="Where it listens. Default: wire.listen.", metavar="HOST:PORT")
    ] = None,
    machine: Annotated[str, Parameter(help="The state machine of its shards: map or log.", metavar="NAME")] = "map",
    snapshot_entries: Annotated[
        int, Parameter(help="Take a snapshot and trim the log every N entries.", metavar="N")
    ] = SERVED.snapshot_entries,
    session: InSession,
) -> None:
    """Run until SIGTERM or Ctrl-C. Everything acknowledged is on its disk before the acknowledgement leaves."""
    session.start_logs()
    folder = folder if folder is not None else session.effective.config.data.folder / id
    enter_folder(folder)
    retain = min(SERVED.retain_entries, snapshot_entries)
    config = msgspec.structs.replace(SERVED, snapshot_entries=snapshot_entries, retain_entries=retain)
    async with (
        running_node(
            NodeId(id),
            folder,
            wiring_of(session, listen),
            config=config,
            wal=wal_options(session.effective.config.wal),
            machine=machine,
        ) as (_, server),
        metrics_endpoint(session),
    ):
        session.say(f"node {id} serves on {server.address}, with its data in {folder}")
        await asyncio.Event().wait()
