"""`penstock sim`: the protocols in a world with faults, one seed at a time or thousands."""

import sys
import time
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from penstock.cli.noun import InSession, examples, noun
from penstock.kernel.errors import InvalidArgument
from penstock.server.output import make_table
from penstock.server.session import Session
from penstock_lab.commands.explore import EPILOGUE, explore
from penstock_lab.commands.sweep import Sweep, parse_seeds, sweep
from penstock_lab.sim.run import run_seed
from penstock_lab.sim.trace import Trace
from penstock_lab.sim.workloads import WORKLOADS, find, workload_class
from penstock_lab.world.faults import ABOUT_FAULTS

__all__ = ["app"]

app = noun(
    "sim",
    "Run the protocols in a deterministic world with faults.",
    try_this=("penstock sim list", "penstock sim run limbo-queue --seeds 0..2000", "penstock sim trace limbo-queue 42"),
)


def _names(_context: Any) -> dict[str, str]:
    return {name: workload_class(name).about for name in WORKLOADS}


Name = Annotated[str, Parameter(help="The workload, as `penstock sim list` shows it.", completer=_names)]
Mutant = Annotated[
    str | None, Parameter(help="Break one rule on purpose: the run succeeds when the simulator notices.")
]


@app.command(name="list", help_epilogue=examples("penstock sim list", "penstock sim list --output json"))
def list_workloads(*, session: InSession) -> None:
    """List the workloads, and the mutants each of them must catch."""
    data = [
        {"name": name, "about": (found := workload_class(name)).about, "mutants": dict(found.mutants)}
        for name in WORKLOADS
    ]
    parts: list[Any] = []
    for one in data:
        parts += [f"{one['name']}: {one['about']}", ""]
        parts += [make_table(["mutant", "breaks"], one["mutants"].items()), ""]
    session.emit(data, *parts)


@app.command(
    help_epilogue=examples(
        "penstock sim run limbo-queue --seeds 0..2000",
        "penstock sim run limbo-queue --seeds 0..2000 --mutant no-cascade",
        "penstock sim run limbo-queue --seeds 0..500 --output json > report.json",
        "penstock sim run journals --world --seeds 1..200 --faults disk-full,kill",
    )
)
def run(
    workload: Name,
    /,
    *,
    seeds: Annotated[str, Parameter(help="A..B: from A up to, not including, B. Or one seed.")] = "0..100",
    mutant: Mutant = None,
    jobs: Annotated[int | None, Parameter(help="Processes. Default: one per core.")] = None,
    world: Annotated[
        bool, Parameter(help="Run the shipped programs of this world, like journals.", negative=())
    ] = False,
    faults: Annotated[str | None, Parameter(help=ABOUT_FAULTS, metavar="NAMES")] = None,
    story: Annotated[
        str | None, Parameter(help="Print what one process of a world did, or '*'.", metavar="NAME")
    ] = None,
    until: Annotated[float | None, Parameter(help="Stop a world at this virtual second.", metavar="S")] = None,
    without: Annotated[
        str | None, Parameter(help="Leave out these faults and processes, like kill#2,c1.", metavar="NAMES")
    ] = None,
    session: InSession,
) -> int:
    """Run a workload over many seeds; print seeds/s, what failed, and which rare paths were reached."""
    if jobs is not None and not 1 <= jobs <= 1024:
        raise InvalidArgument(f"--jobs {jobs}: expected 1 to 1024")
    first, end = parse_seeds(seeds)
    if world:
        from penstock_lab.commands.worlds import run_worlds  # with the shells of all rooms

        return run_worlds(
            session,
            workload,
            (first, end),
            faults=faults,
            jobs=jobs,
            story=story,
            until=until,
            mutant=mutant,
            without=without,
        )
    if faults is not None or story is not None or until is not None or without is not None:
        raise InvalidArgument("--faults, --story, --until and --without are for worlds: add --world")
    with _Progress(session, end - first) as progress:
        found = sweep(workload, first, end, mutant=mutant, jobs=jobs, watch=progress)
    session.emit(_as_data(found), *_as_text(found))
    return 0 if found.ok else 1


