"""A pipeline's file as a program: its flags, and its exit status. No Spark runs."""

from typing import Any

import pytest

from penstock.kernel.errors import Fenced, InvalidArgument, PreconditionFailed, Refused
from penstock.spark import Pipeline, journal
from penstock.spark.pipelines.running import program


class Stub:
    """A run that ends as it is written down."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error, self.notes, self.is_stopped = error, ["note"], False

    def wait(self) -> None:
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.is_stopped = True

    def progress(self) -> list[Any]:
        return []


def shop() -> Pipeline:
    pipeline = Pipeline("shop")
    pipeline.flow(source=journal("a"), sink=journal("b"), name="copy")(lambda raw: raw)
    return pipeline


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, 0),
        (Refused("failed"), 1),
        (InvalidArgument("shop.py, line 3: no"), 2),
        (PreconditionFailed("belongs to query", flow="copy"), 75),
        (PreconditionFailed("has no checkpoint"), 1),
        (Fenced("stale"), 1),
        (KeyboardInterrupt(), 0),
    ],
)
def test_the_exit_status_says_how_it_ended(
    error: BaseException | None, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[Any] = []
    stub = Stub(error)

    def start(*arguments: Any) -> Stub:
        given.extend(arguments)
        return stub

    monkeypatch.setattr(program, "start", start)
    monkeypatch.delenv(program.SUBMITTED, raising=False)
    flags = ["--until-now", "--flow", "copy", "--conf", "spark.x=1", "--package", "a:b:1", "--max-bytes", "1MiB"]
    with pytest.raises(SystemExit) as ended:
        shop().main(flags)
    assert ended.value.code == status
    _, spark, flows, until, chosen = given
    assert (spark, flows, until) == (None, ("copy",), "now")
    assert (chosen["conf"], chosen["packages"], chosen["max_bytes"]) == ({"spark.x": "1"}, ("a:b:1",), "1MiB")
    assert stub.is_stopped == isinstance(error, KeyboardInterrupt)
    assert "note" in capsys.readouterr().err


def test_a_wrong_flag_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    for flags in (["--nosuch"], ["--conf", "x"]):
        with pytest.raises(SystemExit) as ended:
            shop().main(flags)
        assert ended.value.code == 2
    assert "--conf x: expected NAME=VALUE" in capsys.readouterr().err
