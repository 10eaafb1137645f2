"""Sweeps over processes give what one process would, and wrong arguments are refused before any work."""

import doctest
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.kernel.errors import InvalidArgument, NotFound
from penstock_lab.commands import sweep as sweep_module
from penstock_lab.commands.sweep import Sweep, parse_seeds, sweep
from penstock_lab.sim.run import run_seed
from penstock_lab.sim.workloads import find


def test_a_sweep_adds_up_its_seeds() -> None:
    seen: list[int] = []
    found = sweep("limbo-queue", 5, 17, jobs=2, watch=lambda so_far: seen.append(so_far.done))
    alone = [run_seed(find("limbo-queue"), seed) for seed in range(5, 17)]
    assert found.ok
    assert (found.done, found.steps) == (12, sum(outcome.steps for outcome in alone))
    assert found.probes == {
        probe: sum(outcome.probes.get(probe, 0) for outcome in alone)
        for probe in sorted({probe for outcome in alone for probe in outcome.probes})
    }
    assert seen[-1] == 12
    assert seen == sorted(seen)


def test_a_mutant_ends_the_sweep_when_it_is_caught() -> None:
    found = sweep("limbo-queue", 0, 5000, mutant="newest-first", jobs=1)
    assert found.ok
    assert found.done < 100
    assert found.failures[0].failure is not None


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_workers_end_with_a_parent_which_is_killed() -> None:
    command = [sys.executable, "-m", "penstock", "sim", "run", "limbo-queue", "--seeds", "0..10000000", "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stderr is not None
        parent.stderr.readline()  # how far it is: workers have worked
        listed = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        parent.kill()
    assert len(listed) >= 2
    deadline = time.monotonic() + 30
    while any(is_alive(each) for each in listed):
        assert time.monotonic() < deadline, "workers live on"
        time.sleep(0.01)


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_sweep_is_good_if_clean_and_a_mutants_if_not() -> None:
    assert Sweep("w", None, 0, 1, 1).ok
    assert not Sweep("w", None, 0, 1, 1, failed=1).ok
    assert not Sweep("w", "m", 0, 1, 1).ok
    assert Sweep("w", "m", 0, 1, 1, failed=1).ok


@pytest.mark.parametrize("text", ["", "x", "5..5", "9..2", "-3..4", "1..2..3", "0..1000000000", "1.5..3"])
def test_wrong_seeds_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="--seeds"):
        parse_seeds(text)


def test_wrong_names_are_refused_before_a_process_is_started() -> None:
    with pytest.raises(NotFound):
        sweep("nothing", 0, 10)
    with pytest.raises(NotFound):
        sweep("limbo-queue", 0, 10, mutant="nothing")


def test_the_examples_hold() -> None:
    assert doctest.testmod(sweep_module).failed == 0
