"""What became of each (client, seq): the memory that lets a transaction take effect once. Design: quorum-log.md P10.

Each client has a window of its own, so a busy client never pushes out what a quiet one has sent. What always holds:

- Memory is bounded: by pairs for each client, by pairs and bytes of results for all, by clients.
- A number at or below a client's floor is expired unless the window still has it: it never takes effect. The floor is
  the highest number that was forgotten.
- Equal histories make equal memories, on every replica and after a snapshot.
"""

from collections import OrderedDict
from typing import Any, Final

import msgspec

from penstock.kernel.ids import EntryId
from penstock.quorum.records.entry import ClientId

__all__ = ["PairLimits", "Pairs", "Seen"]

NOTHING_FORGOTTEN: Final = -(1 << 63)
_encode = msgspec.msgpack.Encoder().encode


class PairLimits(msgspec.Struct, frozen=True):
    """How much is remembered. All replicas of a shard must agree, so no setting changes it."""

    of_client_max: int = 32_768
    pairs_max: int = 131_072
    result_bytes_max: int = 32 << 20
    clients_max: int = 65_536  # of whom nothing but the floor is left


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """One pair, and what became of it."""

    client: ClientId
    seq: int
    entry: EntryId | None  # None: rolled back
    result: Any


class _Window(msgspec.Struct, eq=False):
    """One client's pairs, oldest first."""

    seen: OrderedDict[int, Seen] = msgspec.field(default_factory=OrderedDict)
    floor: int = NOTHING_FORGOTTEN
    highest: int = NOTHING_FORGOTTEN


class Pairs:
    """The pairs of all clients."""

    __slots__ = ("_idle", "_windows", "count", "limits", "result_bytes")

    def __init__(self, limits: PairLimits = PairLimits()) -> None:  # noqa: B008 (frozen)
        self.limits = limits
        self.count = 0
        self.result_bytes = 0
        self._windows: OrderedDict[ClientId, _Window] = OrderedDict()  # the least recently active first
        self._idle: OrderedDict[ClientId, int] = OrderedDict()  # floors of clients whose pairs are all forgotten

    def find(self, client: ClientId, seq: int) -> Seen | None:
        """Return what became of this pair; None if nothing did yet, as far as this memory goes."""
        window = self._windows.get(client)
        return window.seen.get(seq) if window is not None else None

    def is_expired(self, client: ClientId, seq: int) -> bool:
        """Was this number forgotten, perhaps? Ask only for one that `find` does not know."""
        window = self._windows.get(client)
        return seq <= (window.floor if window is not None else self._idle.get(client, NOTHING_FORGOTTEN))

    def keep(self, seen: Seen) -> None:
        """Remember a new pair; forget what finds no room any more."""
        window = self._windows.get(seen.client)
        if window is None:
            floor = self._idle.pop(seen.client, NOTHING_FORGOTTEN)
            window = self._windows[seen.client] = _Window(floor=floor, highest=floor)
        else:
            self._windows.move_to_end(seen.client)
        window.seen[seen.seq] = seen
        window.highest = max(window.highest, seen.seq)
        self.count += 1
        self.result_bytes += _size(seen.result)
        limits = self.limits
        if len(window.seen) > limits.of_client_max:
            self._forget_oldest_of(seen.client, window)
        while self.count > limits.pairs_max or self.result_bytes > limits.result_bytes_max:
            self._forget_oldest_of(*next(iter(self._windows.items())))

    def _forget_oldest_of(self, client: ClientId, window: _Window) -> None:
        seq, seen = window.seen.popitem(last=False)
        window.floor = max(window.floor, seq)
        self.count -= 1
        self.result_bytes -= _size(seen.result)
        if not window.seen:
            del self._windows[client]
            self._idle[client] = window.highest
            if len(self._idle) > self.limits.clients_max:
                self._idle.popitem(last=False)

    def highest(self, client: ClientId) -> int:
        """Return the highest number of this client that took effect or was rolled back; 0 if there is none."""
        window = self._windows.get(client)
        return max(0, window.highest if window is not None else self._idle.get(client, 0))

    # snapshots

    def dump(self) -> tuple[list[Seen], list[tuple[ClientId, int, bool]]]:
        """Return all pairs and the floor of each client, in an order that `load` understands."""
        seen = [each for window in self._windows.values() for each in window.seen.values()]
        floors = [(client, floor, True) for client, floor in self._idle.items()]
        floors += [
            (client, window.floor, False)
            for client, window in self._windows.items()
            if window.floor != NOTHING_FORGOTTEN
        ]
        return seen, floors

    def load(self, seen: list[Seen], floors: list[tuple[ClientId, int, bool]]) -> None:
        """Replace everything by a dump."""
        self.count = self.result_bytes = 0
        self._windows.clear()
        self._idle = OrderedDict((client, floor) for client, floor, is_idle in floors if is_idle)
        for each in seen:
            self.keep(each)
        for client, floor, is_idle in floors:
            if not is_idle:
                window = self._windows[client]
                window.floor, window.highest = floor, max(window.highest, floor)

    def check(self) -> None:
        """Assert the limits, and that the sums are those of the windows."""
        windows = self._windows.values()
        assert self.count == sum(len(window.seen) for window in windows) <= self.limits.pairs_max
        assert self.result_bytes == sum(_size(each.result) for window in windows for each in window.seen.values())
        assert self.result_bytes <= self.limits.result_bytes_max
        assert len(self._idle) <= self.limits.clients_max
        assert not self._windows.keys() & self._idle.keys()
        for window in windows:
            assert 0 < len(window.seen) <= self.limits.of_client_max
            assert window.highest >= max(window.seen)


def _size(result: Any) -> int:
    """Return what a result weighs, in bytes."""
    if result is None or isinstance(result, int):
        return 8
    return len(result) if isinstance(result, bytes) else len(_encode(result))
