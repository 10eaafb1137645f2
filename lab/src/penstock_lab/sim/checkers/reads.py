"""What readers see. Invariants of quorum-log.md: I11 what a node has shown it shows ever after, I24 linearizability,
and that a read after an entry sees that entry.

The check of I24 is exact. Each key is a list to which every transaction adds one value of its own, and a read returns
the whole list. So the order of the writes of a key is known (it is the list at the end), a read lies between the n-th
and the next write if it has seen n values, and a history is linearizable if and only if points can be chosen in that
order, each between the call and the answer of its operation. Choosing the earliest possible point for each, in order,
finds such points whenever there are any. Linearizability is local, so one key at a time is enough.
"""

from collections.abc import Iterable, Mapping

from penstock.kernel.ids import NO_ENTRY
from penstock.kernel.probes import reached
from penstock.quorum.records.answers import Fate
from penstock_lab.sim.checkers.book import Book
from penstock_lab.sim.checkers.history import HistoryAttempt, HistoryRead, OperationHistory
from penstock_lab.sim.checkers.hosts import CheckedHost

__all__ = ["Interval", "ReadChecker", "check_linearizable"]

FOREVER = 1 << 62
OKS = (Fate.COMMITTED, Fate.COMMITTED_BELOW_LEVEL)

Interval = tuple[int, int]  # from the call to the answer


class ReadChecker:
    """Compares every read with the book, and at the end their order with time."""

    def __init__(self, book: Book, history: OperationHistory) -> None:
        self.book = book
        self.history = history

    def served(self, host: CheckedHost, read: HistoryRead) -> None:
        book, applied = self.book, read.applied
        assert applied <= book.end, f"I11: {host.name} shows {applied} of {book.end} committed entries"
        expected = book.list_at(read.key, applied)
        if host.record.is_damaged and read.values != expected:
            reached("quorum.wrong_read")  # not found out yet, see AgreementChecker
            read.served_at = 0
            return
        assert read.values == expected, f"I24: {read} on {host.name}, but at {applied} it is {expected}"
        shown = host.record.exposed
        assert applied >= shown, f"I11: {host.name} shows {applied}, and has shown {shown} before"
        host.record.exposed = max(shown, applied)
        if read.after != NO_ENTRY:
            assert book.holds(read.after), f"{read} was served, and {read.after} is not in the log"
            assert read.after.offset <= applied, f"{read} does not see {read.after}"

    def finish(self) -> None:
        writes: dict[bytes, dict[bytes, Interval]] = {}
        for pair, attempts in _by_pair(self.history.attempts.values()).items():
            if attempts[0].is_sync and pair in self.book.effects:
                value = b"%s.%d" % (pair[0].encode(), pair[1])
                writes.setdefault(attempts[0].key, {})[value] = _interval(attempts)
        reads: dict[bytes, list[tuple[int, Interval]]] = {}
        for read in self.history.reads.values():
            if read.is_linearizable and read.served_at:
                reads.setdefault(read.key, []).append((len(read.values), (read.arrived_at, read.served_at)))
        for key, seen in reads.items():
            order = [value for _, value in self.book.lists.get(key, [])]
            check_linearizable(key, order, writes.get(key, {}), seen)


def _by_pair(attempts: Iterable[HistoryAttempt]) -> dict[tuple[str, int], list[HistoryAttempt]]:
    pairs: dict[tuple[str, int], list[HistoryAttempt]] = {}
    for attempt in attempts:
        pairs.setdefault((attempt.client, attempt.seq), []).append(attempt)
    return pairs


def _interval(attempts: list[HistoryAttempt]) -> Interval:
    """Return the interval from the first arrival to the first OK, or for ever."""
    start = min((attempt.arrived_at for attempt in attempts if attempt.run), default=0)
    told = [each.told_at for each in attempts if each.fate in OKS]
    return start, min(told, default=FOREVER)


def check_linearizable(
    key: bytes, order: list[bytes], writes: Mapping[bytes, Interval], reads: list[tuple[int, Interval]]
) -> None:
    """Choose the earliest points in the order of the list; each must come before its operation's answer."""
    by_length: dict[int, list[Interval]] = {}
    for length, interval in reads:
        by_length.setdefault(length, []).append(interval)
    point = 0
    for length in range(len(order) + 1):
        if length:
            call, answer = writes.get(order[length - 1], (0, FOREVER))
            point = max(point, call)
            assert point <= answer, f"I24: {order[length - 1]!r} of {key!r} was answered before it can have happened"
        latest = point
        for call, answer in by_length.get(length, ()):
            assert max(point, call) <= answer, f"I24: a read of {key!r} has seen {length} values too early"
            latest = max(latest, call)
        point = latest
