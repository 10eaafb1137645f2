"""A long drill: random faults on real brokers under append load, on both KeySpaces, then the audit of every round.

python -m tests.integration.soak_journal --minutes 10 --report docs/reports/faults-journal.md
"""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.integration import journal_faults as faults
from tests.integration.evidence import keep
from tests.integration.journal_drill import REPLICAS, Drill, Fault, brokers_on

from penstock.server.cluster.local import LocalCluster

FAULTS: dict[str, Fault] = {
    "primary killed (kill -9)": faults.kill_the_primary,
    "replica killed (kill -9)": faults.kill_a_replica,
    "primary frozen until replaced": faults.freeze_the_primary,
    "replica frozen, then primary killed": faults.kill_the_primary_while_fates_are_open,
    "lease of the primary dropped": faults.drop_the_lease_of_the_primary,
    "all leases dropped at once": faults.drop_all_leases,
    "every broker restarted in turn": faults.restart_every_broker,
}
BROKERS = 5
ROUND_S = 40.0  # a new journal for the audit, whose work grows with its length


async def soak(
    cluster: LocalCluster, kind: str, end: float, rng: Random, seen: Counter[str], told: Counter[str]
) -> None:
    """Rounds of faults. Raises where an audit fails."""
    left: list[str] = []
    number = 0
    while time.monotonic() < end:
        number += 1
        drill = Drill(cluster, f"soak/{kind}-{number}", rng.randrange(1 << 30))
        await drill.create()
        async with drill.supervised():
            async with drill.load():
                await drill.more()
                round_end = min(end, time.monotonic() + ROUND_S)
                while time.monotonic() < round_end:
                    left = left or rng.sample(list(FAULTS), len(FAULTS))
                    name = left.pop()
                    await FAULTS[name](drill)
                    await drill.more()
                    seen[f"{kind}: {name}"] += 1
            await drill.audit()
        await drill.audit_stopped()
        cluster.start_all()
        told["rounds, each with a cluster stopped and started as a whole"] += 1
        told["acknowledged appends, each there once"] += len(drill.committed) + sum(drill.written.values())
        told["of them transactions, sent again until they were acknowledged"] += sum(drill.written.values())
        told["bytes, identical from every replica and from the store"] += len(drill.content)
        told["appends told aborted, none of them there"] += len(drill.aborted)
        told["appends of unknown fate, each as `resolve` says"] += drill.resolved
        told["appends whose broker was lost before it said anything, at most once there"] += (
            len(drill.unknown) - drill.resolved
        )
        told["processes which ended because their lease was gone, and came back"] += drill.lost_leases
        print(f"{kind}, round {number}: {dict(seen)}, {dict(told)}", flush=True)


def report(seen: Counter[str], told: Counter[str], minutes: float, seed: int) -> str:
    names = sorted(FAULTS)
    lines = [
        "# Faults on real journals\n",
        "<!-- Written by `make soak-journal`. -->\n",
        f"{BROKERS} brokers as real processes on one machine, {minutes:g} minutes, seed {seed}: half of the time on",
        f"the embedded KeySpace, half on etcd. Journals with {REPLICAS} replicas without fsync, fragments of 64 KiB;",
        "six writers of small records, one of streamed records of 1 MiB, two of transactions, all the time. Every",
        "round's audit passed: every acknowledged append is there once, at the offset which was told; nothing aborted",
        "is there; `resolve` says of every unknown fate what can be read; the same bytes come from every replica, and",
        "from the store.\n",
        "| fault | embedded | etcd |",
        "|---|---:|---:|",
        *(f"| {name} | {seen[f'embedded: {name}']} | {seen[f'etcd: {name}']} |" for name in names),
        "",
        "| what | how many |",
        "|---|---:|",
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
    rng = Random(options.seed)
    seen: Counter[str] = Counter()
    told: Counter[str] = Counter()
    for kind in ("embedded", "etcd"):
        with tempfile.TemporaryDirectory() as folder, brokers_on(kind, Path(folder), BROKERS) as cluster:
            end = time.monotonic() + options.minutes * 30
            try:
                asyncio.run(soak(cluster, kind, end, rng, seen, told))
            except BaseException:
                for name in cluster.names("broker"):
                    print(f"--- {name}\n{cluster.log_tail(name, 60)}", flush=True)
                raise
    text = report(seen, told, options.minutes, options.seed)
    print(text)
    if options.report is not None:
        options.report.write_text(text)
        acknowledged = told["acknowledged appends, each there once"]
        amount = f"{acknowledged:,} acknowledged appends, {seen.total()} faults"
        keep(options.report, "10-faults-journal", amount, "no append lost, none twice")


if __name__ == "__main__":
    main()
