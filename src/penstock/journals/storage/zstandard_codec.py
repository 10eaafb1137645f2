"""Zstandard, as streams: one frame is written, one or many are read. See `codecs.py`."""

from collections.abc import Iterator
from typing import Final

import zstandard

from penstock.journals.storage.codecs import PIECE_BYTES, Buffer, damaged

__all__ = ["ZstandardCompressor", "ZstandardDecompressor"]

_ZSTANDARD_LEVEL: Final = 1
_ZSTANDARD_SLICE: Final = 4 << 10  # compressed bytes at a time: a hostile frame grows 32,000-fold at most
_ZSTANDARD_WINDOW_MAX: Final = 128 << 20


class ZstandardCompressor:
    """One object written as one frame, with its sum."""

    def __init__(self) -> None:
        self._stream = zstandard.ZstdCompressor(level=_ZSTANDARD_LEVEL, write_checksum=True).compressobj()

    def compress(self, data: Buffer) -> bytes:
        return self._stream.compress(data)

    def finish(self) -> bytes:
        return self._stream.flush()


class ZstandardDecompressor:
    """Frames one after the other, by slices: a frame says nothing reliable about how much comes out of it."""

    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTANDARD_WINDOW_MAX)
        self._frame = self._decompressor.decompressobj()
        self._is_begun = False

    def decompress(self, data: Buffer) -> Iterator[bytes]:
        view = memoryview(data)
        pieces: list[bytes] = []
        size = 0
        for at in range(0, len(view), _ZSTANDARD_SLICE):
            for piece in self._slice(view[at : at + _ZSTANDARD_SLICE]):
                pieces.append(piece)
                size += len(piece)
                if size >= PIECE_BYTES:
                    yield b"".join(pieces)
                    pieces, size = [], 0
        if pieces:
            yield b"".join(pieces)

    def _slice(self, data: Buffer) -> Iterator[bytes]:
        while len(data):
            self._is_begun = True
            try:
                piece = self._frame.decompress(data)
            except zstandard.ZstdError as error:
                raise damaged("zstandard", error) from None
            data = b""
            if self._frame.eof:
                data = self._frame.unused_data
                self._frame = self._decompressor.decompressobj()
                self._is_begun = False
            if piece:
                yield piece

    def finish(self) -> None:
        if self._is_begun:
            raise damaged("zstandard", "the last frame is not complete")
