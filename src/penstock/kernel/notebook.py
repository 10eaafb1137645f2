"""Tables in HTML, as notebooks show them (`_repr_html_`)."""

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["html_table"]


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


def _cells(tag: str, values: Sequence[object]) -> str:
    return "".join(f"<{tag}>{escape(str(each))}</{tag}>" for each in values)
