"""A long drill: random faults on a lake of real processes under load, then the audit. Run by `make soak-lake`.

python -m tests.integration.soak_lake --minutes 5 --report docs/reports/faults-lake.md
"""

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.integration.evidence import keep
from tests.integration.lake_drill import Load, Members, under_load
from tests.integration.test_quorum_faults import kill_follower, kill_leader

from penstock.server.cluster.local import LocalCluster

Fault = Callable[[Load], Awaitable[None]]
ROUND_S = 45.0
FROZEN_PUTS = 5


async def kill_a_member(load: Load) -> None:
    port = load.rng.choice(load.members.ports)
    load.members.signal(port, signal.SIGKILL)
    await load.more()
    load.members.start(port)


async def kill_all_members(load: Load) -> None:
    load.members.kill_all()
    load.members.start_all()


async def restart_a_member(load: Load) -> None:
    """SIGTERM, and at once the next life."""
    port = load.rng.choice(load.members.ports)
    load.members.signal(port, signal.SIGTERM)
    await load.more(5)
    await load.members.ended(port)
    load.members.start(port)


async def freeze_a_member(load: Load) -> None:
    """It wakes up later than all others, and believes that nothing happened."""
    port = load.rng.choice(load.members.ports)
    load.members.freeze(port)
    try:
        await load.more(FROZEN_PUTS)
    finally:
        load.members.signal(port, signal.SIGCONT)


async def kill_everything(load: Load) -> None:
    """Members, nodes and operator together."""
    cluster = load.members.cluster
    load.members.kill_all()
    for each in cluster.plan.processes:
        if cluster.is_running(each.name):
            cluster.kill(each.name)
    cluster.start_all()
    load.members.start_all()


FAULTS: dict[str, Fault] = {
    "a member killed": kill_a_member,
    "all members killed together": kill_all_members,
    "a member restarted": restart_a_member,
    "a member frozen": freeze_a_member,
    "the queue's leader killed": lambda load: kill_leader(load.members.cluster),
    "a node of the queue killed": lambda load: kill_follower(load.members.cluster),
    "everything killed together": kill_everything,
}


async def soak(members: Members, seconds: float, seed: int) -> tuple[Counter[str], Counter[str]]:
    """Return faults by kind, and the load's answers. Raises where an audit fails."""
    faults: Counter[str] = Counter()
    told: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:

        async def drill(load: Load) -> None:
            round_end = min(end, time.monotonic() + ROUND_S)
            await load.more()
            while time.monotonic() < round_end:
                name = load.rng.choice(list(FAULTS))
                print(f"{name} …", flush=True)
                await FAULTS[name](load)
                faults[name] += 1
                members.start_again_what_ended()
                await load.more()

        load = await under_load(members, f"round-{told['rounds']}", drill, seed=seed + told["rounds"])
        told["rounds"] += 1
        told["acknowledged puts"] += len(load.puts)
        told["acknowledged commits"] += len(load.commits)
        told["reads which had to see the put before them"] += load.reads
        told["answers lost, and asked for again"] += load.lost_answers
        print(f"round {told['rounds']}: {dict(faults)}, {dict(told)}", flush=True)
    return faults, told


def report(faults: Counter[str], told: Counter[str], minutes: float, seed: int) -> str:
    lines = [
        "# Faults on a real lake\n",
        "<!-- Written by `make soak-lake`. -->\n",
        f"Three members on three quorum nodes and an operator, real processes on one machine, {minutes:g} minutes,",
        f"seed {seed}. Writers of new objects, two users who overwrite an object and read it back through any member,",
        "and one who commits ran all the time. Every round's audit passed: every acknowledged put is there, through",
        "every member; every acknowledged commit is in the log; all members show the same tree; no read was older",
        "than a put acknowledged before it.\n",
        "| fault | times |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in sorted(faults.items())),
        "",
        "| what | how many |",
        "|---|---|",
        *(f"| {name} | {count:,} |" for name, count in told.items()),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and end the started processes
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster.create(Path(folder) / "cluster", nodes=3, machine="log", snapshot_entries=2_000)
        members = Members(Path(folder), cluster, 3)
        try:
            cluster.start_all()
            members.start_all()
            faults, told = asyncio.run(soak(members, options.minutes * 60, options.seed))
        finally:
            members.kill_all()
            cluster.stop_all()
    text = report(faults, told, options.minutes, options.seed)
    print(text)
    if options.report is not None:
        options.report.write_text(text)
        done = f"{told['acknowledged puts']:,} puts, {told['acknowledged commits']:,} commits"
        amount = f"{done}, {faults.total()} faults"
        keep(options.report, "30-faults-lake", amount, "every acknowledged put and commit read back")


if __name__ == "__main__":
    main()
