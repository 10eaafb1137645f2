"""Blocks: memory for large payloads, used again once nobody holds a view of it.

Fresh memory for every chunk of a bulk stream costs more than copying the chunk: the system has to clear each page anew.
A block is handed out as views; CPython counts who holds it, so a block which only the pool still holds is free.
What always holds: a block is never given out again while a view of it, or of a part of it, exists.
"""

from collections import deque
from sys import getrefcount
from typing import Final

__all__ = ["BlockPool"]

GRAIN_BYTES: Final = 16 * 1024

_probe = deque([bytearray()])
FREE_COUNT: Final = getrefcount(_probe[0])  # of a block which only a deque holds, asked in this very way


class BlockPool:
    """Blocks of one connection, the longest unused first; at most `bytes_max` are kept."""

    __slots__ = ("_blocks", "_bytes", "_bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self._blocks: deque[bytearray] = deque()
        self._bytes = 0
        self._bytes_max = bytes_max

    def take(self, size: int) -> memoryview:
        """Memory for `size` bytes, of which nobody else has a view."""
        blocks = self._blocks
        if blocks and size <= len(blocks[0]) <= 2 * size and getrefcount(blocks[0]) == FREE_COUNT:
            blocks.rotate(-1)
            return memoryview(blocks[-1])[:size]
        block = bytearray(-(-size // GRAIN_BYTES) * GRAIN_BYTES)
        blocks.append(block)
        self._bytes += len(block)
        while self._bytes > self._bytes_max:
            self._bytes -= len(blocks.popleft())
        return memoryview(block)[:size]

    def trim(self) -> None:
        """Forget all blocks: those in use live on with their views."""
        self._blocks.clear()
        self._bytes = 0
