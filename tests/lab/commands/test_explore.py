"""`penstock sim explore`: small worlds of the quorum log and of journals, side by side."""

import json

import pytest

from penstock.cli.main import run


def test_worlds_of_both_cores_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "explore", "--output", "json"]) == 0
    names = [each["name"] for each in json.loads(capsys.readouterr().out)]
    assert {"election", "journal-sync", "journal-fail-over"} <= set(names)


def test_a_small_world_of_a_journal_is_searched_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "explore", "journal-sync", "--output", "json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert (found["states"], found["transitions"], found["depth"], found["ok"]) == (58, 100, 17, True)
    assert found["is_exhausted"]
    assert found["core_steps"] > found["depth"]


def test_a_limit_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "explore", "election", "journal-fail-over", "--states", "20"]) == 0
    assert capsys.readouterr().out.count("bounded") == 2


def test_a_mutant_of_the_journal_is_caught_with_its_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "explore", "journal-break", "--mutant", "keeps-tail", "--states", "4000"]) == 0
    printed = capsys.readouterr().out
    assert "caught: I9" in printed
    assert "  1. " in printed


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["nowhere"], 1, "there is no configuration 'nowhere'"),
        (["election", "--states", "0"], 2, "expected 1 or more"),
        (["journal-sync", "--mutant", "votes-early"], 1, "there is no mutant 'votes-early' of these worlds"),
        (["election", "--mutant", "keeps-tail"], 1, "there is no mutant 'keeps-tail' of these worlds"),
    ],
)
def test_misuse_is_told_in_words(
    arguments: list[str], status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sim", "explore", *arguments]) == status
    assert says in capsys.readouterr().err
