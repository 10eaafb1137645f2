"""A long drill of the bank: random faults on real processes under load, then the audit. Run by `make soak-bank`.

python -m tests.integration.soak_bank --minutes 10 --report docs/reports/faults-bank.md
"""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.integration.bank import Drill, running_bank
from tests.integration.evidence import keep
from tests.postgres import running_postgres

ROUND_S = 60.0
TELLERS = 4


async def soak(
    folder: Path, database: str, seconds: float, seed: int, lease_ms: int
) -> tuple[Counter[str], dict[str, int]]:
    """Faults by kind, and what the audit counted. Raises where it fails."""
    rng = Random(seed)
    faults: Counter[str] = Counter()
    async with running_bank(folder, database, lease_ms) as drill:
        kinds = {
            "consumer killed": drill.kill_a_consumer,
            "primary of a shard killed": drill.kill_a_primary,
            "primary of a shard frozen until replaced": drill.freeze_a_primary,
            "consumer frozen for 0.3 s": drill.freeze_a_consumer_briefly,
            "broker killed": drill.kill_a_broker,
            "broker frozen for 0.5 s": drill.freeze_a_broker_briefly,
        }
        tellers = [asyncio.create_task(drill.transfer(f"t{n}", Random(seed + n), pause_s=0.01)) for n in range(TELLERS)]
        begin, told = time.monotonic(), 0
        while time.monotonic() - begin < seconds:
            name = rng.choice(list(kinds))
            print(f"{time.monotonic() - begin:.0f} s: {name}, {drill.taken} transfers", flush=True)
            await kinds[name](rng)
            faults[name] += 1
            await drill.more(20)
            if time.monotonic() - begin > ROUND_S * (told + 1):
                told += 1
                await drill.settled()
                print(f"{told} min: {drill.taken} transfers, {dict(faults)}", flush=True)
        return faults, await _end(drill, tellers)


async def _end(drill: Drill, tellers: "list[asyncio.Task[None]]") -> dict[str, int]:
    drill.is_over = True
    await asyncio.gather(*tellers)
    return await drill.audit()


def report(faults: Counter[str], audited: dict[str, int], minutes: float, seed: int) -> str:
    lines = [
        "# Faults on a real bank\n",
        "<!-- Written by `make soak-bank`. -->\n",
        "The bank of `examples/bank`: three brokers, three consumers and PostgreSQL as real processes on one machine,",
        f"{minutes:g} minutes, seed {seed}. Four shards with a standby each, two in PostgreSQL, two in SQLite files",
        "with recovery logs. Four tellers asked for transfers all the time; each is debited by one shard, published,",
        "and credited by another. The audit at the end passed: every transfer debited once and credited once, every",
        "balance what its transfers make it, and the sum of all what it was at the beginning. For it the SQLite files",
        "were played back from their recovery logs.\n",
        "| fault | times |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in sorted(faults.items())),
        "",
        "| what | how many |",
        "|---|---|",
        *(f"| {name} | {count:,} |" for name, count in audited.items()),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lease-ms", type=int, default=5_000)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_postgres() as database:
        work = soak(Path(folder) / "bank", database, options.minutes * 60, options.seed, options.lease_ms)
        faults, audited = asyncio.run(work)
    text = report(faults, audited, options.minutes, options.seed)
    print(text)
    if options.report is not None:
        options.report.write_text(text)
        amount = f"{audited['transfers']:,} transfers, {faults.total()} faults"
        keep(options.report, "40-faults-bank", amount, "every transfer once, every balance right")


if __name__ == "__main__":
    main()
