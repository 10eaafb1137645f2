"""Compression of fragments, as streams: bytes in, bytes out, never a whole fragment in memory.

Design: gazette.md §2.3, §2.4; the formats are Gazette's, so that either system reads what the other stored: gzip of one
or many members, zstandard of one or many frames, snappy in its framed format with checked sums.

What always holds: what `decompress` yields was checked as far as the format has sums, and comes in pieces of bounded
size. Bytes which are not of the format, or end too early, are a `StorageError`.
"""

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final, Protocol

import cramjam
import google_crc32c
import zstandard

from penstock.journals.records.fragment import CompressionCodec
from penstock.kernel.errors import StorageError

__all__ = ["PIECE_BYTES", "Buffer", "Compressor", "Decompressor", "compressor", "decompressor"]

Buffer = bytes | bytearray | memoryview

PIECE_BYTES: Final = 1 << 20  # of decompressed content at a time, where the format lets us choose
_GZIP_LEVEL: Final = 1
_ZSTANDARD_LEVEL: Final = 1
_ZSTANDARD_SLICE: Final = 4 << 10  # compressed bytes at a time: a hostile frame grows 32,000-fold at most
_ZSTANDARD_WINDOW_MAX: Final = 128 << 20


class Compressor(Protocol):
    """One object being written."""

    def compress(self, data: Buffer) -> bytes:
        """Take more content; return what is ready, which may be nothing."""
        ...

    def finish(self) -> bytes:
        """The rest. Nothing may follow."""
        ...


class Decompressor(Protocol):
    """One object being read."""

    def decompress(self, data: Buffer) -> Iterator[bytes]:
        """Take more of the object; yield what is in it. All must be taken before the next call."""
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
            return _ZstandardCompressor()
        case CompressionCodec.SNAPPY:
            return _SnappyCompressor()


def decompressor(codec: CompressionCodec) -> Decompressor:
    match codec:
        case CompressionCodec.NONE:
            return _PlainDecompressor()
        case CompressionCodec.GZIP | CompressionCodec.GZIP_OFFLOAD_DECOMPRESSION:
            return _GzipDecompressor()
        case CompressionCodec.ZSTANDARD:
            return _ZstandardDecompressor()
        case CompressionCodec.SNAPPY:
            return _SnappyDecompressor()


def _damaged(codec: str, why: object) -> StorageError:
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
                raise _damaged("gzip", error) from None
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
            raise _damaged("gzip", "the last member is not complete")


# zstandard


class _ZstandardCompressor:
    def __init__(self) -> None:
        self._stream = zstandard.ZstdCompressor(level=_ZSTANDARD_LEVEL, write_checksum=True).compressobj()

    def compress(self, data: Buffer) -> bytes:
        return self._stream.compress(data)

    def finish(self) -> bytes:
        return self._stream.flush()


class _ZstandardDecompressor:
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
                raise _damaged("zstandard", error) from None
            data = b""
            if self._frame.eof:
                data = self._frame.unused_data
                self._frame = self._decompressor.decompressobj()
                self._is_begun = False
            if piece:
                yield piece

    def finish(self) -> None:
        if self._is_begun:
            raise _damaged("zstandard", "the last frame is not complete")


# snappy, framed: chunks of [type 1][length 3][sum 4: the content's crc32c, masked][data], of 64 KiB of content at most

_HEADER = Struct("<I")  # type in the lowest byte, length above
_SUM = Struct("<I")
_STREAM_IDENTIFIER: Final = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED, _UNCOMPRESSED, _IDENTIFIER = 0x00, 0x01, 0xFF
_BLOCK_BYTES: Final = 1 << 16
_CHUNK_BYTES_MAX: Final = 4 + 76_490  # a sum, and the most that 64 KiB become when they do not compress


class _SnappyCompressor:
    def __init__(self) -> None:
        self._is_begun = False
        self._rest = bytearray()

    def compress(self, data: Buffer) -> bytes:
        self._rest += data
        whole = len(self._rest) - len(self._rest) % _BLOCK_BYTES
        return self._take(whole)

    def finish(self) -> bytes:
        return self._take(len(self._rest))

    def _take(self, size: int) -> bytes:
        out = [] if self._is_begun else [_STREAM_IDENTIFIER]
        self._is_begun = True
        content = bytes(self._rest[:size])
        del self._rest[:size]
        out += [_chunk(content[at : at + _BLOCK_BYTES]) for at in range(0, size, _BLOCK_BYTES)]
        return b"".join(out)


def _chunk(block: bytes) -> bytes:
    compressed = bytes(cramjam.snappy.compress_raw(block))
    kind, data = (_COMPRESSED, compressed) if len(compressed) < len(block) else (_UNCOMPRESSED, block)
    return _HEADER.pack(kind | (len(data) + 4) << 8) + _SUM.pack(_masked_sum(block)) + data


def _masked_sum(block: bytes) -> int:
    crc = int(google_crc32c.value(block))
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


class _SnappyDecompressor:
    def __init__(self) -> None:
        self._rest = bytearray()
        self._is_identified = False

    def decompress(self, data: Buffer) -> Iterator[bytes]:
        self._rest += data
        at = 0
        while len(self._rest) - at >= _HEADER.size:
            (header,) = _HEADER.unpack_from(self._rest, at)
            kind, size = header & 0xFF, header >> 8
            if kind in (_COMPRESSED, _UNCOMPRESSED) and size > _CHUNK_BYTES_MAX:
                raise _damaged("framed snappy", f"a chunk of {size} bytes")
            if len(self._rest) - at - _HEADER.size < size:
                break
            at += _HEADER.size
            block = self._chunk(kind, bytes(self._rest[at : at + size]))
            at += size
            if block:
                yield block
        del self._rest[:at]

    def _chunk(self, kind: int, body: bytes) -> bytes:
        if kind == _IDENTIFIER:
            if body != _STREAM_IDENTIFIER[4:]:
                raise _damaged("framed snappy", "its identifier is another")
            self._is_identified = True
            return b""
        if not self._is_identified:
            raise _damaged("framed snappy", "it has no identifier")
        if kind in (_COMPRESSED, _UNCOMPRESSED):
            return _block(kind, body)
        # Also of the types which a reader may skip: nobody who writes fragments makes them, and skipped, a changed byte
        # of a header would make content vanish.
        raise _damaged("framed snappy", f"a chunk of the unknown type {kind}")

    def finish(self) -> None:
        if self._rest:
            raise _damaged("framed snappy", "the last chunk is not complete")


def _block(kind: int, body: bytes) -> bytes:
    if len(body) < _SUM.size:
        raise _damaged("framed snappy", "a chunk without a sum")
    data = body[_SUM.size :]
    if kind == _COMPRESSED:
        try:
            if cramjam.snappy.decompress_raw_len(data) > _BLOCK_BYTES:
                raise _damaged("framed snappy", "a chunk with more than 64 KiB in it")
            block = bytes(cramjam.snappy.decompress_raw(data))
        except (cramjam.DecompressionError, OSError) as error:
            raise _damaged("framed snappy", error) from None
    else:
        block = data
    if _SUM.unpack_from(body)[0] != _masked_sum(block):
        raise _damaged("framed snappy", "a chunk does not match its sum")
    return block
