"""`penstock sim run WORLD --world` as a person or a program sees it."""

import json

import pytest

from penstock.cli.main import run

SEED = ["sim", "run", "journals", "--world", "--seeds", "3"]


def test_a_world_prints_its_verdict_and_its_digest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SEED, "--faults", "kill", "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["done"], found["faults"], list(found["digests"])) == (True, 1, ["kill"], ["3"])


def test_a_story_is_of_one_process_and_ends_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SEED, "--story", "b1", "--until", "1.01"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[1] for line in lines[:-1]} == {"b1"}
    assert "1.01 s of virtual time" in lines[-1]


def test_unknown_faults_are_named_and_faults_are_for_worlds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SEED, "--faults", "fire"]) == 2
    assert "no fault 'fire': the faults are kill, kill-all, power" in capsys.readouterr().err
    assert run(["sim", "run", "limbo-queue", "--seeds", "3", "--faults", "kill"]) == 2
    assert "add --world" in capsys.readouterr().err


def test_a_red_seed_is_shrunk_to_its_causes(capsys: pytest.CaptureFixture[str]) -> None:
    """A mutant of the append service needs no fault, and one client."""
    asked = ["sim", "shrink", "journals", "1", "--mutant", "spools-in-one-place"]
    assert run([*asked, "--output", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["failure"].partition(" s: ")[2].startswith("E")
    assert len([name for name in found["left"] if name[0] == "c"]) == 1
    assert not [name for name in found["left"] if name.startswith("kill")]


def test_a_clean_seed_has_nothing_to_shrink(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "shrink", "journals", "3", "--faults", "none"]) == 2
    assert "there is nothing to shrink" in capsys.readouterr().err
