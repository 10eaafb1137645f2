"""How things are printed: consoles, tables, JSON, and failures in their three parts."""

import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, Final, TextIO

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.kernel.errors import InternalError, InvalidArgument, PenstockError
from penstock.server.error_guide import guide

__all__ = ["counted", "make_console", "make_table", "print_error", "to_error", "write_json", "write_text"]

# A pipe has no width. Tables there keep their natural one: what greps and cuts lines must not meet folded cells.
PIPE_COLUMNS: Final = 10_000


def make_console(stream: TextIO) -> Console:
    """Make a console: on a terminal as wide as that, on a pipe as wide as it needs; NO_COLOR and COLUMNS are
    respected.
    """
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PIPE_COLUMNS
    return Console(file=stream, width=width, highlight=False, emoji=False)


def make_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, right: Sequence[str] = ()) -> Table:
    """A quiet table: a rule under the head, nothing else. Columns named in `right` are aligned there."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", border_style="dim")
    for column in columns:
        is_first = column == columns[0]
        table.add_column(column, justify="right" if column in right else "left", overflow="fold", no_wrap=is_first)
    for row in rows:
        table.add_row(*row)
    return table


def counted(number: int, what: str) -> str:
    """
    >>> counted(1, "path"), counted(0, "path")
    ('1 path', '0 paths')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"


def write_text(console: Console, *renderables: RenderableType) -> None:
    """Write each on a line of its own. On a pipe lines are not broken, and have no blanks after a table's last
    column.
    """
    if console.is_terminal:
        console.print(*renderables, sep="\n", markup=False)
        return
    with console.capture() as captured:
        for each in renderables:
            console.print(each, markup=False, soft_wrap=isinstance(each, str))
    console.file.write("\n".join(line.rstrip() for line in captured.get().split("\n")))


def write_json(data: Any, stream: TextIO) -> None:
    """Write one JSON value and a line feed: laid out for eyes on a terminal, on one line for programs."""
    encoded = msgspec.json.encode(data, enc_hook=str)
    if stream.isatty():
        encoded = msgspec.json.format(encoded, indent=2)
    stream.write(encoded.decode() + "\n")
    stream.flush()


def to_error(error: BaseException) -> PenstockError:
    """Return any failure as a `PenstockError`. What we did not foresee is a defect, and says where it happened."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # a task group wraps even a single failure
    if isinstance(error, PenstockError):
        return error
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return InternalError(
        f"a defect in Penstock, {type(error).__name__}: {error}{where}",
        next_step="run it again with --debug (or PENSTOCK_DEBUG=1) for the trace, and report it",
    )


def print_error(
    error: BaseException,
    *,
    as_json: bool,
    debug: bool,
    stream: TextIO | None = None,
    command: str = "penstock",
    writes: bool = True,
) -> None:
    """Print a failure to stderr: the message, whether anything was written, the next step. Programs get a record.

    The outcome is printed for commands that write, and always if it is unknown. An error without a next step of its own
    ends with the command's help page, or with the command that explains its kind.
    """
    stream = sys.stderr if stream is None else stream
    ours = to_error(error)
    if not ours.next_step and isinstance(ours, InvalidArgument):
        ours.next_step = f"{command} --help"
    if debug:
        stream.write("".join(traceback.format_exception(error)))
    if as_json:
        if not ours.next_step:
            ours.next_step = guide(ours.code).next_step
        write_json(ours.to_record(), stream)
        return
    head, _, rest = ours.describe(shows_outcome=writes).partition(":")
    if not ours.next_step:
        rest += f"\nMore: penstock errors explain {ours.code}"
    text = Text.assemble((head, "bold red"), f":{rest}")
    make_console(stream).print(text, soft_wrap=True)
