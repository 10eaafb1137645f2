"""Chunks: S3's own framing of a streaming body (`aws-chunked`), decoded without I/O.

    SIZE;chunk-signature=HEX CRLF  payload CRLF  …  0;chunk-signature=HEX CRLF  [trailers]  CRLF

Each signature covers its chunk and the signature before it, the first one the request's own, so that no chunk can be
changed, dropped or moved. Payload is given out before its chunk's signature is checked: its reader must not believe in
it before `finish`. Sizes and lines are bounded; whatever is not in this form is an error.
"""

import hashlib
import hmac
import re
from collections.abc import Iterator
from enum import Enum
from typing import Final

from penstock.lake.s3.protocol.faults import fault
from penstock.lake.s3.protocol.signature import Signed, sign

__all__ = ["ChunkDecoder"]

LINE_BYTES_MAX: Final = 1024
TRAILERS_MAX: Final = 16
CHUNK_BYTES_MAX: Final = 5 << 30
EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()

_HEADER = re.compile(rb"([0-9a-fA-F]{1,16})(?:;chunk-signature=([0-9a-f]{64}))?", re.ASCII)
_TRAILER = re.compile(rb"([a-z0-9-]{1,100}):[ \t]*([\x20-\x7e]{0,512}?)[ \t]*", re.ASCII)


class _State(Enum):
    HEADER = "header"
    PAYLOAD = "payload"
    PAYLOAD_END = "payload end"
    TRAILER = "trailer"
    END = "end"


class ChunkDecoder:
    """Decodes one body. With `signed`, every chunk must have its signature; without, none is looked at."""

    def __init__(self, signed: Signed | None, *, has_trailers: bool) -> None:
        self._signed = signed
        self._has_trailers = has_trailers
        self._previous = signed.signature if signed is not None else ""
        self._state = _State.HEADER
        self._line = b""  # the beginning of a line whose end has not come
        self._left = 0
        self._signature = b""
        self._hash = hashlib.sha256()
        self.size = 0
        self.trailers: dict[str, str] = {}

    def feed(self, data: bytes) -> Iterator[memoryview]:
        """The payload in the next bytes of the body."""
        view, at = memoryview(data), 0
        while at < len(view):
            if self._state is _State.PAYLOAD:
                piece = view[at : at + self._left]
                at += len(piece)
                self._take(piece)
                yield piece
            elif self._state is _State.END:
                raise fault("InvalidRequest", "bytes follow the end of the chunks")
            else:
                at = self._read_line(data, at)

    def finish(self) -> None:
        """The body has ended: it must have ended here."""
        if self._state is not _State.END:
            raise fault("IncompleteBody", f"the chunks end early, in a {self._state.value}")

    def _take(self, piece: memoryview) -> None:
        self._left -= len(piece)
        self.size += len(piece)
        if self._signed is not None:
            self._hash.update(piece)
        if not self._left:
            self._state = _State.PAYLOAD_END

    def _read_line(self, data: bytes, at: int) -> int:
        """Read one line, or as much of it as has arrived; return where the next one begins."""
        end = data.find(b"\n", at)
        piece = data[at:] if end < 0 else data[at : end + 1]
        if len(self._line) + len(piece) > LINE_BYTES_MAX:
            raise fault("InvalidRequest", f"a line between chunks has more than {LINE_BYTES_MAX} bytes")
        self._line += piece
        if end < 0:
            return len(data)
        line, self._line = self._line, b""
        if not line.endswith(b"\r\n"):
            raise fault("InvalidRequest", "a line between chunks does not end in CRLF")
        self._on_line(line[:-2])
        return end + 1

    def _on_line(self, line: bytes) -> None:
        match self._state:
            case _State.HEADER:
                self._on_header(line)
            case _State.PAYLOAD_END:
                if line:
                    raise fault("InvalidRequest", "a chunk is longer than its size")
                self._check_chunk()
                self._state = _State.HEADER
            case _State.TRAILER if line:
                self._on_trailer(line)
            case _State.TRAILER:
                self._check_trailers()
                self._state = _State.END
            case _State.PAYLOAD | _State.END:
                raise AssertionError(f"no line is read in a {self._state.value}")

    def _on_header(self, line: bytes) -> None:
        found = _HEADER.fullmatch(line)
        if found is None or (self._signed is not None) != (found[2] is not None):
            raise fault("InvalidRequest", "a chunk begins with its size" + (" and signature" if self._signed else ""))
        self._left = int(found[1], 16)
        if self._left > CHUNK_BYTES_MAX:
            raise fault("EntityTooLarge", f"a chunk has at most {CHUNK_BYTES_MAX} bytes")
        self._signature = found[2] or b""
        if self._left:
            self._state = _State.PAYLOAD
        else:
            self._check_chunk()
            self._state = _State.TRAILER

    def _check_chunk(self) -> None:
        if self._signed is None:
            return
        text = (
            f"AWS4-HMAC-SHA256-PAYLOAD\n{self._signed.timestamp}\n{self._signed.scope}\n{self._previous}\n"
            f"{EMPTY_SHA256}\n{self._hash.hexdigest()}"
        )
        self._check_signature(text, self._signature.decode("ascii"), "a chunk")
        self._hash = hashlib.sha256()

    def _on_trailer(self, line: bytes) -> None:
        found = _TRAILER.fullmatch(line)
        if found is None or not self._has_trailers or len(self.trailers) >= TRAILERS_MAX:
            raise fault("InvalidRequest", "a trailer is not as it should be, or none was announced")
        name = found[1].decode("ascii")
        if name in self.trailers:
            raise fault("InvalidRequest", f"the trailer {name} comes twice")
        self.trailers[name] = found[2].decode("ascii")

    def _check_trailers(self) -> None:
        given = self.trailers.pop("x-amz-trailer-signature", None)
        if self._signed is None or not self._has_trailers:
            return
        lines = "".join(f"{name}:{value}\n" for name, value in sorted(self.trailers.items()))
        text = (
            f"AWS4-HMAC-SHA256-TRAILER\n{self._signed.timestamp}\n{self._signed.scope}\n{self._previous}\n"
            f"{hashlib.sha256(lines.encode()).hexdigest()}"
        )
        self._check_signature(text, given or "", "the trailers")

    def _check_signature(self, text: str, given: str, what: str) -> None:
        assert self._signed is not None
        expected = sign(self._signed.key, text)
        if not hmac.compare_digest(expected, given):
            raise fault("SignatureDoesNotMatch", f"the signature of {what} does not fit")
        self._previous = expected
