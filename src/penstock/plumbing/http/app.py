"""App: the ASGI application. Chooses the site of a request, runs its handler, sends the answer, and accounts for it.

Sites share a port: the first which claims a request answers it (the S3 gateway claims what carries an AWS signature).
What always holds: every request gets exactly one answer or a closed connection; every error is rendered by its site,
and one that is not ours is logged with its trace and shown as `internal`; no header or query reaches the log.
"""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from penstock.kernel.errors import DeadlineExceeded, InternalError, NotFound, Overloaded, PenstockError
from penstock.plumbing.http.connection import CONNECTION, Connection
from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.problems import CLIENT_GONE, Render, render_json, status_of
from penstock.plumbing.http.request import Receive, Request
from penstock.plumbing.http.response import Bytes, Response
from penstock.plumbing.http.router import Route
from penstock.plumbing.http.statistics import REQUEST_SECONDS, HttpStatistics
from penstock.plumbing.process.defects import defect
from penstock.plumbing.process.logs import get_logger

__all__ = ["App", "Finder", "Site"]

Send = Callable[[Any], Awaitable[None]]

log = get_logger()


class Finder(Protocol):
    """What finds the route of a request: a Router, or a site's own way."""

    def find(self, request: Request) -> Route: ...


@dataclass(frozen=True, slots=True)
class Site:
    """A set of routes with their own error format. `claims` says which requests are its own; by default, all."""

    name: str
    routes: Finder
    render: Render = render_json
    claims: Callable[[Request], bool] = lambda _: True


class _ClientGone(Exception):
    """No client is left to answer."""


class App:
    """The application of one server."""

    def __init__(self, sites: Sequence[Site], limits: HttpLimits | None = None) -> None:
        self._sites = tuple(sites)
        self.limits = limits or HttpLimits()
        self.statistics = HttpStatistics()
        self._id_prefix = secrets.token_hex(4)
        self._seconds = {site.name: REQUEST_SECONDS.labels(site.name) for site in sites}
        self._no_site = Site("none", _Nothing())
        self._log = log.bind()  # once, as that takes longer than to find that a line is not wanted

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        statistics = self.statistics
        statistics.requests += 1
        statistics.requests_now += 1
        request = Request(scope, receive, self.limits, f"{self._id_prefix}{statistics.requests:08x}")
        site = self._site_of(request)
        exchange = _Exchange(request, site, send, scope[CONNECTION], self.limits)
        try:
            await exchange.run(has_room=statistics.requests_now <= self.limits.requests_max)
        finally:
            statistics.requests_now -= 1
            self._account(exchange, time.perf_counter() - started)

    def _site_of(self, request: Request) -> Site:
        try:
            return next((site for site in self._sites if site.claims(request)), self._no_site)
        except PenstockError:
            return self._no_site  # a site could not even read the request: no site's client sends such

    def _account(self, exchange: "_Exchange", seconds: float) -> None:
        statistics, request, status = self.statistics, exchange.request, exchange.status
        statistics.bytes_received += request.bytes_read
        statistics.bytes_sent += exchange.bytes_sent
        if status == CLIENT_GONE:
            statistics.clients_gone += 1
        elif status >= 500:
            statistics.answers_5xx += 1
        elif status >= 400:
            statistics.answers_4xx += 1
        if exchange.site.name in self._seconds:
            self._seconds[exchange.site.name].observe(seconds)
        self._write_line(exchange, seconds)

    def _write_line(self, exchange: "_Exchange", seconds: float) -> None:
        """Successes at debug: a line for each would cost more than many a request."""
        request, status = exchange.request, exchange.status
        is_failure = status >= 500 or (exchange.trouble and status < 400)
        level = logging.WARNING if is_failure else logging.INFO if status >= 400 else logging.DEBUG
        if not self._log.is_enabled_for(level):
            return
        self._log.log(
            level,
            "http request",
            id=request.id,
            site=exchange.site.name,
            method=request.method,
            path=request.raw_path,  # without the query: a presigned one is a secret
            status=status,
            ms=round(seconds * 1000, 3),
            bytes_received=request.bytes_read,
            bytes_sent=exchange.bytes_sent,
            peer=request.peer,
            **exchange.trouble,
        )


class _Nothing:
    def find(self, request: Request) -> Route:
        raise NotFound(f"nothing is at {request.raw_path[:200]}")


