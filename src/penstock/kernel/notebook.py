"""Objects as notebooks show them: tables in HTML (`_repr_html_`), and errors of few lines (`_render_traceback_`)."""

import linecache
from collections.abc import Iterable, Sequence
from html import escape
from traceback import walk_tb

__all__ = ["error_lines", "html_table"]


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table. Without columns, the first cell of each row is its head.

    >>> html_table(("sku",), [("<cup>",)])
    '<table><tr><th>sku</th></tr><tr><td>&lt;cup&gt;</td></tr></table>'
    >>> html_table((), [("sku", "cup")])
    '<table><tr><th>sku</th><td>cup</td></tr></table>'
    """
    heads = 0 if columns else 1
    lines = [_cells("th", columns)] if columns else []
    lines += [_cells("th", row[:heads]) + _cells("td", row[heads:]) for row in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def error_lines(error: BaseException, text: str) -> list[str]:
    """Return the line of the user's program that raised an error, without the frames of Penstock, and a text."""
    found = ""
    for frame, line in walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__", "").partition(".")[0] == "penstock":
            break
        file = frame.f_code.co_filename
        found = f"{file}:{line}: {linecache.getline(file, line).strip()}".removesuffix(": ")
    return [*([found] if found else []), *text.splitlines()]


def _cells(tag: str, values: Sequence[object]) -> str:
    return "".join(f"<{tag}>{escape(str(each))}</{tag}>" for each in values)
