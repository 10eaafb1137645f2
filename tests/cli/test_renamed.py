"""Old names of flags work for one release, with a note; a name that means something else now is refused."""

import pytest
from tests.cli.terminal import Penstock

from penstock.cli.durations import read_duration
from penstock.cli.main import command_tree
from penstock.cli.renamed import FLAGS, REFUSED, current
from penstock.kernel.errors import InvalidArgument

ROWS = [(chain, old, new) for table in (FLAGS, REFUSED) for chain, names in table.items() for old, new in names.items()]


@pytest.mark.parametrize(("chain", "old", "new"), ROWS, ids=lambda each: "-".join(each) if each else "all")
def test_each_new_name_exists_and_no_old_one_does(chain: tuple[str, ...], old: str, new: str) -> None:
    command = command_tree()
    for word in chain:
        command = command[word]
    names = {name for argument in command.assemble_argument_collection() for name in argument.names}
    assert new in names
    assert old not in names


def test_old_names_become_new_ones_with_a_note() -> None:
    note = ["--check is now --check-registers"]
    append = ["journals", "append", "x"]
    for flag in (["--check", "a=b"], ["--check=a=b"]):
        expected = [each.replace("--check", "--check-registers") for each in flag]
        assert current([*append, *flag]) == ([*append, *expected], note)
        assert current(["--set", "a.b=c", *append, *flag]) == (["--set", "a.b=c", *append, *expected], note)


def test_other_commands_values_and_operands_stay() -> None:
    for line in (
        "journals read x --check y",
        "--set journals append --check",
        "journals append x -- --check --set",
        "journals append x --check-registers a=b",
        "journals",
    ):
        assert current(line.split()) == (line.split(), [])


def test_both_names_in_one_command_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="--check and --check-registers are the same flag"):
        current(["journals", "append", "x", "--check", "a", "--check-registers=b"])


def test_a_name_that_means_something_else_is_refused_with_the_whole_command() -> None:
    with pytest.raises(InvalidArgument, match="--set after journals append is ambiguous") as refused:
        current(["journals", "append", "--offset", "3", "--set", "a=b c", "x"])
    assert refused.value.next_step == "penstock journals append --offset 3 --set-register 'a=b c' x"


def test_milliseconds_get_their_unit() -> None:
    line = ["broker", "--id", "b1", "--lease-ms", "500", "--limit=7"]
    expected = ["broker", "--id", "b1", "--lease", "500ms", "--max-journals=7"]
    assert current(line) == (expected, ["--lease-ms is now --lease", "--limit is now --max-journals"])
    assert current(["operator", "--failure-ms=500"])[0] == ["operator", "--failure-after=500ms"]


@pytest.mark.parametrize(("text", "seconds"), [("10s", 10), ("2min", 120), ("250ms", 0.25), ("1h", 3600), ("2.5", 2.5)])
def test_a_length_of_time_has_a_unit_or_is_in_seconds(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


def test_a_length_of_time_that_is_none_is_refused(penstock: Penstock) -> None:
    refused = penstock("down", "--timeout", "soon")
    assert refused.status == 2
    assert "a length of time with its unit" in refused.stderr


def test_an_old_name_prints_a_note_and_works(penstock: Penstock) -> None:
    outcome = penstock("operator", "--id", "op1", "--failure-ms", "5")
    assert outcome.stderr.splitlines()[:2] == [
        "note: --failure-ms is now --failure-after",
        "error: --failure-after 5ms: expected at least 10ms",
    ]
