"""CRC-64/NVME, the checksum new S3 clients send by default, in NumPy.

A CRC is linear, so a block is cut into lanes which advance side by side, eight bytes at a step: four look-ups, one for
each 16 bits of the state. Then neighbours are joined in pairs, the left one advanced over as many zero bytes as the
right one has. Only the last bytes, less than a lane, are taken one by one.
"""

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Crc64Nvme"]

POLYNOMIAL: Final = 0x9A6C9329AC4BC9B5  # reflected
ALL_ONES: Final = (1 << 64) - 1
LANE_BYTES: Final = 128
LANES_MAX: Final = 2048  # side by side, a power of two: rounds of 256 KiB

States = NDArray[np.uint64]


def _byte_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_BYTES: Final = _byte_table()


def _advance(state: int, data: bytes | memoryview) -> int:
    """The state after some bytes, one by one."""
    for byte in data:
        state = (state >> 8) ^ _BYTES[(state ^ byte) & 0xFF]
    return state


@cache
def _over_zeros(count: int) -> States:
    """Tables which advance a state over `count` zero bytes, a power of two: a row for each of its 8 bytes."""
    values = np.arange(256, dtype=np.uint64)
    states = np.stack([values << np.uint64(8 * row) for row in range(8)])
    if count == 1:
        return (states >> np.uint64(8)) ^ np.array(_BYTES, dtype=np.uint64)[(states & np.uint64(0xFF)).astype(np.intp)]
    half = _over_zeros(count // 2)
    return _look_up(half, _look_up(half, states))


def _look_up(tables: States, states: States) -> States:
    """Every state, advanced by the tables."""
    parts = np.ascontiguousarray(states).view(np.uint8).reshape(*states.shape, 8)
    result: States = tables[0][parts[..., 0]]
    for row in range(1, 8):
        result ^= tables[row][parts[..., row]]
    return result


@cache
def _word_tables() -> tuple[States, ...]:
    """Tables which advance a state over a word of 8 bytes already mixed into it: one for each of its 16 bits."""
    values = np.arange(1 << 16, dtype=np.uint64)
    return tuple(_look_up(_over_zeros(8), values << np.uint64(16 * row)) for row in range(4))


def _side_by_side(state: int, block: memoryview, lanes: int) -> int:
    """Return the state after a block of `lanes` lanes, a power of two."""
    words = np.ascontiguousarray(np.frombuffer(block, dtype="<u8").reshape(lanes, LANE_BYTES // 8).T)
    t0, t1, t2, t3 = _word_tables()
    states = np.zeros(lanes, dtype=np.uint64)
    states[0] = state
    for word in words:
        states ^= word
        parts = states.view(np.uint16).reshape(lanes, 4)
        states = t0[parts[:, 0]] ^ t1[parts[:, 1]] ^ t2[parts[:, 2]] ^ t3[parts[:, 3]]
    length = LANE_BYTES
    while len(states) > 1:
        states = _look_up(_over_zeros(length), states[0::2]) ^ states[1::2]
        length *= 2
    return int(states[0])


class Crc64Nvme:
    """A running CRC-64/NVME, with the methods of a hash.

    >>> Crc64Nvme(b"123456789").digest().hex()
    'ae8b14860a799888'
    """

    def __init__(self, data: bytes = b"") -> None:
        self._state = ALL_ONES
        self.update(data)

    def update(self, data: bytes | bytearray | memoryview, /) -> None:
        view, at, lanes = memoryview(data).cast("B"), 0, LANES_MAX
        while lanes > 4:  # fewer are not worth their calls
            size = lanes * LANE_BYTES
            while len(view) - at >= size:
                self._state = _side_by_side(self._state, view[at : at + size], lanes)
                at += size
            lanes //= 2
        self._state = _advance(self._state, view[at:])

    def digest(self) -> bytes:
        return (self._state ^ ALL_ONES).to_bytes(8, "big")
