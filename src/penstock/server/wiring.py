"""From the configuration to how a process listens and dials: what every role of the program shares."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.config import Config
from penstock.plumbing.config.values import Address
from penstock.plumbing.wire.limits import WireLimits
from penstock.plumbing.wiring.options import fields_from, wire_tls
from penstock.plumbing.wiring.wiring import PEER_LIMITS, Wiring
from penstock.server.session import Session

__all__ = ["metrics_endpoint", "parse_address", "wiring_of"]


def parse_address(text: str, flag: str) -> Address:
    try:
        return Address.read(text)
    except ValueError as error:
        raise InvalidArgument(f"{flag} {text}: expected {error}") from None


def wiring_of(session: Session, listen: str | None = None) -> Wiring:
    """Return this process's address (by flag or `wire.listen`), its token, TLS and limits."""
    config = session.effective.config
    address = parse_address(listen, "--listen") if listen is not None else config.wire.listen
    token = config.wire.token.reveal() if config.wire.token is not None else None
    tls = wire_tls(config.tls)
    advertise = config.server.advertise
    return Wiring(
        address.host, address.port, token, tls, tls, _limits(config), advertise=advertise, health=session.health
    )


def _limits(config: Config) -> WireLimits:
    """Return the configured limits, with the defaults of links between nodes."""
    asked, plain = fields_from(config.wire, WireLimits), WireLimits()
    chosen = {
        name: value if value != getattr(plain, name) else getattr(PEER_LIMITS, name) for name, value in asked.items()
    }
    return WireLimits(**chosen)


@asynccontextmanager
async def metrics_endpoint(session: Session) -> AsyncIterator[None]:
    """The Prometheus endpoint, if one is configured."""
    listen = session.effective.config.metrics.listen
    if listen is None:
        yield
        return
    from penstock.plumbing.process.metrics_http import MetricsServer  # and with it a library few commands need

    token = session.effective.config.wire.token
    async with MetricsServer(listen, session.health, token.reveal() if token is not None else ""):
        yield
