"""`make soak-demo`: the demo, ten times in a row with all its faults, and once with each fault alone; a line a run.

    python -m tests.integration.soak_demo --runs 10 --report docs/reports/demo.md

With `--busy N`, N processes that do nothing but compute run at the same time. A run that fails leaves its output in
`<report>.<run>.log`, or on the screen without a report.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from tests.integration.evidence import keep

RUN_S_MAX = 1800.0
FAULTS = ("broker", "leader", "driver")
BUSY = "while True: pass"


class Outcome(msgspec.Struct, frozen=True):
    """One run, as its own audit says it."""

    faults: tuple[str, ...]
    seconds: float
    orders: int | None = None
    lost: int | None = None
    doubled: int | None = None
    is_clean: bool = False
    said: str = ""

    @property
    def line(self) -> str:
        counts = " | ".join("?" if each is None else f"{each:,}" for each in (self.orders, self.lost, self.doubled))
        verdict = "every order once, to the cent" if self.is_clean else "FAILED"
        return f"{' + '.join(self.faults) or 'none'} | {self.seconds:.0f} | {counts} | {verdict}"


def run_demo(faults: tuple[str, ...], arguments: argparse.Namespace) -> Outcome:
    """Run one demo as a process of its own."""
    chosen = [part for name in faults for part in ("--fault", name)] or ["--calm"]
    amount = ["--orders", str(arguments.orders), "--seconds", str(arguments.seconds)]
    command = [sys.executable, "-m", "penstock", "--output", "json", "demo", *amount, *chosen]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, said = process.communicate(timeout=RUN_S_MAX)
    except subprocess.TimeoutExpired:
        process.terminate()
        out, said = process.communicate()
        said += f"\nnot done within {RUN_S_MAX:.0f} s"
    except BaseException:
        process.terminate()  # it ends its own children
        process.wait()
        raise
    seconds = time.monotonic() - began
    try:
        account = json.loads(out)
        orders, lost, doubled = account["orders"], account["lost"], account["doubled"]
    except (ValueError, KeyError):
        return Outcome(faults, seconds, said=said + out)
    is_clean = process.returncode == 0 and account["ok"] and account["revenue"] == account["books"]
    return Outcome(faults, seconds, orders, lost, doubled, is_clean, said)


@contextmanager
def busy(count: int) -> Iterator[None]:
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for each in others:
            each.kill()
            each.wait()


def report(outcomes: list[Outcome], arguments: argparse.Namespace) -> str:
    good = sum(each.is_clean for each in outcomes)
    beside = f", {arguments.busy} busy processes beside it" if arguments.busy else ""
    lines = [
        "# The demo, again and again",
        "",
        f"Written by `make soak-demo` on {datetime.now(UTC):%Y-%m-%d}: `penstock demo` with {arguments.orders:,}",
        f"orders within {arguments.seconds:g} s, on {os.cpu_count()} cores{beside}. Real processes, kill -9, an audit",
        f"which reads the lake's files itself. {good} of {len(outcomes)} runs found every order once, and totals right",
        "to the cent.",
        "",
        "| run | killed | seconds | orders | lost | twice | verdict |",
        "|---|---|---|---|---|---|---|",
        *(f"| {number} | {each.line} |" for number, each in enumerate(outcomes, 1)),
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--orders", type=int, default=40_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--alone", nargs="*", default=["none", *FAULTS], choices=["none", *FAULTS])
    parser.add_argument("--report", type=Path)
    arguments = parser.parse_args()
    alone = [() if name == "none" else (name,) for name in arguments.alone]
    outcomes: list[Outcome] = []
    with busy(arguments.busy):
        for faults in [FAULTS] * arguments.runs + alone:
            outcomes.append(run_demo(faults, arguments))
            print(f"{len(outcomes)} | {outcomes[-1].line}", flush=True)
            if arguments.report is not None:
                arguments.report.write_text(report(outcomes, arguments))
                amount = f"{len(outcomes)} runs of {arguments.orders:,} orders"
                good = sum(each.is_clean for each in outcomes)
                keep(arguments.report, "70-demo", amount, f"{good} runs: every order once, every total right")
            if not outcomes[-1].is_clean:
                _keep(outcomes[-1].said, len(outcomes), arguments.report)
    return 0 if outcomes and all(each.is_clean for each in outcomes) else 1


def _keep(said: str, number: int, path: Path | None) -> None:
    if path is None:
        print(said, file=sys.stderr)
    else:
        path.with_suffix(f".{number}.log").write_text(said)


if __name__ == "__main__":
    sys.exit(main())
