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

from penstock_lab.world.quorum.ledger import QuorumLedger, SentAppend, ShownTxn

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
        self._orders: dict[str, list[int]] = {}  # by key: the numbers, in order

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
        at, order = 0, self._orders.setdefault(key, [])
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
            order.append(number)

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
        told = [
            sent for sent in self._book.sent if sent.entry is not None and sent.fate in ("acknowledged", "committed")
        ]
        for lost in told:
            if lost.fate != "acknowledged" or lost.number in self._ends:
                continue
            for other in told:
                assert lost.entry is not None
                assert other.entry is not None
                is_later = other.entry.epoch == lost.entry.epoch and other.entry.offset > lost.entry.offset
                if is_later and other.number in self._ends:
                    yield f"E1: {_name(lost)} was acknowledged and is lost, and {_name(other)} of its epoch is not"
                    return

    def _reads(self) -> Iterator[str]:
        committed = sorted(
            ((sent.at_ns, self._ends[sent.number], sent) for sent in self._book.sent if self._is_seen_by_reads(sent)),
            key=lambda each: (each[0], each[2].number),
        )
        for read in self._book.reads:
            when = f"read at {read.ended_ns / 1e9:.3f} s"
            if not self._values.get(read.key, b"").startswith(read.value):
                yield f"E3: a value of {read.key}, {when}, never was: {read.value[-60:]!r}"
            if not read.is_linearizable:
                continue
            for at_ns, end, sent in committed:
                if at_ns >= read.began_ns:
                    break
                if sent.key == read.key and end > len(read.value):
                    yield f"E3: {_name(sent)} was committed at {at_ns / 1e9:.3f} s, and is not in {read.key}, {when}"
            for earlier in self._book.reads:
                is_before = earlier.ended_ns < read.began_ns and earlier.key == read.key
                if is_before and len(earlier.value) > len(read.value):
                    yield f"E3: {read.key}, {when}, is older than an earlier read"

    def _is_seen_by_reads(self, sent: SentAppend) -> bool:
        return sent.fate == "committed" and sent.number in self._ends

    def _subscription(self, shown: list[ShownTxn]) -> Iterator[str]:
        places: dict[str, int] = {}
        before = 0
        for each in shown:
            found = _RECORD.fullmatch(each.record)
            number = int(found[1]) if found is not None else -1
            order = self._orders.get(each.key, [])
            if number not in self._ends or self._book.sent[number].key != each.key:
                yield f"E3: a subscription showed offset {each.offset}, {each.record[:20]!r}, which has no effect"
                return
            if each.offset <= before:
                yield f"E3: a subscription showed offset {each.offset} after {before}"
            place = order.index(number)
            if place != places.get(each.key, place - 1) + 1:
                yield f"E3: a subscription left something out before offset {each.offset}, or changed the order"
            places[each.key] = place
            before = each.offset


def _name(sent: SentAppend) -> str:
    return f"transaction {sent.number} ({sent.client}, {sent.seq})"
