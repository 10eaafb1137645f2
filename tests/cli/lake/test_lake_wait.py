"""Waiting for a lake's work: words only for what takes longer than a moment, each once."""

from typing import Any

import pytest

from penstock.cli.lake import lake_wait
from penstock.cli.lake.lake_wait import until_completed, wait_for
from penstock.server.session import Session


def at(phase: str, done: int = 0, total: int = 0) -> dict[str, Any]:
    return {"completed": False, "progress": {"phase": phase, "done": done, "total": total}}


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(lake_wait, "time", clock)
    return clock


def said(statuses: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> tuple[Any, str]:
    answers = iter(statuses)
    last = until_completed(Session(), lambda: next(answers), lake_wait._phase)
    return last, capsys.readouterr().err


def test_what_takes_a_moment_needs_no_words(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    done = {"completed": True, "result": 1}
    assert said([at("waiting"), at("building", 1, 2), done], capsys) == (done, "")
    assert clock.pauses == [0.01, 0.02]


def test_what_takes_longer_is_told_once_for_each_step(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    failed = {"completed": False, "error": {}}
    waits = [at("waiting")] * 10
    assert said([*waits, at("building", 1, 2), at("building", 1, 2), at("building", 2, 2), failed], capsys) == (
        failed,
        "waiting\nbuilding 1 of 2\nbuilding 2 of 2\n",
    )
    assert clock.pauses[-1] == 0.2


def test_who_interrupts_is_told_that_the_work_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    class Client:
        def call(self, method: str, path: str) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wait_for(Session(), Client(), "gc/1")  # type: ignore[arg-type]
    assert capsys.readouterr().err == "the lake continues the work, unless the server is stopped too\n"
