"""Payload: the body of a signed request as the bytes which were meant, checked in every way the request allows.

The client says in `x-amz-content-sha256` how its body is protected: by a hash, not at all, or chunk by chunk. In
addition it may send a checksum, an MD5 and a length. What always holds: the iterator ends well only if all of them fit.
So the writer of the bytes must make them visible after the end, never before.
"""

import hashlib
import hmac
import re
from collections.abc import AsyncIterator
from typing import Final

from penstock.lake.s3.protocol.checksums import Checksum, decode_digest, given_checksums, header_of
from penstock.lake.s3.protocol.chunks import ChunkDecoder
from penstock.lake.s3.protocol.faults import fault
from penstock.lake.s3.protocol.signature import UNSIGNED, Signed
from penstock.plumbing.http.request import Request

__all__ = ["Payload"]


PIECE_BYTES: Final = 512 << 10  # each goes to a thread which writes it: not for every few packets

_HEX64 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Payload:
    """The payload of one request: iterate over it once, then read `checksum_headers` for the checked sums."""

    def __init__(self, request: Request, signed: Signed, bytes_max: int, *, has_checksums: bool = True) -> None:
        self._request = request
        self._bytes_max = bytes_max
        self._kind = signed.payload
        self._checksums = given_checksums(request.headers) if has_checksums else []
        self._decoder = self._decoder_for(signed)
        self._size = 0
        self._expected_size = self._size_given()
        md5 = request.header("content-md5")
        self._md5 = (hashlib.md5(usedforsecurity=False), decode_digest(md5, 16, "content-md5")) if md5 else None
        self._sha256 = hashlib.sha256() if _HEX64.fullmatch(self._kind) else None
        self.checksum_headers: dict[str, str] = {}

    @property
    def size(self) -> int | None:
        """The number of bytes to come, if the client has said so."""
        return self._expected_size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held: list[bytes | memoryview] = []
        size = 0
        async for piece in self._pieces():
            self._take(piece)
            held.append(piece)
            size += len(piece)
            if size >= PIECE_BYTES:
                yield b"".join(held)
                held, size = [], 0
        self._check()
        if held:
            yield b"".join(held)

    async def _pieces(self) -> AsyncIterator[bytes | memoryview]:
        """The payload as it comes off the connection."""
        # A chunk's header and signature are a small part of it, but a client may send many small chunks.
        limit = self._bytes_max if self._decoder is None else 2 * self._bytes_max + (1 << 20)
        async for data in self._request.body(limit):
            if self._decoder is None:
                yield data
            else:
                for piece in self._decoder.feed(data):
                    yield piece

    async def read(self) -> bytes:
        """The whole payload, held in memory and checked."""
        return b"".join([chunk async for chunk in self])

    def _decoder_for(self, signed: Signed) -> ChunkDecoder | None:
        match self._kind:
            case "STREAMING-AWS4-HMAC-SHA256-PAYLOAD":
                return ChunkDecoder(signed, has_trailers=False)
            case "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER":
                return ChunkDecoder(signed, has_trailers=True)
            case "STREAMING-UNSIGNED-PAYLOAD-TRAILER":
                return ChunkDecoder(None, has_trailers=True)
            case _ if self._kind == UNSIGNED or _HEX64.fullmatch(self._kind):
                return None
            case _:
                raise fault("InvalidArgument", f"x-amz-content-sha256 is {self._kind[:80]!r}, which is not known here")

    def _size_given(self) -> int | None:
        if self._decoder is None:
            return self._request.content_length
        text = self._request.header("x-amz-decoded-content-length")
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise fault("MissingContentLength", "x-amz-decoded-content-length is missing, or no number")
        if int(text) > self._bytes_max:
            raise fault("EntityTooLarge", f"the payload has {text} bytes; at most {self._bytes_max} are taken")
        return int(text)

    def _take(self, data: bytes | memoryview) -> None:
        self._size += len(data)
        if self._size > self._bytes_max:
            raise fault("EntityTooLarge", f"the payload has more than the {self._bytes_max} bytes that are taken")
        for checksum in self._checksums:
            checksum.update(data)
        if self._md5 is not None:
            self._md5[0].update(data)
        if self._sha256 is not None:
            self._sha256.update(data)

    def _check(self) -> None:
        if self._decoder is not None:
            self._decoder.finish()
            self._expect_trailers(self._decoder.trailers)
        if self._expected_size not in (None, self._size):
            raise fault("IncompleteBody", f"{self._expected_size} bytes were announced, {self._size} came")
        if self._sha256 is not None and not hmac.compare_digest(self._sha256.hexdigest(), self._kind):
            raise fault("XAmzContentSHA256Mismatch", "the payload's SHA-256 is not the one that was signed")
        if self._md5 is not None and self._md5[0].digest() != self._md5[1]:
            raise fault("BadDigest", "the payload's MD5 is not the Content-MD5 that was sent")
        for checksum in self._checksums:
            self.checksum_headers[header_of(checksum.algorithm)] = checksum.check()

    def _expect_trailers(self, trailers: dict[str, str]) -> None:
        awaited: dict[str, Checksum] = {
            header_of(one.algorithm): one for one in self._checksums if one.expected is None
        }
        for name, value in trailers.items():
            if name not in awaited:
                raise fault("InvalidRequest", f"the trailer {name} was not announced in x-amz-trailer")
            awaited[name].expect(value)
