"""What commits the messages of a chunk whose producers do as they should, compiled: one pass, and no sorting.

The pass goes backwards. So it meets the commit of a pending message before the message, and keeps no list of waiting
ones; and its last note about a producer is how the producer begins the chunk. The VectorSequencer decides whether that
fits the producer's earlier state: a pass needs nothing but the chunk. Where a producer does anything else (duplicates,
roll-backs, misuse), nothing is decided here.
"""

from operator import itemgetter
from typing import Any, Final

import msgspec
import numpy as np

from penstock.messages.columns import I64, Columns
from penstock.messages.framing.compiled import IS_COMPILED, compiled
from penstock.messages.uuid import ACK_TXN, CONTINUE_TXN

__all__ = ["PENDING", "Noted", "commits_of"]

PENDING: Final = np.iinfo(np.int64).max  # in `commits`: not by a message of this chunk

_U: Final = np.uint64
_NONE: Final = _U(PENDING)  # of a row, and of a place
_ROOM: Final = 128  # for producers, at first
_GROWTH: Final = 16
_ODD, _FULL = -1, -2
_HASH: Final = _U(0x9E3779B97F4A7C15)  # a product's higher half depends on all of a producer's id

_ID, _CLOCK, _FLAGS, _LAST_CLOCK, _LAST_BEGIN, _COMMIT, _LAST_ACK, _BEGIN = range(8)  # one line of a processor's cache


class Noted(msgspec.Struct, gc=False):
    """What a chunk says of one producer."""

    id: int
    clock: int  # of its first message
    flags: int  # of that one
    last_clock: int  # of its last message
    last_begin: int  # where that one begins
    commit: int  # the first row which commits; PENDING: none does
    last_ack: int  # the clock of the last which does; 0: none
    begin: int  # where the first message after that one begins; PENDING: there is none

    @property
    def is_lone(self) -> bool:
        """Is its first message neither part of a transaction nor an ACK?"""
        return self.flags not in (CONTINUE_TXN, ACK_TXN)


def commits_of(columns: Columns) -> tuple[I64, list[Noted]] | None:
    """Return for each row the row which commits it, and the producers by id.

    None if clocks of a producer do not rise, or if it sends a lone message in an open span, or if nothing is compiled:
    the VectorSequencer then asks NumPy.
    """
    if not IS_COMPILED:
        return None
    commits, room = np.empty(len(columns), np.int64), _ROOM
    while True:
        table, noted = np.zeros(2 * room, np.int32), np.empty((room, 8), np.uint64)
        count = _commit(columns.begins, columns.producers, columns.clocks, columns.flags, commits, table, noted)
        if count == _ODD:
            return None
        if count != _FULL:
            return commits, [Noted(*each) for each in sorted(noted[:count].tolist(), key=itemgetter(_ID))]
        room *= _GROWTH


@compiled
def _commit(begins: Any, producers: Any, clocks: Any, flags: Any, commits: Any, table: Any, noted: Any) -> Any:
    """Decide a chunk's commits; return the number of producers, or the obstacle. `table` has zeros, twice as many as
    there is room for producers, and their count is a power of two.
    """
    count, number, place, mask = 0, 0, np.int64(0), len(table) - 1
    noted[number, _ID] = _NONE
    for row in range(len(clocks) - 1, -1, -1):
        clock, producer = clocks[row], producers[row]
        if clock == _U(0):
            commits[row] = row
            continue
        is_pending = flags[row] == _U(CONTINUE_TXN)
        if noted[number, _ID] != producer:
            place = np.int64((producer * _HASH) >> _U(32)) & mask
            while table[place] != 0 and noted[table[place] - 1, _ID] != producer:
                place = (place + 1) & mask
            number = table[place] - 1
        if number < 0:
            if count == len(noted):
                return _FULL
            number, count = count, count + 1
            table[place] = count
            noted[number, _ID], noted[number, _LAST_CLOCK], noted[number, _LAST_BEGIN] = producer, clock, begins[row]
            noted[number, _COMMIT], noted[number, _LAST_ACK], noted[number, _BEGIN] = _NONE, 0, _NONE
        else:
            is_lone = noted[number, _FLAGS] != _U(CONTINUE_TXN) and noted[number, _FLAGS] != _U(ACK_TXN)
            if clock >= noted[number, _CLOCK] or (is_pending and is_lone):
                return _ODD
        noted[number, _CLOCK], noted[number, _FLAGS] = clock, flags[row]
        if is_pending:
            commits[row] = np.int64(noted[number, _COMMIT])
            if noted[number, _LAST_ACK] == _U(0):
                noted[number, _BEGIN] = begins[row]
        else:
            commits[row] = noted[number, _COMMIT] = row
            noted[number, _LAST_ACK] = max(noted[number, _LAST_ACK], clock)
    return count
