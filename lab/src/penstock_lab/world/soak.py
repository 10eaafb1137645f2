"""A soak of all worlds: fresh seeds for some hours; each red one goes into seeds.toml, with its verdict.

    python -m penstock_lab.world.soak --hours 8 --seeds tests/lab/world/seeds.toml

The first seed comes from the time of day, so that no two soaks run the same ones; the report says which ran.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from penstock_lab.world.run import WORLDS, WorldOutcome, run_world

__all__ = ["entry_of", "main", "soak"]


def entry_of(outcome: WorldOutcome) -> str:
    """Return an entry of seeds.toml for a red seed: known, and not mended."""
    assert outcome.failure is not None
    why = outcome.failure.splitlines()[0]
    return (
        f"\n[[seed]]\nworld = {json.dumps(outcome.world)}\nseed = {outcome.seed}\n"
        f"faults = {json.dumps(list(outcome.faults))}\nwhy = {json.dumps('found by a soak: ' + why)}\n"
        f"fails = {json.dumps(outcome.rule)}\n"
    )


def soak(seconds: float, seeds: Path, worlds: Sequence[str], first: int) -> Counter[str]:
    """Run the worlds in turn for a time; append red seeds to the file. Return how many of each ran and were red."""
    counts: Counter[str] = Counter()
    began, seed = time.monotonic(), first
    while time.monotonic() - began < seconds:
        for world in worlds:
            outcome = run_world(world, seed)
            counts[f"{world} run"] += 1
            if outcome.failure is not None:
                counts[f"{world} red"] += 1
                with seeds.open("a") as file:
                    file.write(entry_of(outcome))
                print(f"{world} {seed} {','.join(outcome.faults)}: {outcome.failure.splitlines()[0]}", flush=True)
        seed += 1
    return counts


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak as the command line says; return 1 if a seed was red."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seeds", type=Path, default=Path("tests/lab/world/seeds.toml"))
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--first", type=int, default=int(time.time()))
    given = parser.parse_args(arguments)
    counts = soak(given.hours * 3600, given.seeds, given.worlds.split(","), given.first)
    print(f"seeds from {given.first}: {', '.join(f'{name} {count}' for name, count in sorted(counts.items()))}")
    return 1 if any(name.endswith(" red") for name in counts) else 0


if __name__ == "__main__":
    raise SystemExit(main())
