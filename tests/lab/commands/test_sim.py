"""`penstock sim` as a person or a program sees it."""

import json

import pytest

from penstock.cli.main import run


def test_a_clean_sweep_exits_0_and_tells_what_was_reached(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "run", "limbo-queue", "--seeds", "0..4", "--jobs", "1"]) == 0
    printed = capsys.readouterr().out
    assert "limbo-queue: 4 seeds from 0, clean." in printed
    assert "seeds/s" in printed
    assert "limbo.volatile" in printed


def test_a_caught_mutant_exits_0_and_shows_how_to_see_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "run", "limbo-queue", "--seeds", "0..50", "--jobs", "1", "--mutant", "newest-first"]) == 0
    printed = capsys.readouterr().out
    assert "caught by seed 0" in printed
    assert "penstock sim trace limbo-queue 0 --mutant newest-first" in printed


def test_a_mutant_which_is_not_caught_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "run", "limbo-queue", "--seeds", "0", "--jobs", "1", "--mutant", "no-cascade"]) == 1
    assert "NOT CAUGHT" in capsys.readouterr().out


def test_json_is_one_object_with_the_same_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "run", "limbo-queue", "--seeds", "0..3", "--jobs", "1", "--output", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["workload"], data["done"], data["failed"], data["ok"]) == ("limbo-queue", 3, 0, True)
    assert data["seeds_per_second"] > 0


def test_a_trace_prints_every_step_and_exits_1_if_it_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "trace", "limbo-queue", "0"]) == 0
    captured = capsys.readouterr()
    assert "leader   < Requested(request=1" in captured.out
    assert "clean" in captured.err
    assert run(["sim", "trace", "limbo-queue", "0", "--mutant", "newest-first"]) == 1
    assert "AssertionError: I20" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["sim", "run", "typo"], 1, "there is no workload 'typo'"),
        (["sim", "run", "limbo-queue", "--seeds", "9..2"], 2, "expected 0 <= A < B"),
        (["sim", "run", "limbo-queue", "--jobs", "0"], 2, "expected 1 to 1024"),
    ],
)
def test_misuse_is_told_in_words(
    arguments: list[str], status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == status
    assert says in capsys.readouterr().err


def test_the_list_names_every_mutant(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "list"]) == 0
    assert "no-cascade" in capsys.readouterr().out
