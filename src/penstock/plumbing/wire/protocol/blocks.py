"""Blocks: memory for large payloads, used again once no view of it is left.

Fresh memory for every chunk of a bulk stream costs more than copying the chunk: the system has to clear each new page.
A block is handed out as views; CPython counts who holds it, so a block which only the pool still holds is free. What
always holds: a block is never given out again while a view of it, or of a part of it, exists.
"""

from sys import getrefcount
from typing import Final

__all__ = ["BlockPool"]

GRAIN_BYTES: Final = 4 * 1024
RECENT: Final = 3  # how many of the last used are tried: these are still in the processor's cache

_probe = [bytearray()]
FREE_COUNT: Final = getrefcount(_probe[-1])  # of a block which only a list holds, asked in this very way


class BlockPool:
    """Blocks of one connection, the last used one last; at most `bytes_max` are kept."""

    __slots__ = ("_blocks", "_bytes", "_bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self._blocks: list[bytearray] = []
        self._bytes = 0
        self._bytes_max = bytes_max

    def take(self, size: int) -> memoryview:
        """Return memory for `size` bytes, of which no other view exists."""
        block = self._free(size)
        if block is None:
            block = bytearray(-(-size // GRAIN_BYTES) * GRAIN_BYTES)
            self._bytes += len(block)
        self._blocks.append(block)
        while self._bytes > self._bytes_max:
            self._bytes -= len(self._blocks.pop(0))
        return memoryview(block)[:size]

    def _free(self, size: int) -> bytearray | None:
        """Take a free block which fits out of the pool: one of the last used, or the one used longest ago."""
        blocks = self._blocks
        last = len(blocks) - 1
        for place in (*range(last, max(last - RECENT, -1), -1), 0):
            if place <= last and getrefcount(blocks[place]) == FREE_COUNT and size <= len(blocks[place]) <= 2 * size:
                return blocks.pop(place)
        return None

    def trim(self) -> None:
        """Forget all blocks: those in use live on with their views."""
        self._blocks.clear()
        self._bytes = 0
