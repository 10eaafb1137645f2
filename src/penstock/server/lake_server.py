"""What `penstock lake serve` runs: one member of the lake, its queue, its store, its HTTP server."""

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from penstock.journals.client.journal import Journals
from penstock.kernel.errors import ConfigError, DataMissing, Unavailable
from penstock.kernel.formats import CREDENTIALS
from penstock.keyspace.shell import open_keyspace
from penstock.lake.client.lake_place import CREDENTIALS_FILE
from penstock.lake.member.lake_journal_queue import JournalQueue
from penstock.lake.member.queue import Queue
from penstock.lake.member.quorum_queue import QuorumQueue
from penstock.lake.member.services.health import add_lake_checks
from penstock.lake.member.services.lake_service import serving_lake
from penstock.lake.rest.credentials import Credentials
from penstock.plumbing.config import Config
from penstock.plumbing.files.sealed import create_sealed, read_sealed
from penstock.plumbing.http.server import HttpServer
from penstock.plumbing.objects import open_store
from penstock.plumbing.wiring.options import object_store_url, store_options, wal_options, wire_tls
from penstock.quorum.client.quorum import QuorumLog
from penstock.quorum.operator.alone import quorum_alone
from penstock.server.health_site import health_site
from penstock.server.lake_site import lake_app
from penstock.server.session import Session
from penstock.server.targets import addresses_of, quorum_log_of
from penstock.server.wiring import metrics_endpoint, parse_address, wiring_of

__all__ = ["lake_credentials", "serve_lake"]

LAKE_CHECKPOINTS: Final = "objects/_penstock/lake"


async def serve_lake(
    session: Session,
    listen: str | None,
    name: str,
    shard: str,
    nodes: tuple[str, ...],
    cluster: Path,
    *,
    is_alone: bool,
    journal: str = "",
    brokers: tuple[str, ...] = (),
) -> None:
    """Serve until cancelled."""
    config = session.effective.config
    address = parse_address(listen, "--listen") if listen is not None else config.lake.listen
    credentials, made_in = lake_credentials(session)
    url = object_store_url(config)
    secret = credentials.secret_access_key
    async with (
        _queue_of(session, shard, nodes, cluster, journal, brokers, is_alone=is_alone) as queue,
        open_store(url, store_options(config.objectstore)) as store,
        serving_lake(queue, store, url, secret=secret, shard=journal or shard, name=name) as lake,
        await HttpServer.start(
            lake_app(lake, credentials, url, first_sites=[health_site(session.health, _token(session))]),
            address.host,
            address.port,
            tls=wire_tls(config.tls),
            name="lake",
        ) as server,
        metrics_endpoint(session),
        AsyncExitStack() as stack,
    ):
        stack.callback(add_lake_checks(session.health, lake.engine.host))
        session.say(f"the lake serves REST and S3 on {server.url}, with its objects in {url}")
        if made_in is not None:
            session.say(f"access key {credentials.access_key_id}; its secret is in {made_in}")
        # A member that cannot continue ends its process: after a restart it begins with the newest checkpoint.
        reason = await lake.engine.host.ended()
        raise Unavailable(f"the member has stopped: {reason}", next_step="start it again")


def _token(session: Session) -> str:
    token = session.effective.config.wire.token
    return token.reveal() if token is not None else ""


@asynccontextmanager
async def _queue_of(
    session: Session,
    shard: str,
    nodes: tuple[str, ...],
    cluster: Path,
    journal: str,
    brokers: tuple[str, ...],
    *,
    is_alone: bool,
) -> AsyncIterator[Queue]:
    if journal:
        wiring = wiring_of(session)
        addresses = addresses_of(session, brokers, cluster, "broker", "--broker")
        async with Journals(addresses, token=wiring.token, tls=wiring.client_tls) as journals:
            yield JournalQueue(journals, journal)
        return
    if not is_alone:
        async with quorum_log_of(session, shard, nodes, cluster) as log:
            yield QuorumQueue(log)
        return
    config = session.effective.config
    folder = config.data.folder.absolute()
    async with (
        await open_keyspace(f"embedded://{quote(str(folder))}/keyspace") as keyspace,
        quorum_alone(folder, keyspace, shard, wal=wal_options(config.wal)) as alone,
        QuorumLog([alone.node], shard) as log,
    ):
        yield QuorumQueue(log)


def _has_lake(config: Config) -> bool:
    """Return whether the data folder has a lake. Keys for a store elsewhere may be in another folder, too."""
    checkpoints = config.data.folder / LAKE_CHECKPOINTS
    return not config.objectstore.url and checkpoints.is_dir() and any(checkpoints.iterdir())


def lake_credentials(session: Session) -> tuple[Credentials, Path | None]:
    """Return the configured keys, or those of the data folder, which are made if they do not exist, and their file."""
    config = session.effective.config.lake
    if config.access_key_id and config.secret_access_key:
        return Credentials(config.access_key_id.reveal(), config.secret_access_key.reveal()), None
    if config.access_key_id or config.secret_access_key:
        raise ConfigError("lake.access_key_id and lake.secret_access_key belong together", next_step="set both")
    path = session.effective.config.data.folder / CREDENTIALS_FILE
    if not path.exists():
        if _has_lake(session.effective.config):
            raise DataMissing(
                f"{path} is missing, and the lake in {path.parent} has data",
                next_step=f"restore {path}, or choose new keys: set lake.access_key_id and lake.secret_access_key",
                file=str(path),
            )
        made = {"access_key_id": f"AKIA{secrets.token_hex(8).upper()}", "secret_access_key": secrets.token_urlsafe(30)}
        create_sealed(CREDENTIALS, path, made, mode=0o600)
    found = read_sealed(CREDENTIALS, path) or {}
    try:
        return Credentials(found["access_key_id"], found["secret_access_key"]), path
    except KeyError as error:
        raise ConfigError(f"{path} has no {error}", next_step=f"restore {path}, or set lake.access_key_id") from None
