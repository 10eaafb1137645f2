"""`penstock demo`: see it work. Real processes, real faults, and an audit which could fail."""

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from penstock.base.errors import InvalidArgument
from penstock.cli.demo_story import Fault, Story
from penstock.cli.noun import InSession, noun
from penstock.cli.output import make_table
from penstock.cli.session import Session
from penstock.cli.sweep import sweep
from penstock.runtime.cluster.local import LocalCluster

__all__ = ["app"]

app = noun(
    "demo",
    "See it work: a cluster of real processes, writers, faults, and an audit of every answer.",
    try_this=("penstock demo", "penstock demo --seconds 60 --keep", "penstock demo --fault kill-leader"),
)

FAULTS: dict[str, Fault] = {
    "kill-leader": Fault("kill -9 the leader", "kill", "leader"),
    "pause-leader": Fault("freeze the leader (a zombie)", "pause", "leader"),
    "kill-follower": Fault("kill -9 a follower", "kill", "follower"),
    "kill-operator": Fault("kill -9 the operator", "kill", "operator"),
}


@app.default
async def run(
    *,
    seconds: Annotated[int, Parameter(help="How long the writers write.", metavar="S")] = 24,
    writers: Annotated[int, Parameter(help="Writers at the same time.", metavar="N")] = 16,
    fault: Annotated[tuple[str, ...], Parameter(help=f"Only these faults: {', '.join(FAULTS)}.", metavar="NAME")] = (),
    keep: Annotated[bool, Parameter(help="Leave the cluster running, and its folder.")] = False,
    session: InSession,
) -> int:
    """Start 3 nodes and an operator, let writers append, strike, restart what a supervisor would, then audit.

    Every writer appends numbered records to a list of its own. After the faults each list must hold every
    acknowledged record, once, in order; and all replicas must agree.
    """
    session.start_logs(quiet=True)
    faults = [_fault(name) for name in fault] or list(FAULTS.values())
    if not (6 <= seconds <= 3600 and 1 <= writers <= 256):
        raise InvalidArgument("expected 6 to 3600 --seconds and 1 to 256 --writers")
    folder = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    cluster = LocalCluster.create(folder, nodes=3)
    story = Story(cluster, session.say, writers=writers, seconds=seconds, faults=faults)
    is_kept = False
    try:
        cluster.start_all()
        await story.begin()
        await story.run()
        audit = await story.audit()
        session.say("")
        caught = await _show_the_simulator(session)
        session.emit(audit.as_data() | {"simulator_caught": caught}, "", _table(audit.rows()), "", audit.verdict())
        if keep:
            is_kept = True
            session.say(f"left running; look: penstock quorum status --cluster {folder}")
            session.say(f"end it:          penstock cluster down --folder {folder}")
        else:
            session.say("next: penstock cluster up --nodes 3, or read docs/architecture.md")
        return 0 if audit.is_clean else 1
    finally:
        if not is_kept:
            cluster.stop_all()
            story.remove_folder()


def _fault(name: str) -> Fault:
    if name not in FAULTS:
        raise InvalidArgument(f"--fault {name}: expected one of {', '.join(FAULTS)}")
    return FAULTS[name]


async def _show_the_simulator(session: Session) -> bool:
    """The same code in a simulated world, with one rule broken on purpose."""
    session.say("simulator: the same protocol code, one rule broken on purpose (an aborted waiter does not cascade) …")
    found = await asyncio.to_thread(sweep, "limbo-queue", 0, 100, mutant="no-cascade")
    if found.failures:
        session.say(f"simulator: noticed by seed {found.failures[0].seed}: {found.failures[0].failure}")
    return bool(found.failures)


def _table(rows: list[tuple[str, str]]) -> Table:
    return make_table(["audit", "figure"], rows, right=["figure"])
