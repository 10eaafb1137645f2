import asyncio

import pytest
from tests.cli.terminal import Penstock

from penstock.cli import main
from penstock.cli.noun import InSession, examples, noun
from penstock.kernel.errors import ConnectionLost, InvalidArgument, NotFound

app = noun("valve", "Opens and closes.", try_this=("penstock valve open",))


@app.command(name="open", help_epilogue=examples("penstock valve open"))
async def open_valve(turns: int = 1, /, *, session: InSession) -> int:
    """Open it."""
    await asyncio.sleep(0)
    session.emit({"turns": turns}, f"opened by {turns} turns")
    return 0 if turns else 1


@app.command
def fail(how: str, /, *, session: InSession) -> None:
    """Fail in some way."""
    raise {
        "refused": NotFound("no such valve"),
        "misused": InvalidArgument("not a valve"),
        "unknown": ConnectionLost("it may be open"),
        "grouped": ExceptionGroup("tasks failed", [NotFound("no such valve")]),
    }[how]


NO_VALVE = "refused: no such valve\nNothing was written.\nMore: penstock errors explain not-found\n"


@pytest.fixture(autouse=True)
def _valve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.NOUNS, "valve", (f"{__name__}:app", "Opens and closes."))


def test_one_line_adds_a_noun_and_its_verbs_may_be_async(penstock: Penstock) -> None:
    assert "valve         Opens and closes." in penstock("--help").stdout
    outcome = penstock("valve", "open", "3")
    assert (outcome.status, outcome.stdout) == (0, "opened by 3 turns\n")
    assert penstock("valve", "open", "3", "--output", "json").stdout == '{"turns":3}\n'


def test_a_verb_may_return_its_exit_status(penstock: Penstock) -> None:
    assert penstock("valve", "open", "0").status == 1


@pytest.mark.parametrize(
    ("how", "status", "said"),
    [
        ("refused", 1, NO_VALVE),
        ("misused", 2, "error: not a valve\nNothing was written.\nNext: penstock valve fail --help\n"),
        (
            "unknown",
            1,
            "unknown: it may be open\nIt may have been written.\nMore: penstock errors explain connection-lost\n",
        ),
        ("grouped", 1, NO_VALVE),
    ],
)
def test_an_error_decides_the_status(penstock: Penstock, how: str, status: int, said: str) -> None:
    outcome = penstock("valve", "fail", how)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (status, "", said)


def test_without_the_lab_its_nouns_name_the_package(penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "find_spec", lambda _: None)
    assert "sim" not in {line.split()[1] for line in penstock("--help").stdout.splitlines() if len(line.split()) > 1}
    refused = penstock("sim", "run", "quorum", "--seeds", "0..3")
    assert refused.status == 2
    assert "penstock sim needs penstock-lab" in refused.stderr
    assert "pip install penstock-lab" in refused.stderr
