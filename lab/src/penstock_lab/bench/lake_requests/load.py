"""Requests of `lake_requests` as bytes, made before the clock starts, and connections that send them.

The driver does as little as it can: a raw protocol for each connection, which sends the next request when the answer to
the last one is complete.
"""

import asyncio
import base64
import hashlib
import hmac
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import uvloop

__all__ = ["Sent", "rest_request", "s3_request", "send"]

REGION: Final = "us-east-1"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


def rest_request(
    method: str, path: str, pair: tuple[str, str], body: bytes = b"", content_type: str = "application/json"
) -> bytes:
    """Return one request of the REST API."""
    basic = base64.b64encode(":".join(pair).encode()).decode()
    head = f"{method} /api/v1/repositories/bench{path} HTTP/1.1\r\nHost: lake\r\nAuthorization: Basic {basic}\r\n"
    if method != "GET":
        head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


def s3_request(method: str, path: str, pair: tuple[str, str], body: bytes = b"") -> bytes:
    """Return one request of S3 with the headers of boto3, signed (AWS signature version 4)."""
    now = datetime.now(UTC)
    stamp, day = f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}"
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": "lake", "x-amz-content-sha256": digest, "x-amz-date": stamp}
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    canonical = f"{method}\n{quote(path)}\n\n{lines}\n{names}\n{digest}"
    scope = f"{day}/{REGION}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{pair[1]}".encode()
    for part in (day, REGION, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    head = f"{method} {quote(path)} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head += "user-agent: Boto3/1.40 md/Botocore#1.40 ua/2.1 os/linux lang/python#3.11\r\naccept-encoding: identity\r\n"
    head += f"authorization: AWS4-HMAC-SHA256 Credential={pair[0]}/{scope}, SignedHeaders={names}, "
    head += f"Signature={signature}\r\n"
    if method != "GET":
        head += f"content-length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


class Sent:
    """What a run of requests took: how many were answered, how long that was, and the median of one."""

    def __init__(self, times: list[float], seconds: float) -> None:
        self.done = len(times)
        self.seconds = seconds
        self.median_s = sorted(times)[self.done // 2] if times else 0.0


def send(port: int, requests: Iterator[bytes], in_flight: int, seconds: float) -> Sent:
    """Send requests, some at a time, for so long, or until there are no more; each must be answered 2xx."""
    return uvloop.run(_send(port, requests, in_flight, seconds))


async def _send(port: int, requests: Iterator[bytes], in_flight: int, seconds: float) -> Sent:
    loop = asyncio.get_running_loop()
    times: list[float] = []
    connections = [
        (await loop.create_connection(lambda: _Connection(requests, times), "127.0.0.1", port))[1]
        for _ in range(in_flight)
    ]
    began = time.perf_counter()
    for connection in connections:
        connection.begin(began + seconds)
    try:
        await asyncio.gather(*(connection.ended for connection in connections))
        return Sent(times, time.perf_counter() - began)
    finally:
        for connection in connections:
            connection.close()


class _Connection(asyncio.Protocol):
    """Sends a request whenever the answer to the one before is complete."""

    def __init__(self, requests: Iterator[bytes], times: list[float]) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests = requests
        self._times = times
        self._transport: asyncio.Transport | None = None
        self._until = 0.0
        self._asked_at = 0.0
        self._head = b""
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's have no class in common with asyncio's

    def begin(self, until: float) -> None:
        self._until = until
        self._ask()

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(ConnectionError(f"the server closed the connection: {exc}"))

    def data_received(self, data: bytes) -> None:
        if self._left:
            self._left -= len(data)
        else:
            self._head += data
            head, found, body = self._head.partition(b"\r\n\r\n")
            if not found:
                return
            length = _LENGTH.search(head)
            if not head.startswith(b"HTTP/1.1 2"):
                self.ended.set_exception(AssertionError(self._head[:1000]))
                self.close()
                return
            self._head = b""
            self._left = (int(length[1]) if length is not None else 0) - len(body)
        if not self._left:
            now = time.perf_counter()
            self._times.append(now - self._asked_at)
            self._ask()

    def _ask(self) -> None:
        assert self._transport is not None
        self._asked_at = time.perf_counter()
        request = next(self._requests, None) if self._asked_at < self._until else None
        if request is None:
            self.ended.set_result(None)
        else:
            self._transport.write(request)
