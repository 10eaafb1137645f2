"""A long drill: random faults on real processes under load, then the audit. Run by `make soak-quorum`.

python -m tests.integration.soak_quorum --minutes 10 --report docs/reports/faults-quorum.md
"""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from tests.integration.evidence import keep
from tests.integration.test_quorum_faults import (
    Load,
    audit,
    freeze_leader_until_replaced,
    kill_follower,
    kill_leader,
    kill_operator_in_an_election,
    metadata_of,
    swap_while_the_operator_dies,
    until,
)

from penstock.server.cluster.local import LocalCluster

Fault = Callable[[LocalCluster], Awaitable[None]]
FAULTS: dict[str, Fault] = {
    "leader killed": kill_leader,
    "follower killed": kill_follower,
    "leader frozen until replaced": freeze_leader_until_replaced,
    "operator killed in an election": kill_operator_in_an_election,
    "operator killed in a swap": swap_while_the_operator_dies,
}
ROUND_S = 30.0  # a new history for the checker, whose work grows with its length


async def soak(cluster: LocalCluster, seconds: float, seed: int) -> tuple[Counter[str], Counter[str]]:
    """Return faults by kind, and the load's answers. Raises where an audit fails."""
    rng = Random(seed)
    faults: Counter[str] = Counter()
    told: Counter[str] = Counter()
    end = time.monotonic() + seconds
    await metadata_of(cluster)
    while time.monotonic() < end:
        load = Load(cluster)
        names = [f"{told['rounds']}-w{n}" for n in range(4)]
        users = [load.write_records(name) for name in names]
        users += [load.use_register(f"{told['rounds']}-r", n) for n in range(4)]
        tasks = [asyncio.create_task(user) for user in users]
        round_end = min(end, time.monotonic() + ROUND_S)
        while time.monotonic() < round_end:
            name = rng.choice(list(FAULTS))
            await FAULTS[name](cluster)
            faults[name] += 1
            before = load.answers
            await until(lambda load=load, before=before: load.answers > before + 20)  # type: ignore[misc]
        load.is_over = True
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
        await audit(load)
        told["rounds"] += 1
        told["acknowledged appends"] += sum(load.acknowledged.values())
        told["register operations checked"] += sum(map(len, load.history.values()))
        told["fates asked later"] += len(load.unknown)
        print(f"round {told['rounds']}: {dict(faults)}, {dict(told)}", flush=True)
    return faults, told


def report(faults: Counter[str], told: Counter[str], minutes: float, seed: int) -> str:
    lines = [
        "# Faults on a real quorum log\n",
        "<!-- Written by `make soak-quorum`. -->\n",
        f"Three nodes, a spare and an operator as real processes on one machine, {minutes:g} minutes, seed {seed}.",
        "Four writers of numbered records and four users of a register ran all the time. Every round's audit passed:",
        "every acknowledged record there, once, in order; one fate for every entry whose answer was lost; one order",
        "which explains all reads and writes of the register; equal checksums on all members.\n",
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
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster.create(Path(folder) / "cluster", nodes=3, spares=1, snapshot_entries=2_000)
        try:
            cluster.start_all()
            faults, told = asyncio.run(soak(cluster, options.minutes * 60, options.seed))
        finally:
            cluster.stop_all()
    text = report(faults, told, options.minutes, options.seed)
    print(text)
    if options.report is not None:
        options.report.write_text(text)
        amount = f"{told['acknowledged appends']:,} acknowledged appends, {faults.total()} faults"
        keep(options.report, "20-faults-quorum", amount, "no append lost, one order")


if __name__ == "__main__":
    main()