class _Exchange:
    """One request and its answer."""

    __slots__ = ("_connection", "_limits", "_send", "bytes_sent", "request", "site", "status", "trouble")

    def __init__(self, request: Request, site: Site, send: Send, connection: Connection, limits: HttpLimits) -> None:
        self.request = request
        self.site = site
        self.status = CLIENT_GONE
        self.bytes_sent = 0
        self.trouble: dict[str, str] = {}
        self._send = send
        self._connection = connection
        self._limits = limits

    async def run(self, *, has_room: bool) -> None:
        if self.request.method in ("GET", "HEAD"):
            # A read that no client waits for is cancelled; a request that may write runs to its end.
            task = asyncio.current_task()
            assert task is not None
            self._connection.on_lost = task.cancel  # type: ignore[assignment]  # whose result nobody needs
        try:
            await self._send_answer(await self._answer(has_room=has_room))
        except _ClientGone:
            self.status = CLIENT_GONE
        except asyncio.CancelledError:
            if not self._connection.is_lost:
                self.trouble = {"reason": "the server closed"}
                self._connection.cut()
            self.status = CLIENT_GONE
        finally:
            self._connection.on_lost = None

    async def _answer(self, *, has_room: bool) -> Response:
        try:
            if not has_room:
                raise Overloaded(f"{self._limits.requests_max} requests are in flight already")
            route = self.site.routes.find(self.request)
            seconds = (self._limits.answer_ms if route.answer_ms is None else route.answer_ms) / 1000
            if not seconds:
                return await route.handler(self.request)
            return await self._answer_within(route, seconds)
        except PenstockError as error:
            return self._render(error)
        except Exception as error:
            return self._render(defect("http", error, request=self.request.id))

    async def _answer_within(self, route: Route, seconds: float) -> Response:
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await route.handler(self.request)
        except TimeoutError:
            if not limit.expired():
                raise
            raise DeadlineExceeded(f"the server did not answer within {seconds:g} s") from None

    def _render(self, error: PenstockError) -> Response:
        status = status_of(error)
        self.trouble = {"error": error.code, "reason": error.message}
        response = self.site.render(self.request, error, status)
        if status == 503:
            response.headers.setdefault("retry-after", "1")
        if status == 405:
            response.headers.setdefault("allow", ", ".join(error.details.get("allow", ())))
        return response

    async def _send_answer(self, response: Response) -> None:
        body = response.body
        stream = None if isinstance(body, bytes | bytearray | memoryview) else body
        try:
            self._check_connected()
            self.status = response.status
            length = response.length if stream is not None else len(cast("Bytes", body))
            if self.request.method == "HEAD" and response.length is not None:
                length = response.length
            await self._send_head(response, length)
            if stream is not None and self.request.method != "HEAD":
                await self._send_stream(stream, length)
            else:
                await self._send_body(b"" if stream is not None else cast("Bytes", body), more=False)
        finally:
            if (close := getattr(stream, "aclose", None)) is not None:
                await close()

    async def _send_head(self, response: Response, length: int | None) -> None:
        headers = [(name.encode("latin-1"), _header_value(value)) for name, value in response.headers.items()]
        headers.append((b"x-request-id", self.request.id.encode()))
        if length is not None and response.status not in (204, 304):
            headers.append((b"content-length", b"%d" % length))
        if self.request.awaits_continue and not self.request.is_body_read:
            # The client has not sent its body, and now will not: its next bytes must not be taken for it.
            headers.append((b"connection", b"close"))
        await self._send({"type": "http.response.start", "status": response.status, "headers": headers})

    async def _send_stream(self, stream: AsyncIterator[Bytes], length: int | None) -> None:
        """A stream which fails, or is not as long as was said, ends the connection: the client must not take it."""
        left = length
        try:
            async for chunk in stream:
                if left is not None:
                    left -= len(chunk)
                    if left < 0:
                        raise InternalError("the stream is longer than the answer's head said")
                await self._send_body(chunk, more=True)
            if left:
                raise InternalError(f"the stream ended {left} bytes early")
        except (PenstockError, OSError) as error:
            self.trouble = {"error": getattr(error, "code", "os"), "reason": f"the answer was cut: {error}"}
            self._connection.cut()
            return
        await self._send_body(b"", more=False)

    async def _send_body(self, chunk: Bytes, *, more: bool) -> None:
        self._check_connected()
        await self._send({"type": "http.response.body", "body": chunk, "more_body": more})
        if self.request.method != "HEAD":
            self.bytes_sent += len(chunk)

    def _check_connected(self) -> None:
        # A closing transport takes everything at once and reports nothing: a stream would run without end.
        if self._connection.is_closing:
            raise _ClientGone


_FORBIDDEN = re.compile(rb"[\x00-\x1f\x7f]")


def _header_value(value: str) -> bytes:
    """Latin-1, without what would end the header: a handler may pass on what a client chose."""
    return _FORBIDDEN.sub(b"", value.encode("latin-1", "replace"))
