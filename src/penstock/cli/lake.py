"""`penstock lake`: the versioned data lake: its server, and what people do with it."""

from typing import Annotated

from cyclopts import Parameter

from penstock.cli.noun import InSession, examples, noun
from penstock.cli.targets import CLUSTER_FOLDER, AtFolder, AtNodes, Shard

__all__ = ["app"]

app = noun(
    "lake",
    "The lake: repositories with branches, commits and merges. lakeFS's REST API on one port.",
    try_this=("penstock lake serve --alone        a whole lake in one process",),
)


@app.command(
    help_epilogue=examples(
        "penstock lake serve --alone", "penstock lake serve --node-address 10.0.0.1:7101 --listen 0.0.0.0:8000"
    )
)
async def serve(
    *,
    listen: Annotated[
        str | None, Parameter(help="Where it listens. Default: lake.listen.", metavar="HOST:PORT")
    ] = None,
    alone: Annotated[
        bool, Parameter(help="Run a quorum node of its own in the data folder: one process, one copy.")
    ] = False,
    name: Annotated[str, Parameter(help="This member's name. Default: the host's, and something random.")] = "",
    shard: Shard = "main",
    node_address: AtNodes = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Run one member of the lake until SIGTERM or Ctrl-C. Any number may run: each is as good as the others."""
    from penstock.cli.lake_server import serve_lake

    session.start_logs()
    await serve_lake(session, listen, name, shard, node_address, cluster, is_alone=alone)
