"""`penstock bench`: measure Penstock next to its peers, and see whether every bar is kept."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from penstock.cli.help import examples
from penstock.cli.noun import InSession, noun
from penstock.kernel.errors import InvalidArgument
from penstock.server.output import make_table, write_json
from penstock.server.session import Session
from penstock_lab.bench.measure import measure
from penstock_lab.bench.registry import questions
from penstock_lab.bench.render import render
from penstock_lab.bench.report import Options

__all__ = ["app"]

app = noun(
    "bench",
    "Measure Penstock next to its peers.",
    try_this=(
        "penstock bench list",
        "penstock bench wire",
        "penstock bench wal --output json --output-file wal.json",
    ),
    usage="penstock bench NAME [OPTIONS], or penstock bench list",
)


@app.command(name="list", help_epilogue=examples("penstock bench list", "penstock bench list --output json"))
def list_benchmarks(*, session: InSession) -> None:
    """List the benchmarks, and the question each answers."""
    found = questions()
    data = [{"bench": name, "question": question} for name, question in found.items()]
    session.emit(data, make_table(["bench", "question"], found.items()))


def _names(_context: Any) -> dict[str, str]:
    return questions()


@app.default
def run(
    name: Annotated[
        str | None, Parameter(help="Which benchmark. Without it, they are listed.", completer=_names)
    ] = None,
    /,
    *,
    repeats: Annotated[
        int, Parameter(help="How often each case runs; medians count.", metavar="N", validator=Number(gte=1, lte=100))
    ] = 3,
    quick: Annotated[bool, Parameter(help="Show only that it runs: the figures mean little.")] = False,
    before: Annotated[
        Path | None, Parameter(help="A checkout of the tree before, set up, to compare with.", metavar="CHECKOUT")
    ] = None,
    output_file: Annotated[Path | None, Parameter(help="Keep the report there too, as JSON.", metavar="FILE")] = None,
    session: InSession,
) -> int:
    """Run one benchmark. Exit status 0 only if every bar is kept."""
    if name is None:
        list_benchmarks(session=session)
        return 0
    session.start_logs(quiet=True)
    if output_file is not None:
        _refuse_unwritable(output_file)
    with _ended_by_sigterm(), _only_the_report_on_stdout(), _progress(session, name) as watch:
        options = Options(repeats=repeats, quick=quick, before=str(before.absolute()) if before is not None else "")
        report = measure(name, options, watch)
    if output_file is not None:
        with output_file.open("w", encoding="utf-8") as stream:
            write_json(report, stream)
        session.say(f"kept in {output_file}")
    columns = session.stdout.width if sys.stdout.isatty() else 100
    session.emit(report, *(() if session.wants_json else render(report, questions()[name], columns=columns)))
    return 0 if report.ok else 1


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends a benchmark as Ctrl-C does: it ends the processes which it has started."""

    def end(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _only_the_report_on_stdout() -> Iterator[None]:
    """While a benchmark runs, its own output and that of its peers and their processes goes to stderr."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _refuse_unwritable(path: Path) -> None:
    """Before an hour is spent on what could not be kept."""
    try:
        path.open("a", encoding="utf-8").close()
    except OSError as error:
        raise InvalidArgument(
            f"--output-file {path}: {error.strerror}", next_step="penstock bench NAME --output-file FILE"
        ) from None


@contextmanager
def _progress(session: Session, name: str) -> Iterator[Callable[[str], None]]:
    """Show the step of the benchmark on stderr: one changing line on a terminal, else a line each."""
    started = time.monotonic()
    if session.stderr.is_terminal:
        with session.stderr.status(f"bench {name}") as status:
            yield lambda doing: status.update(f"bench {name}: {doing} ({time.monotonic() - started:.0f} s)")
    else:
        yield lambda doing: session.say(f"bench {name}: {doing} ({time.monotonic() - started:.0f} s)")
