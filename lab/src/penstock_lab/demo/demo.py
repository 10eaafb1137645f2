"""`penstock demo`: the whole story. Real processes, real faults, and an audit which could fail."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.noun import InSession, noun
from penstock.kernel.errors import InvalidArgument
from penstock.server.output import make_table

if TYPE_CHECKING:
    from penstock_lab.demo.demo_stage import Stage

__all__ = ["app"]

app = noun(
    "demo",
    "See it work: orders through journals and Spark into the lake, faults on the way, an audit to the cent.",
    try_this=("penstock demo", "penstock demo --keep", "penstock demo --fault driver"),
)

FAULTS = ("broker", "leader", "driver")


@app.default
async def run(
    *,
    orders: Annotated[int, Parameter(help="How many orders are published.", metavar="N")] = 40_000,
    seconds: Annotated[float, Parameter(help="How long publishing them takes.", metavar="S")] = 60.0,
    fault: Annotated[tuple[str, ...], Parameter(help=f"Only these faults: {', '.join(FAULTS)}.", metavar="NAME")] = (),
    calm: Annotated[bool, Parameter(help="No faults at all.")] = False,
    keep: Annotated[bool, Parameter(help="Leave cluster and lake running, and the folder.")] = False,
    session: InSession,
) -> int:
    """Start 3 brokers, 3 quorum nodes, an operator and a lake; publish orders; have Spark carry them into the lake.

    On the way a broker, the leader of the quorum log and Spark's driver are killed (kill -9), and started again as a
    supervisor would. Then every order must be in the lake once, totals right to the cent; the branch is merged.
    """
    session.start_logs(quiet=True)
    for name in fault:
        if name not in FAULTS:
            raise InvalidArgument(f"--fault {name}: expected one of {', '.join(FAULTS)}")
    if not (1 <= orders <= 10_000_000 and 0 <= seconds <= 3600):
        raise InvalidArgument("expected 1 to 10,000,000 --orders within 0 to 3600 --seconds")
    from penstock_lab.demo.demo_stage import Stage
    from penstock_lab.demo.demo_story import Story

    folder = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    stage = Stage(folder)
    is_kept = False
    try:
        chosen = () if calm else fault or FAULTS
        account = await Story(stage, session.say, orders=orders, seconds=seconds, faults=chosen).run()
        table = make_table(["audit", "figure"], account.rows(), right=["figure"])
        session.emit(account.as_data(), "", table, "", account.verdict())
        is_kept = keep
        if keep:
            _tell_where(session.say, stage)
        else:
            session.say(
                "next: docs/tutorials/pipeline.md does the same by hand; or stay and look: penstock demo --keep"
            )
        return 0 if account.is_clean else 1
    finally:
        if not is_kept:
            stage.stop()
            shutil.rmtree(folder, ignore_errors=True)


def _tell_where(say: Callable[[str], None], stage: "Stage") -> None:
    keys = f"PENSTOCK_LAKE_ACCESS_KEY_ID={stage.lake.key} PENSTOCK_LAKE_SECRET_ACCESS_KEY={stage.lake.secret}"
    say(f"left running in {stage.folder}; look:")
    say(f"  export {keys}")
    say(f"  penstock lake log lake://shop@main --lake {stage.lake.url}")
    say(f"  penstock lake ls lake://shop@main/orders/ --lake {stage.lake.url}")
    say(f"  penstock cluster status --cluster {stage.cluster.folder}")
    say(f"end it: penstock cluster down --cluster {stage.cluster.folder}; kill {stage.pid('lake')}")
