"""The table of docs/explanation/reliability.md, from docs/data/reliability: one JSON file for each attack.

The soak tools write their files after a run. Files of the simulator and of the search hold the line that
`penstock sim run` and `penstock sim explore` printed.
"""

import re
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["Attack", "table", "with_table", "write"]

DOCS: Final = Path(__file__).parents[4] / "docs"
_ROWS: Final = re.compile(r"(?<=<!-- rows -->\n).*?(?=<!-- end of rows -->)", re.DOTALL)


class Attack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attack on a promise, and its result."""

    protocol: str
    attack: str
    amount: str
    found: str
    command: str
    report: str  # the page with the details, relative to docs/


def table(folder: Path = DOCS / "data/reliability") -> str:
    """Return the table, one row for each file in the order of their names. Raises ValueError for a bad file."""
    lines = ["| protocol | attack | amount | found | repeat |", "|---|---|---|---|---|"]
    for path in sorted(folder.glob("*.json")):
        try:
            each = msgspec.json.decode(path.read_bytes(), type=Attack)
        except msgspec.DecodeError as error:
            raise ValueError(f"{path}: {error}") from error
        amount = f"[{each.amount}](../{each.report})"
        lines.append(f"| {each.protocol} | {each.attack} | {amount} | {each.found} | `{each.command}` |")
    return "\n".join(lines)


def with_table(page: str, folder: Path = DOCS / "data/reliability") -> str:
    """Return the page with the present table between its two marks."""
    return _ROWS.sub(lambda _: f"\n{table(folder)}\n\n", page, count=1)


def write() -> None:
    """Write the table into the page."""
    page = DOCS / "explanation/reliability.md"
    page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")
