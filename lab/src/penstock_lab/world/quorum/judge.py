"""The judge of the quorum log: rules E1 to E3 by the pair (client, seq). The run asks E4 itself. Design: rooms.md §3.

E1  A transaction that was committed took effect, with the result that its client got. One that was acknowledged only is
    lost with an epoch, and then nothing later of that epoch took effect (I16).
E2  A transaction that was refused never takes effect; none takes effect twice.
E3  A value has only records that were sent to it. A linearizable read shows everything that was committed before it,
    and never less than an earlier read. A subscription shows each effect once, in order, and leaves none out.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from penstock_lab.world.quorum.ledger import QuorumLedger, SentAppend, ShownTxn, ValueRead

__all__ = ["judge_quorum"]

_RECORD: Final = re.compile(rb"<(\d+)\|x*>")


def judge_quorum(ledger: QuorumLedger, values: Mapping[str, bytes]) -> str | None:
    """Return the first broken rule, or None. `values`: the value of each key at the end."""
    return next(_Verdicts(ledger, values).all(), None)


class _Verdicts:
    def __init__(self, ledger: QuorumLedger, values: Mapping[str, bytes]) -> None:
        self._book = ledger
        self._values = values
        self._ends: dict[int, int] = {}  # of each transaction that took effect: where its record ends
        self._places: dict[int, int] = {}  # of each of them: how many of its key came before

    def all(self) -> Iterator[str]:
        for key, value in self._values.items():
            yield from self._value(key, value)
        for sent in self._book.sent:
            yield from self._transaction(sent)
        yield from self._lost_suffixes()
        yield from self._reads()
        for shown in self._book.subscriptions:
            yield from self._subscription(shown)

    def _value(self, key: str, value: bytes) -> Iterator[str]:
        at, place = 0, 0
        while at < len(value):
            found = _RECORD.match(value, at)
            number = int(found[1]) if found is not None else -1
            if not 0 <= number < len(self._book.sent) or self._book.sent[number].record != found[0]:  # type: ignore[index]
                yield f"E3: {key} has bytes that no client sent, at {at}: {value[at : at + 40]!r}"
                return
            if self._book.sent[number].key != key:
                yield f"E3: {key} has a record of {self._book.sent[number].key}"
            if number in self._ends:
                yield f"E2: {_name(self._book.sent[number])} took effect twice"
            at += len(self._book.sent[number].record)
            self._ends[number] = at
            self._places[number] = place
            place += 1

    def _transaction(self, sent: SentAppend) -> Iterator[str]:
        end = self._ends.get(sent.number)
        told = f"was {sent.fate} at {sent.at_ns / 1e9:.3f} s"
        if sent.fate == "committed" and end is None:
            yield f"E1: {_name(sent)} {told}, and has no effect"
        if sent.fate == "committed" and sent.result is not None and sent.result != end:
            yield f"E1: {_name(sent)} got the result {sent.result}, and its record ends at {end}"
        if sent.fate == "refused" and end is not None:
            yield f"E2: {_name(sent)} {told}, and took effect"

    def _lost_suffixes(self) -> Iterator[str]:
        """Check what was acknowledged and is lost: nothing later of its epoch took effect (P8)."""
        last: dict[int, SentAppend] = {}  # by epoch: the last one that took effect
        told = [sent for sent in self._book.sent if sent.fate in ("acknowledged", "committed")]
        for sent in told:
            assert sent.entry is not None
            before = last.get(sent.entry.epoch)
            if sent.number in self._ends and (before is None or before.entry < sent.entry):  # type: ignore[operator]
                last[sent.entry.epoch] = sent
        for lost in told:
            assert lost.entry is not None
            later = last.get(lost.entry.epoch)
            if lost.number not in self._ends and later is not None and lost.entry < later.entry:  # type: ignore[operator]
                yield f"E1: {_name(lost)} was acknowledged and is lost, and {_name(later)} of its epoch is not"

    def _reads(self) -> Iterator[str]:
        for key, value in self._values.items():
            yield from self._reads_of(key, value, [read for read in self._book.reads if read.key == key])

    def _reads_of(self, key: str, value: bytes, reads: list[ValueRead]) -> Iterator[str]:
        """Check that each read shows all commits and all reads that ended before it began."""
        told = [sent for sent in self._book.sent if sent.key == key and self._is_seen_by_reads(sent)]
        known = [(sent.at_ns, self._ends[sent.number], _name(sent)) for sent in told]
        known += [(read.ended_ns, len(read.value), "an earlier read") for read in reads if read.is_linearizable]
        known.sort()
        at, longest, whose = 0, 0, ""
        for read in sorted(reads, key=lambda read: read.began_ns):
            when = f"read at {read.ended_ns / 1e9:.3f} s"
            if not value.startswith(read.value):
                yield f"E3: a value of {key}, {when}, never was: {read.value[-60:]!r}"
            while at < len(known) and known[at][0] < read.began_ns:
                if known[at][1] > longest:
                    longest, whose = known[at][1], known[at][2]
                at += 1
            if read.is_linearizable and len(read.value) < longest:
                yield f"E3: {key}, {when}, is older than {whose}, which ended before it"

    def _is_seen_by_reads(self, sent: SentAppend) -> bool:
        return sent.fate == "committed" and sent.number in self._ends

    def _subscription(self, shown: list[ShownTxn]) -> Iterator[str]:
        places: dict[str, int] = {}
        before = 0
        for each in shown:
            found = _RECORD.fullmatch(each.record)
            number = int(found[1]) if found is not None else -1
            if number not in self._ends or self._book.sent[number].key != each.key:
                yield f"E3: a subscription showed offset {each.offset}, {each.record[:20]!r}, which has no effect"
                return
            if each.offset <= before:
                yield f"E3: a subscription showed offset {each.offset} after {before}"
            place = self._places[number]
            if place != places.get(each.key, place - 1) + 1:
                yield f"E3: a subscription left something out before offset {each.offset}, or changed the order"
            places[each.key] = place
            before = each.offset


def _name(sent: SentAppend) -> str:
    return f"transaction {sent.number} ({sent.client}, {sent.seq})"
