"""`penstock broker`: run one broker of journals."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from penstock.cli.durations import duration
from penstock.cli.noun import InSession, noun
from penstock.journals.broker.config import BrokerConfig
from penstock.kernel.errors import InvalidArgument
from penstock.keyspace.core.allocator.layout import MemberId
from penstock.plumbing.wiring.wiring import Wiring
from penstock.server.session import Session
from penstock.server.wiring import metrics_endpoint, parse_address, wiring_of

if TYPE_CHECKING:
    from penstock.journals.broker.process import RunningBroker

__all__ = ["app"]

app = noun(
    "broker",
    "Run one broker: it serves the journals which the allocator assigns to it.",
    try_this=(
        "penstock broker --id b1 --keyspace data/keyspace --listen 127.0.0.1:7201",
        "penstock cluster up --brokers 3      a whole cluster on this machine",
    ),
)
LEASE_MS_MIN = 1_000


@app.default
async def run(
    *,
    id: Annotated[str, Parameter(help="The broker's name, unique in its zone.", metavar="NAME")],
    zone: Annotated[
        str, Parameter(help="What fails together: replicas are spread over zones.", metavar="ZONE")
    ] = "local",
    folder: Annotated[
        Path | None, Parameter(help="Where its spools are. Default: NAME in the data folder.", metavar="FOLDER")
    ] = None,
    keyspace: Annotated[
        str | None,
        Parameter(
            help="The KeySpace: a folder, or etcd://HOST:PORT,… Default: keyspace in the data folder.",
            metavar="FOLDER|URL",
        ),
    ] = None,
    listen: Annotated[
        str | None, Parameter(help="Where it listens. Default: wire.listen.", metavar="HOST:PORT")
    ] = None,
    http: Annotated[
        str | None, Parameter(help="Where it serves journals over plain HTTP. Default: nowhere.", metavar="HOST:PORT")
    ] = None,
    store: Annotated[
        str, Parameter(help="The fragment store of journals whose spec names none. Empty: they have none.")
    ] = "",
    max_journals: Annotated[int, Parameter(help="Serve at most N journals.", metavar="N")] = BrokerConfig().limit,
    lease: Annotated[float, duration("Other brokers take over after this silence.")] = BrokerConfig().lease_ms / 1_000,
    session: InSession,
) -> None:
    """Run one broker until SIGTERM or Ctrl-C. Others then take over its journals, and it stores its remaining bytes."""
    from penstock.journals.broker.process import BROKER_LIMITS, running_broker  # what only a server needs
    from penstock.plumbing.files.data_folder import enter_folder
    from penstock.plumbing.process.run import let_senders_finish
    from penstock.server.keyspaces import open_keyspace

    let_senders_finish()
    session.start_logs()
    lease_ms = round(lease * 1_000)
    if lease_ms < LEASE_MS_MIN:
        raise InvalidArgument(f"--lease {lease_ms}ms: expected at least {LEASE_MS_MIN}ms")
    settings = session.effective.config
    bound = settings.journal.unstored_bytes_max or 0
    config = BrokerConfig(lease_ms=lease_ms, limit=max_journals, default_store=store, unstored_bytes_max=bound)
    data = settings.data.folder
    where = keyspace if keyspace is not None else str(data / "keyspace")
    wiring = msgspec.structs.replace(wiring_of(session, listen), limits=BROKER_LIMITS)
    member, folder = MemberId(zone, id), folder or data / id
    enter_folder(folder)
    async with (
        await open_keyspace(_url(where), wiring) as space,
        running_broker(member, folder, space, wiring, config=config) as broker,
        _http_gateway(session, http, broker, wiring),
        metrics_endpoint(session),
    ):
        session.say(f"broker {id} serves on {broker.address}, with the KeySpace in {where}")
        await broker.until_told()


@contextlib.asynccontextmanager
async def _http_gateway(
    session: Session, listen: str | None, broker: "RunningBroker", wiring: Wiring
) -> AsyncIterator[None]:
    """Journals over plain HTTP, if they are wanted."""
    if listen is None:
        yield
        return
    from penstock.journals.gateway import serving_journals

    address = parse_address(listen, "--http")
    async with serving_journals(
        [broker.address],
        address.host,
        address.port,
        token=wiring.token,
        client_tls=wiring.client_tls,
        server_tls=wiring.server_tls,
    ) as server:
        session.say(f"journals over HTTP on {server.url}")
        yield


def _url(where: str) -> str:
    """A folder is an embedded KeySpace."""
    return where if "://" in where else Path(where).absolute().as_uri().replace("file:", "embedded:", 1)
