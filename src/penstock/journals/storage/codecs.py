"""Compression of fragments, as streams: bytes in, bytes out, never a whole fragment in memory.

Design: gazette.md §2.3, §2.4; the formats are Gazette's, so that either system reads what the other stored: gzip of one
or many members, zstandard of one or many frames, snappy in its framed format with checked sums.

What always holds: what `decompress` yields was checked as far as the format has sums, and comes in pieces of bounded
size. Bytes which are not of the format, or end too early, are a `StorageError`.
"""

import zlib
from collections.abc import Iterator
from typing import Final, Protocol

from penstock.journals.records.fragment import CompressionCodec
from penstock.kernel.errors import StorageError
from penstock.kernel.extras import extra

__all__ = ["PIECE_BYTES", "Buffer", "Compressor", "Decompressor", "compressor", "damaged", "decompressor"]

Buffer = bytes | bytearray | memoryview

PIECE_BYTES: Final = 1 << 20  # of decompressed content at a time, where the format lets us choose
_GZIP_LEVEL: Final = 1


class Compressor(Protocol):
    """One object being written."""

    def compress(self, data: Buffer) -> bytes:
        """Take more content; return the finished bytes, which may be none."""
        ...

    def finish(self) -> bytes:
        """The rest. Nothing may follow."""
        ...


class Decompressor(Protocol):
    """One object being read."""

    def decompress(self, data: Buffer) -> Iterator[bytes]:
        """Take more of the object; yield its content. All must be taken before the next call."""
        ...

    def finish(self) -> None:
        """The object has ended: refuse one that was cut short."""
        ...


def compressor(codec: CompressionCodec) -> Compressor:
    match codec:
        case CompressionCodec.NONE:
            return _Plain()
        case CompressionCodec.GZIP | CompressionCodec.GZIP_OFFLOAD_DECOMPRESSION:
            return _GzipCompressor()
        case CompressionCodec.ZSTANDARD:
            with extra("server", "content compressed with zstandard"):
                from penstock.journals.storage.zstandard_codec import ZstandardCompressor
            return ZstandardCompressor()
        case CompressionCodec.SNAPPY:
            with extra("server", "content compressed with snappy"):
                from penstock.journals.storage.snappy_codec import SnappyCompressor
            return SnappyCompressor()


def decompressor(codec: CompressionCodec) -> Decompressor:
    match codec:
        case CompressionCodec.NONE:
            return _PlainDecompressor()
        case CompressionCodec.GZIP | CompressionCodec.GZIP_OFFLOAD_DECOMPRESSION:
            return _GzipDecompressor()
        case CompressionCodec.ZSTANDARD:
            with extra("server", "content compressed with zstandard"):
                from penstock.journals.storage.zstandard_codec import ZstandardDecompressor
            return ZstandardDecompressor()
        case CompressionCodec.SNAPPY:
            with extra("server", "content compressed with snappy"):
                from penstock.journals.storage.snappy_codec import SnappyDecompressor
            return SnappyDecompressor()


def damaged(codec: str, why: object) -> StorageError:
    """Return the error of bytes that are not of their format."""
    return StorageError(f"these bytes are not {codec}, or damaged: {why}")


# none


class _Plain:
    def compress(self, data: Buffer) -> bytes:
        return bytes(data)

    def finish(self) -> bytes:
        return b""


class _PlainDecompressor:
    def decompress(self, data: Buffer) -> Iterator[bytes]:
        view = memoryview(data)
        for at in range(0, len(view), PIECE_BYTES):
            yield bytes(view[at : at + PIECE_BYTES])

    def finish(self) -> None:
        pass


# gzip


class _GzipCompressor:
    def __init__(self) -> None:
        self._stream = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS | 16)

    def compress(self, data: Buffer) -> bytes:
        return self._stream.compress(data)

    def finish(self) -> bytes:
        return self._stream.flush()


class _GzipDecompressor:
    """Members one after the other: Gazette's brokers write one for each batch."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._is_begun = False  # the member has had some bytes

    def decompress(self, data: Buffer) -> Iterator[bytes]:
        rest: Buffer = data
        is_full = False  # the last piece was as long as it may be: more may be ready without more input
        while len(rest) or is_full:
            self._is_begun = True
            try:
                piece = self._member.decompress(rest, PIECE_BYTES)
            except zlib.error as error:
                raise damaged("gzip", error) from None
            rest = self._member.unconsumed_tail
            is_full = len(piece) == PIECE_BYTES
            if self._member.eof:
                rest = self._member.unused_data
                self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
                self._is_begun = is_full = False
            if piece:
                yield piece

    def finish(self) -> None:
        if self._is_begun:
            raise damaged("gzip", "the last member is not complete")
