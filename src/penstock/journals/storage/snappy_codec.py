"""Snappy in its framed format, as streams. See `codecs.py`.

Chunks of [type 1][length 3][sum 4: the content's crc32c, masked][data], of 64 KiB of content at most.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

import cramjam
import google_crc32c

from penstock.journals.storage.codecs import Buffer, damaged

__all__ = ["SnappyCompressor", "SnappyDecompressor"]

_HEADER = Struct("<I")  # type in the lowest byte, length above
_SUM = Struct("<I")
_STREAM_IDENTIFIER: Final = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED, _UNCOMPRESSED, _IDENTIFIER = 0x00, 0x01, 0xFF
_BLOCK_BYTES: Final = 1 << 16
_CHUNK_BYTES_MAX: Final = 4 + 76_490  # a sum, and the most that 64 KiB become when they do not compress


class SnappyCompressor:
    """One object written as framed snappy."""

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


class SnappyDecompressor:
    """One object read as framed snappy: each chunk is checked against its sum."""

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
                raise damaged("framed snappy", f"a chunk of {size} bytes")
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
                raise damaged("framed snappy", "its identifier is another")
            self._is_identified = True
            return b""
        if not self._is_identified:
            raise damaged("framed snappy", "it has no identifier")
        if kind in (_COMPRESSED, _UNCOMPRESSED):
            return _block(kind, body)
        # Also of the types that a reader may skip: no writer of fragments makes them, and skipped, a changed byte of a
        # header would make content vanish.
        raise damaged("framed snappy", f"a chunk of the unknown type {kind}")

    def finish(self) -> None:
        if self._rest:
            raise damaged("framed snappy", "the last chunk is not complete")


def _block(kind: int, body: bytes) -> bytes:
    if len(body) < _SUM.size:
        raise damaged("framed snappy", "a chunk without a sum")
    data = body[_SUM.size :]
    if kind == _COMPRESSED:
        try:
            if cramjam.snappy.decompress_raw_len(data) > _BLOCK_BYTES:
                raise damaged("framed snappy", "a chunk with more than 64 KiB in it")
            block = bytes(cramjam.snappy.decompress_raw(data))
        except (cramjam.DecompressionError, OSError) as error:
            raise damaged("framed snappy", error) from None
    else:
        block = data
    if _SUM.unpack_from(body)[0] != _masked_sum(block):
        raise damaged("framed snappy", "a chunk does not match its sum")
    return block
