"""App: chooses the site of a request, runs its handler, sends the answer, and accounts for it.

Sites share a port: the first that claims a request answers it (the S3 gateway claims what carries an AWS signature).
What always holds: every request gets exactly one answer or a closed connection; every error is rendered by its site,
and one that is not ours is logged with its trace and shown as `internal`; no header or query reaches the log.
"""

import asyncio
import logging
from collections.abc import Sequence
from email.utils import formatdate

from penstock.kernel.errors import NotFound, PenstockError
from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.problems import CLIENT_GONE
from penstock.plumbing.http.protocol.connection import HttpConnection
from penstock.plumbing.http.protocol.exchange import Exchange
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.router import HttpRoute
from penstock.plumbing.http.site import Finder, Site
from penstock.plumbing.http.statistics import REQUEST_SECONDS, HttpStatistics
from penstock.plumbing.ports.ports import Ports, system_ports
from penstock.plumbing.process.logs import get_logger

__all__ = ["App", "Finder", "Site"]

log = get_logger()


class App:
    """The application of one server."""

    def __init__(self, sites: Sequence[Site], limits: HttpLimits | None = None, ports: Ports | None = None) -> None:
        ports = ports or system_ports()
        self._clock = ports.clock
        self._sites = tuple(sites)
        self.limits = limits or HttpLimits()
        self.statistics = HttpStatistics()
        self.tasks: set[asyncio.Task[None]] = set()  # one for each request in flight
        self.date = ""  # the header of all answers
        self._id_prefix = ports.chance.token(4).hex()
        self._seconds = {site.name: REQUEST_SECONDS.labels(site.name) for site in sites}
        self._no_site = Site("none", _Nothing())
        self._log = log.bind()  # once, as that takes longer than to find that a line is not wanted
        self.set_date()

    def set_date(self) -> None:
        """Set the date of answers to now; called every second."""
        self.date = f"date: {formatdate(self._clock.time_ns() / 1e9, usegmt=True)}\r\n"

    def number(self) -> str:
        """Return the id of the next request."""
        return f"{self._id_prefix}{self.statistics.requests_read:08x}"

    def serve(self, connection: HttpConnection, request: Request) -> None:
        """Begin to answer a request."""
        task = asyncio.get_running_loop().create_task(self._run(connection, request))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _run(self, connection: HttpConnection, request: Request) -> None:
        started = self._clock.perf_counter()
        statistics = self.statistics
        statistics.requests += 1
        statistics.requests_now += 1
        exchange = Exchange(request, self._site_of(request), connection)
        try:
            await exchange.run(self.date, has_room=statistics.requests_now <= self.limits.requests_max)
        finally:
            statistics.requests_now -= 1
            self._account(exchange, self._clock.perf_counter() - started)

    def _site_of(self, request: Request) -> Site:
        try:
            for site in self._sites:
                if site.claims(request):
                    return site
        except PenstockError:
            pass  # a site could not even read the request: no site's client sends such
        return self._no_site

    def _account(self, exchange: Exchange, seconds: float) -> None:
        statistics, request, status = self.statistics, exchange.request, exchange.status
        statistics.bytes_received += request.bytes_read
        statistics.bytes_sent += exchange.bytes_sent
        if status == CLIENT_GONE:
            statistics.clients_gone += 1
        elif status >= 500:
            statistics.answers_5xx += 1
        elif status >= 400:
            statistics.answers_4xx += 1
        observed = self._seconds.get(exchange.site.name)
        if observed is not None:
            observed.observe(seconds)
        self._write_line(exchange, seconds)

    def _write_line(self, exchange: Exchange, seconds: float) -> None:
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
    def find(self, request: Request) -> HttpRoute:
        raise NotFound(f"nothing is at {request.raw_path[:200]}")
