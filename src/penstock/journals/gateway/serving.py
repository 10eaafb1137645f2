"""A gateway which runs: a client of some brokers, and an HTTP server in front of it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from penstock.journals.client.journal import Journals
from penstock.journals.gateway.gateway import JournalGateway
from penstock.plumbing.config.secret import Secret
from penstock.plumbing.http.app import App
from penstock.plumbing.http.server import HttpServer
from penstock.plumbing.wire.tls import Tls

__all__ = ["serving_journals"]


@asynccontextmanager
async def serving_journals(
    brokers: Sequence[str],
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    token: str | None = None,
    client_tls: Tls | None = None,
    server_tls: Tls | None = None,
) -> AsyncIterator[HttpServer]:
    """Serve the journals of these brokers. The token is what brokers ask for; HTTP clients must bring the same."""
    async with Journals(brokers, token=token, tls=client_tls) as journals:
        gateway = JournalGateway(journals, token=Secret(token) if token is not None else None)
        async with await HttpServer.start(App([gateway.site()]), host, port, tls=server_tls, name="journal") as server:
            yield server
