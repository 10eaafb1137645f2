"""One request and its answer: the handler within its time, and the answer written as fast as the client reads.

What always holds: a request gets exactly one answer, whole, or a closed connection; a stream is closed in every case; a
read that no client waits for is cancelled, and a request that may write runs to its end.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Final

from penstock.kernel.errors import DeadlineExceeded, InternalError, Overloaded, PenstockError
from penstock.plumbing.http.problems import CLIENT_GONE, status_of
from penstock.plumbing.http.protocol.connection import HttpConnection
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Bytes, Response
from penstock.plumbing.http.router import HttpRoute
from penstock.plumbing.http.site import Site
from penstock.plumbing.process.defects import defect

__all__ = ["Exchange"]

READS: Final = frozenset(("GET", "HEAD"))
ONE_WRITE_BYTES: Final = 16 << 10  # a body up to here is sent with its head
_FORBIDDEN: Final = re.compile("[\x00-\x1f\x7f]")
_LINES: Final = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n" for one in HTTPStatus}
_END: Final = b"0\r\n\r\n"


class _ClientGone(Exception):
    """No client is left to answer."""


class Exchange:
    """One request and its answer."""

    __slots__ = ("_connection", "_is_late", "_task", "bytes_sent", "request", "site", "status", "trouble")

    def __init__(self, request: Request, site: Site, connection: HttpConnection) -> None:
        self.request = request
        self.site = site
        self.status = CLIENT_GONE
        self.bytes_sent = 0
        self.trouble: dict[str, str] = {}
        self._connection = connection
        self._task: asyncio.Task[None] | None = None
        self._is_late = False

    async def run(self, date: str, *, has_room: bool) -> None:
        connection = self._connection
        task = self._task = asyncio.current_task()
        if self.request.method in READS:
            assert task is not None
            connection.on_lost = task.cancel  # type: ignore[assignment]  # whose result nobody needs
        keep = False
        try:
            keep = await self._send(await self._answer(has_room=has_room), date)
        except _ClientGone:
            self.status = CLIENT_GONE
        except asyncio.CancelledError:
            if not connection.is_lost:
                self.trouble = {"reason": "the server closed"}
                connection.cut()
            self.status = CLIENT_GONE
        finally:
            connection.on_lost = None
            connection.answered(keep=keep)

    async def _answer(self, *, has_room: bool) -> Response:
        request, limits = self.request, self._connection.limits
        try:
            if not has_room:
                raise Overloaded(f"{limits.requests_max} requests are in flight already")
            route = self.site.routes.find(request)
            milliseconds = limits.answer_ms if route.answer_ms is None else route.answer_ms
            return await (self._within(route, milliseconds / 1000) if milliseconds else route.handler(request))
        except PenstockError as error:
            return self._render(error)
        except Exception as error:
            return self._render(defect("http", error, request=request.id))

    async def _within(self, route: HttpRoute, seconds: float) -> Response:
        """The handler's answer, or `DeadlineExceeded`. `asyncio.timeout` is the same and takes five times as long."""
        timer = asyncio.get_running_loop().call_later(seconds, self._late)
        try:
            return await route.handler(self.request)
        except asyncio.CancelledError:
            assert self._task is not None
            if not self._is_late or self._task.uncancel() > 0:
                raise  # the server closes, or the client went away
            raise DeadlineExceeded(f"the server did not answer within {seconds:g} s") from None
        finally:
            timer.cancel()

    def _late(self) -> None:
        assert self._task is not None
        self._is_late = True
        self._task.cancel()

    def _render(self, error: PenstockError) -> Response:
        status = status_of(error)
        self.trouble = {"error": error.code, "reason": error.message}
        response = self.site.render(self.request, error, status)
        if status == 503:
            response.headers.setdefault("retry-after", "1")
        if status == 405:
            response.headers.setdefault("allow", ", ".join(error.details.get("allow", ())))
        return response

    async def _send(self, response: Response, date: str) -> bool:
        """Write the answer; return whether the connection can be kept."""
        body, connection = response.body, self._connection
        if isinstance(body, bytes | bytearray | memoryview):
            self._check_connected()
            self.status = response.status
            has_body = self._has_body(response.status)
            head, keep, _ = self._head(response, len(body), date)
            if not has_body:
                connection.transport.write(head)
            elif len(body) <= ONE_WRITE_BYTES:
                connection.transport.write(b"".join((head, body)))
            else:
                connection.transport.write(head)
                connection.transport.write(body)
            self.bytes_sent = len(body) if has_body else 0
        else:
            keep = await self._send_stream(body, response, date)
        if connection.is_full:
            await connection.drained()
        return keep

    def _has_body(self, status: int) -> bool:
        return self.request.method != "HEAD" and status not in (204, 304)

    def _head(self, response: Response, length: int | None, date: str) -> tuple[bytes, bool, bool]:
        """Return the head as bytes, whether the connection is kept, and whether the body is chunked."""
        request, status = self.request, response.status
        if request.method == "HEAD" and response.length is not None:
            length = response.length
        keep = request.keep_alive and not self._connection.is_draining
        if request.awaits_continue and not request.is_body_read:
            # The client has not sent its body, and now will not: its next bytes must not be taken for it.
            keep = False
        lines = [_LINES.get(status) or f"HTTP/1.1 {status} \r\n", date]
        lines += [f"{name}: {_value(value)}\r\n" for name, value in response.headers.items()]
        lines.append(f"x-request-id: {request.id}\r\n")
        is_chunked = False
        if status not in (204, 304):
            if length is not None:
                lines.append(f"content-length: {length}\r\n")
            elif request.version != "1.0":
                lines.append("transfer-encoding: chunked\r\n")
                is_chunked = True
            else:
                keep = False  # the end of the connection is the end of the body
        if not keep:
            lines.append("connection: close\r\n")
        elif request.version == "1.0":
            lines.append("connection: keep-alive\r\n")
        lines.append("\r\n")
        return "".join(lines).encode("latin-1", "replace"), keep, is_chunked

    async def _send_stream(self, stream: AsyncIterator[Bytes], response: Response, date: str) -> bool:
        """Write a stream. One that fails, or is not as long as it said, ends the connection: no client may take it."""
        connection, transport = self._connection, self._connection.transport
        try:
            self._check_connected()
            self.status = response.status
            head, keep, is_chunked = self._head(response, response.length, date)
            transport.write(head)
            if not self._has_body(response.status):
                return keep
            left = response.length
            try:
                async for chunk in stream:
                    if left is not None:
                        left -= len(chunk)
                        if left < 0:
                            raise InternalError("the stream is longer than the answer's head said")
                    self._check_connected()
                    self._write_chunk(chunk, is_chunked=is_chunked)
                    if connection.is_full:
                        await connection.drained()
                if left:
                    raise InternalError(f"the stream ended {left} bytes early")
            except (PenstockError, OSError) as error:
                self.trouble = {"error": getattr(error, "code", "os"), "reason": f"the answer was cut: {error}"}
                connection.cut()
                return False
            if is_chunked:
                self._check_connected()
                transport.write(_END)
            return keep
        finally:
            if (close := getattr(stream, "aclose", None)) is not None:
                await close()

    def _write_chunk(self, chunk: Bytes, *, is_chunked: bool) -> None:
        size, transport = len(chunk), self._connection.transport
        if not size:
            return  # an empty chunk would be the end
        self.bytes_sent += size
        if not is_chunked:
            transport.write(chunk)
        elif size <= ONE_WRITE_BYTES:
            transport.write(b"".join((b"%x\r\n" % size, chunk, b"\r\n")))
        else:
            transport.write(b"%x\r\n" % size)
            transport.write(chunk)
            transport.write(b"\r\n")

    def _check_connected(self) -> None:
        # A closing transport takes everything at once and reports nothing: a stream would run without end.
        if self._connection.is_closing:
            raise _ClientGone


def _value(value: str) -> str:
    """Leave out what would end the header: a handler may pass on what a client chose."""
    return value if value.isprintable() else _FORBIDDEN.sub("", value)
