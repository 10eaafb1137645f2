import io
import json

import pytest
from rich.text import Text

from penstock.kernel.errors import InvalidArgument, NotFound, PenstockError
from penstock.server.error_guide import error_kinds
from penstock.server.output import make_console, make_table, print_error, to_error, write_json, write_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def table_text(stream: io.StringIO) -> str:
    rows: list[list[str | Text]] = [["short", "x" * 150], [Text("red", "red"), "y"]]
    write_text(make_console(stream), make_table(["key", "meaning"], rows))
    return stream.getvalue()


def test_on_a_pipe_a_row_is_one_line_without_colours_and_blanks() -> None:
    lines = table_text(io.StringIO()).splitlines()
    assert len(lines) == 4
    assert lines[2] == f"short   {'x' * 150}"
    assert lines[3] == "red     y"


def test_on_a_terminal_a_row_is_folded_and_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "\x1b[31m" in table_text(Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    text = table_text(Terminal())
    assert "\x1b[31m" not in text
    assert len(text.splitlines()) > 4


def test_json_is_one_line_for_programs_and_laid_out_for_eyes() -> None:
    data = {"b": 1, "a": [1.5, None, "é"]}
    piped, terminal = io.StringIO(), Terminal()
    write_json(data, piped)
    write_json(data, terminal)
    assert piped.getvalue() == '{"b":1,"a":[1.5,null,"é"]}\n'
    assert terminal.getvalue().count("\n") > 5
    assert json.loads(terminal.getvalue()) == json.loads(piped.getvalue()) == data


def test_markup_in_data_is_only_text() -> None:
    stream = io.StringIO()
    write_text(make_console(stream), "[bold]not bold[/bold] :smile:")
    assert stream.getvalue() == "[bold]not bold[/bold] :smile:\n"


def test_an_error_of_ours_stays_itself_and_another_becomes_a_defect() -> None:
    ours = NotFound("no such journal")
    assert to_error(ours) is ours
    assert to_error(ExceptionGroup("one", [ExceptionGroup("inner", [ours])])) is ours
    assert to_error(ExceptionGroup("two", [ours, ours])).code == "internal"
    assert to_error(KeyError("x")).message == "a defect in Penstock, KeyError: 'x'"


def test_an_error_which_knows_no_next_step_has_one_by_its_kind() -> None:
    def told(error: PenstockError) -> str:
        stream = io.StringIO()
        print_error(error, as_json=False, debug=False, stream=stream, command="penstock lake put")
        return stream.getvalue()

    assert told(InvalidArgument("x")) == "error: x\nNothing was written.\nNext: penstock lake put --help\n"
    for kind in error_kinds():
        if not issubclass(kind, InvalidArgument):
            more = f"More: penstock errors explain {kind.code}"
            assert told(kind("x")).endswith(f"\nNext: {kind.next_step}\n" if kind.next_step else f"\n{more}\n")


def test_an_error_is_not_folded_where_it_is_copied_from() -> None:
    stream = io.StringIO()
    print_error(NotFound("x" * 200, next_step="penstock journals list"), as_json=False, debug=False, stream=stream)
    assert stream.getvalue() == f"refused: {'x' * 200}\nNothing was written.\nNext: penstock journals list\n"
