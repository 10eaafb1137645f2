"""The judge of journals: rules E1 to E5, asked with shipped clients after the calm. Design: rooms.md §3.

E1  Every acknowledged record is read at its offset, once.
E2  A record that was refused is never seen; no record is seen twice.
E3  A journal has only bytes that were appended to it, and a reader was never shown anything else.
E4  After the calm every journal takes an append and ends a read within 15 s.
"""

import re
from collections.abc import Iterator
from typing import Final

from penstock_lab.world.journals.ledger import JournalsLedger, SentRecord

__all__ = ["Verdicts", "judge"]

_HEAD: Final = re.compile(rb"<([^|>\n]{1,512})\|(\d+)\|")


def judge(ledger: JournalsLedger, journals: dict[str, bytes], excused: frozenset[str] = frozenset()) -> str | None:
    """Return the first broken rule, or None. `journals`: their content as it was read at the end."""
    for verdict in Verdicts(ledger, journals).all():
        if verdict[:2] not in excused:
            return verdict
    return None


class Verdicts:
    """Every broken rule of a run."""

    def __init__(self, ledger: JournalsLedger, journals: dict[str, bytes]) -> None:
        self._book = ledger
        self._journals = journals
        self._seen: dict[int, list[int]] = {}  # by number: offsets

    def all(self) -> Iterator[str]:
        for journal, content in self._journals.items():
            yield from self._bytes(journal, content)
        for sent in self._book.sent:
            if sent.journal in self._journals:
                yield from self._record(sent)
        yield from self._readers()

    def _bytes(self, journal: str, content: bytes) -> Iterator[str]:
        at = 0
        while at < len(content):
            head = _HEAD.match(content, at)
            number = int(head[2]) if head is not None else -1
            if head is None or number >= len(self._book.sent):
                yield f"E3: {journal} has bytes that no client appended, at {at}: {content[at : at + 60]!r}"
                return
            sent = self._book.sent[number]
            if sent.journal != journal:
                yield f"E3: {journal} has a record of {sent.journal} at {at}"
                return
            if content[at : at + len(sent.content)] != sent.content:
                yield f"E3: {journal} has a broken record {number} at {at}"
                return
            self._seen.setdefault(number, []).append(at)
            at += len(sent.content)

    def _record(self, sent: SentRecord) -> Iterator[str]:
        seen = self._seen.get(sent.number, [])
        name = f"record {sent.number} of {sent.journal}"
        if sent.fate == "acknowledged" and seen != [sent.begin]:
            told = f"acknowledged at {sent.begin}, {sent.at_ns / 1e9:.3f} s"
            yield f"E1: {name} was {told}, and is at {seen or 'no offset'}"
        if sent.fate == "refused" and seen:
            yield f"E2: {name} was refused at {sent.at_ns / 1e9:.3f} s, and is at {seen}"
        if len(seen) > 1:
            yield f"E2: {name} was found {len(seen)} times, at {seen}"

    def _readers(self) -> Iterator[str]:
        for shown in self._book.shown:
            content = self._journals.get(shown.journal)
            if content is not None and content[shown.offset : shown.offset + len(shown.content)] != shown.content:
                yield (
                    f"E3: a reader of {shown.journal} was shown other bytes at {shown.offset}, "
                    f"{shown.at_ns / 1e9:.3f} s: {shown.content[:60]!r}"
                )
