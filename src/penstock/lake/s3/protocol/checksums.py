"""Checksums of payloads: the five that S3 knows, as running hashes, and their form in headers and trailers."""

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import google_crc32c

from penstock.lake.s3.protocol.crc64 import Crc64Nvme
from penstock.lake.s3.protocol.faults import fault

__all__ = ["ALGORITHMS", "Checksum", "Running", "decode_digest", "given_checksums", "header_of"]

PREFIX: Final = "x-amz-checksum-"


class Running(Protocol):
    """A hash being computed."""

    def update(self, data: bytes | bytearray | memoryview, /) -> None: ...

    def digest(self) -> bytes: ...


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes | bytearray | memoryview, /) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


class _Crc32c:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes | bytearray | memoryview, /) -> None:
        # The library takes only bytes.
        self._value = google_crc32c.extend(self._value, data if isinstance(data, bytes) else bytes(data))

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


ALGORITHMS: Final[dict[str, tuple[Callable[[], Running], int]]] = {
    "crc32": (_Crc32, 4),
    "crc32c": (_Crc32c, 4),
    "crc64nvme": (Crc64Nvme, 8),
    "sha1": (hashlib.sha1, 20),
    "sha256": (hashlib.sha256, 32),
}


class Checksum:
    """The expected checksum of a payload, once it is known, and the computed one."""

    def __init__(self, algorithm: str, expected: bytes | None) -> None:
        make, self._size = ALGORITHMS[algorithm]
        self.algorithm = algorithm
        self.expected = expected
        self._running = make()

    def update(self, data: bytes | bytearray | memoryview) -> None:
        self._running.update(data)

    def expect(self, text: str) -> None:
        """The value a trailer brought."""
        self.expected = decode_digest(text, self._size, header_of(self.algorithm))

    def check(self) -> str:
        """The checksum as text, or an error if it is not as expected."""
        found = self._running.digest()
        if self.expected is None:
            raise fault("InvalidRequest", f"the trailer {header_of(self.algorithm)} was announced, and did not come")
        if found != self.expected:
            raise fault("BadDigest", f"the {self.algorithm} of the payload is not the one that was sent")
        return base64.b64encode(found).decode()


def header_of(algorithm: str) -> str:
    return PREFIX + algorithm


def given_checksums(headers: Mapping[str, str]) -> list[Checksum]:
    """Return the checksums that a request brings in its headers, and those that it announces as trailers."""
    found = [
        Checksum(name, decode_digest(headers[header_of(name)], size, header_of(name)))
        for name, (_, size) in ALGORITHMS.items()
        if header_of(name) in headers
    ]
    announced = [name.strip().lower() for name in headers.get("x-amz-trailer", "").split(",") if name.strip()]
    for name in announced:
        algorithm = name.removeprefix(PREFIX)
        if not name.startswith(PREFIX) or algorithm not in ALGORITHMS:
            raise fault("InvalidRequest", f"the trailer {name[:80]!r} is not known")
        found.append(Checksum(algorithm, None))
    if len(found) > 1:
        raise fault("InvalidRequest", "a payload has at most one checksum")
    return found


def decode_digest(text: str, size: int, name: str) -> bytes:
    try:
        digest = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        digest = b""
    if len(digest) != size:
        raise fault("InvalidDigest" if name == "content-md5" else "InvalidRequest", f"{name} is no valid digest")
    return digest
