"""Names: what a journal, a label and a register may be called. Design: gazette.md §1.3.

A token is made of letters, digits (of any script) and a few symbols. No character at or below `#` is one of them, so
that `#` separates names inside KeySpace keys without changing their order.
"""

import posixpath
import re
from typing import Final

from penstock.kernel.errors import InvalidArgument

__all__ = ["JOURNAL_NAME_MAX", "JOURNAL_NAME_MIN", "LABEL_SYMBOLS", "PATH_SYMBOLS", "check_journal_name", "check_token"]

LABEL_SYMBOLS: Final = "-_+/."
PATH_SYMBOLS: Final = "-_+/.=%"
JOURNAL_NAME_MIN: Final = 4
JOURNAL_NAME_MAX: Final = 512
PART_BYTES_MAX: Final = 255  # of a name between two slashes: it is a folder, of a Spool and of a store


def check_token(what: str, text: str, symbols: str, length_min: int, length_max: int) -> None:
    """Refuse a text which is too short, too long, or has a character that no token has."""
    if not length_min <= len(text) <= length_max:
        raise InvalidArgument(
            f"{what} {_shown(text)} has {len(text)} characters: expected {length_min} to {length_max}"
        )
    for position, character in enumerate(text):
        if not character.isalnum() and character not in symbols:
            raise InvalidArgument(
                f"{what} {_shown(text)} has {character!r} at position {position}: "
                f"only letters, digits and {symbols} are allowed"
            )


def check_journal_name(name: str) -> None:
    """A journal's name is a clean relative path.

    >>> check_journal_name("orders/part-000")
    >>> check_journal_name("orders//part")
    Traceback (most recent call last):
    penstock.kernel.errors.InvalidArgument: journal name 'orders//part' is not a clean path: did you mean 'orders/part'?
    """
    check_token("journal name", name, PATH_SYMBOLS, JOURNAL_NAME_MIN, JOURNAL_NAME_MAX)
    if name.startswith("/"):
        raise InvalidArgument(f"journal name {_shown(name)} begins with '/': names are relative paths")
    if name.endswith("/"):
        raise InvalidArgument(f"journal name {_shown(name)} ends with '/': that is a prefix, not a journal")
    for part in name.split("/"):
        if len(part.encode()) > PART_BYTES_MAX:
            raise InvalidArgument(
                f"journal name {_shown(name)}: {_shown(part)} has {len(part.encode())} bytes, "
                f"at most {PART_BYTES_MAX} are allowed between slashes"
            )
    clean = posixpath.normpath(name)
    if clean != name or re.match(r"\.\.(/|$)", name):
        raise InvalidArgument(f"journal name {_shown(name)} is not a clean path: did you mean {_shown(clean)}?")


def _shown(text: str) -> str:
    """A name as an error quotes it: never longer than a line."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
