"""What the commands of journals share: the client, and the flags that name its brokers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from penstock.journals.client.journal import Journals
from penstock.server.session import Session
from penstock.server.targets import addresses_of
from penstock.server.wiring import wiring_of

__all__ = ["AtBrokers", "Name", "journals_of"]

AtBrokers = Annotated[
    tuple[str, ...],
    Parameter(name="--broker", help="Broker to contact; may be repeated. Default: the local one.", metavar="HOST:PORT"),
]
Name = Annotated[str, Parameter(help="The journal's name.", metavar="NAME")]


@asynccontextmanager
async def journals_of(
    session: Session, brokers: tuple[str, ...], folder: Path, *, direct: bool = False
) -> AsyncIterator[Journals]:
    """Connect to the brokers that the flags name, or to the local ones."""
    session.start_logs(quiet=True)
    wiring = wiring_of(session)
    addresses = addresses_of(session, brokers, folder, "broker", "--broker")
    async with Journals(addresses, token=wiring.token, tls=wiring.client_tls, direct=direct) as journals:
        yield journals
