"""`penstock sim run WORLD --world`: shipped shells and clients under faults, one seed at a time or many."""

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Final

import msgspec

from penstock.kernel.errors import InvalidArgument
from penstock.server.output import make_table
from penstock.server.session import Session
from penstock_lab.world.faults import check_faults
from penstock_lab.world.run import WorldOutcome, find_mutant, run_world
from penstock_lab.world.shrink import shrink

__all__ = ["WorldSweep", "run_worlds", "shrink_world", "sweep_worlds"]

SHOWN_MAX: Final = 5


class WorldSweep(msgspec.Struct):
    """The verdicts of many seeds."""

    world: str
    first: int
    end: int
    faults: tuple[str, ...] | None
    jobs: int
    mutant: str | None = None
    done: int = 0
    failed: int = 0
    seconds: float = 0.0
    virtual_s: float = 0.0
    counts: dict[str, int] = {}
    failures: list[WorldOutcome] = []
    digests: dict[int, str] = {}

    @property
    def seeds_per_second(self) -> float:
        return self.done / self.seconds if self.seconds else 0.0

    @property
    def ok(self) -> bool:
        """A sweep is good if every seed is clean; one of a mutant, if some seed has caught it."""
        return self.failed > 0 if self.mutant else self.failed == 0


def sweep_worlds(
    name: str,
    first: int,
    end: int,
    faults: Sequence[str] | None = None,
    *,
    jobs: int | None = None,
    mutant: str | None = None,
    watch: Callable[[WorldSweep], None] = lambda _: None,
) -> WorldSweep:
    """Run seeds, in several processes. A mutant's sweep ends when it is caught."""
    find_mutant(name, mutant)
    chosen = check_faults(faults) if faults is not None else None
    found = WorldSweep(name, first, end, chosen, jobs or os.cpu_count() or 1, mutant)
    counts: Counter[str] = Counter()
    began = time.monotonic()

    def note(outcome: WorldOutcome) -> None:
        found.done += 1
        found.virtual_s = round(found.virtual_s + outcome.virtual_s, 3)
        found.digests[outcome.seed] = outcome.digest
        counts.update(outcome.counts)
        if outcome.failure is not None:
            found.failed += 1
            found.failures.append(outcome)
        found.seconds = time.monotonic() - began
        watch(found)

    if found.jobs == 1 or end - first == 1:
        for seed in range(first, end):
            note(run_world(name, seed, chosen, mutant=mutant))
            if mutant is not None and found.failed:
                break
    else:
        with ProcessPoolExecutor(found.jobs, mp_context=get_context("spawn")) as pool:
            for outcome in pool.map(_run, [(name, seed, chosen, mutant) for seed in range(first, end)]):
                note(outcome)
                if mutant is not None and found.failed:
                    pool.shutdown(cancel_futures=True)
                    break
    found.counts = dict(sorted(counts.items()))
    return found


def _run(what: tuple[str, int, tuple[str, ...] | None, str | None]) -> WorldOutcome:
    name, seed, faults, mutant = what
    return run_world(name, seed, faults, mutant=mutant)


def run_worlds(
    session: Session,
    name: str,
    seeds: tuple[int, int],
    *,
    faults: str | None,
    jobs: int | None,
    story: str | None,
    until: float | None,
    mutant: str | None = None,
    without: str | None = None,
) -> int:
    """Run and print. `faults`: names with commas between, or `none`."""
    first, end = seeds
    names = _names(faults)
    if story is not None or until is not None or without is not None:
        if end - first != 1:
            raise InvalidArgument("--story, --until and --without are for one seed, like --seeds 42")
        left_out = without.split(",") if without else ()
        outcome = run_world(name, first, names, story_of=story, until_s=until, mutant=mutant, without=left_out)
        session.emit(msgspec.to_builtins(outcome), *outcome.story, _line(outcome))
        return 1 if outcome.failure else 0
    found = sweep_worlds(name, first, end, names, jobs=jobs, mutant=mutant)
    session.emit(
        {**msgspec.to_builtins(found), "seeds_per_second": found.seeds_per_second, "ok": found.ok},
        *_as_text(found),
    )
    return 0 if found.ok else 1


def _names(faults: str | None) -> list[str] | None:
    return None if faults is None else [] if faults == "none" else faults.split(",")


def shrink_world(session: Session, name: str, seed: int, *, faults: str | None, mutant: str | None) -> int:
    """Shrink a red seed and print the rest."""
    outcome, left = shrink(name, seed, _names(faults), mutant=mutant, watch=session.say)
    chosen = ",".join(outcome.faults) or "none"
    see = f"penstock sim run {name} --world --seeds {seed} --faults {chosen}"
    see += f" --without {','.join(outcome.without)}" if outcome.without else ""
    see += f" --mutant {mutant} --story '*'" if mutant else " --story '*'"
    session.emit(
        {**msgspec.to_builtins(outcome), "left": left},
        _line(outcome),
        f"left of it: {', '.join(left)}",
        f"  see it: {see}",
    )
    return 1


def _line(outcome: WorldOutcome) -> str:
    faults = ", ".join(outcome.faults) or "no faults"
    verdict = outcome.failure or "clean"
    return f"seed {outcome.seed}: digest {outcome.digest}, {faults}, {outcome.virtual_s:g} s of virtual time: {verdict}"


def _as_text(found: WorldSweep) -> list[Any]:
    verdict = "clean" if not found.failed else f"{found.failed:,} failed"
    if found.mutant:
        verdict = f"{found.mutant} caught by seed {found.failures[0].seed}" if found.failed else "NOT CAUGHT"
    lines: list[Any] = [
        f"{found.world}: {found.done:,} seeds from {found.first:,}, {verdict}. {found.seeds_per_second:,.1f} seeds/s "
        f"on {found.jobs} processes; {found.virtual_s:,.0f} s of virtual time."
    ]
    for outcome in found.failures[:SHOWN_MAX]:
        faults = ",".join(outcome.faults) or "none"
        lines += ["", _line(outcome)]
        faults += f" --mutant {outcome.mutant}" if outcome.mutant else ""
        seen = f"penstock sim run {found.world} --world --seeds {outcome.seed} --faults {faults} --story '*'"
        lines += [f"  see it: {seen}"]
    if found.done == 1 and not found.failed:
        lines += [f"digest {next(iter(found.digests.values()))}"]
    lines += ["", make_table(["records", "number"], [[name, f"{n:,}"] for name, n in found.counts.items()])]
    return lines