@app.command(
    help_epilogue=examples(
        "penstock sim trace limbo-queue 42", "penstock sim trace limbo-queue 42 --mutant no-cascade | tail"
    )
)
def trace(workload: Name, seed: int, /, *, mutant: Mutant = None, session: InSession) -> int:
    """Run one seed and print everything that happened: `<` to a node, `>` by a node, `!` a fault."""
    kept = Trace(keep=True)
    outcome = run_seed(find(workload, mutant=mutant), seed, trace=kept)
    if session.wants_json:
        session.emit({**msgspec.to_builtins(outcome), "lines": kept.lines})
    else:
        sys.stdout.write("\n".join([*kept.lines, ""]))
        session.say(f"digest {outcome.digest}, {outcome.steps} steps: {outcome.failure or 'clean'}")
    return 1 if outcome.failure else 0


@app.command(
    help_epilogue=examples("penstock sim shrink journals 42", "penstock sim shrink journals 42 --faults kill,cut")
)
def shrink(
    workload: Name,
    seed: int,
    /,
    *,
    faults: Annotated[str | None, Parameter(help=ABOUT_FAULTS, metavar="NAMES")] = None,
    mutant: Mutant = None,
    session: InSession,
) -> int:
    """Leave out faults and processes of a red seed of a world, while the same rule is broken."""
    from penstock_lab.commands.worlds import shrink_world  # with the shells of all rooms

    return shrink_world(session, workload, seed, faults=faults, mutant=mutant)


app.command(explore, help_epilogue=EPILOGUE)


class _Progress:
    """How far a sweep is: one line that is written over on a terminal, a line every ten seconds elsewhere."""

    def __init__(self, session: Session, seeds: int) -> None:
        self._console = session.stderr
        self._seeds = seeds
        self._status = self._console.status("starting") if self._console.is_terminal else None
        self._last_line = time.monotonic()

    def __enter__(self) -> "_Progress":
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def __call__(self, found: Sweep) -> None:
        left_s = (self._seeds - found.done) / max(found.seeds_per_second, 0.001)
        line = (
            f"{found.done:,} of {self._seeds:,} seeds, {found.seeds_per_second:,.0f} seeds/s, "
            f"{found.failed} failed, {left_s:,.0f} s left"
        )
        if self._status:
            self._status.update(line)
        elif time.monotonic() - self._last_line > 10:
            self._last_line = time.monotonic()
            self._console.print(line)


def _as_data(found: Sweep) -> dict[str, Any]:
    return {**msgspec.to_builtins(found), "seeds_per_second": found.seeds_per_second, "ok": found.ok}


def _as_text(found: Sweep) -> list[Any]:
    name = f"{found.workload} with mutant {found.mutant}" if found.mutant else found.workload
    verdict = "clean" if not found.failed else f"{found.failed:,} failed"
    if found.mutant:
        verdict = f"caught by seed {found.failures[0].seed}" if found.failed else "NOT CAUGHT"
    lines: list[Any] = [
        f"{name}: {found.done:,} seeds from {found.first:,}, {verdict}. {found.seeds_per_second:,.0f} seeds/s on "
        f"{found.jobs} processes; {found.steps:,} steps, {found.virtual_ms / 1000:,.0f} s of simulated time."
    ]
    for failure in found.failures[: 1 if found.mutant else 5]:
        mutant = f" --mutant {found.mutant}" if found.mutant else ""
        lines += ["", f"seed {failure.seed}: {failure.failure}"]
        lines += [f"  see it: penstock sim trace {found.workload} {failure.seed}{mutant}"]
    if not found.mutant:
        rows = [[probe, f"{count:,}"] for probe, count in found.probes.items()]
        lines += ["", make_table(["reached", "times"], rows, right=["times"])]
        if found.unreached:
            lines += ["", f"Never reached: {', '.join(found.unreached)}. More seeds may."]
    return lines
