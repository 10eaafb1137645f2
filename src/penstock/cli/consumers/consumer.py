"""`penstock consumer`: run one process of a consumer application."""

import importlib
import importlib.util
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from penstock.cli.consumers.consumer_targets import AtKeySpace, groups_of, keyspace_of
from penstock.cli.durations import duration
from penstock.cli.noun import InSession, examples, noun
from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.keyspace.core.allocator.layout import MemberId
from penstock.keyspace.shell.port import KeySpace
from penstock.server.targets import CLUSTER_FOLDER, AtFolder, addresses_of
from penstock.server.wiring import metrics_endpoint, wiring_of

if TYPE_CHECKING:
    from penstock.consumers.stores.application import Application

__all__ = ["app", "load_application"]

app = noun(
    "consumer",
    "Run a consumer application: exactly once, in as many processes as you start.",
    try_this=(
        "penstock up                           in another terminal",
        "penstock journals apply examples/wordcount/journals.yaml",
        "penstock shards apply examples/wordcount/shards.yaml",
        "penstock consumer run examples/wordcount/wordcount.py",
    ),
)
LEASE_MS_MIN = 1_000


@app.command(
    help_epilogue=examples(
        "penstock consumer run examples/wordcount/wordcount.py",
        "penstock consumer run shop.consumers:Revenue --group revenue --id c2",
    )
)
async def run(
    application: Annotated[
        str, Parameter(help="A file or a module; after a colon a name in it, if it has several.", metavar="APP")
    ],
    /,
    *,
    id: Annotated[str, Parameter(help="The process's name, unique in its zone.", metavar="NAME")] = "c1",
    group: Annotated[
        str | None, Parameter(help="The group whose shards it runs. Default: the file's name.", metavar="NAME")
    ] = None,
    zone: Annotated[str, Parameter(help="What fails together.", metavar="ZONE")] = "local",
    folder: Annotated[
        Path | None,
        Parameter(help="Where stores with recovery logs work. Default: NAME in the data folder.", metavar="FOLDER"),
    ] = None,
    keyspace: AtKeySpace = None,
    broker: Annotated[
        tuple[str, ...],
        Parameter(name="--broker", help="A broker to ask. Default: the local cluster's.", metavar="HOST:PORT"),
    ] = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    listen: Annotated[
        str, Parameter(help="Where it answers `penstock shards`. Port 0: any.", metavar="HOST:PORT")
    ] = "127.0.0.1:0",
    max_shards: Annotated[int, Parameter(help="Run at most N shards.", metavar="N")] = 1_000,
    lease: Annotated[float, duration("Other processes take over after this silence.")] = 10.0,
    session: InSession,
) -> None:
    """Run until SIGTERM or Ctrl-C; then others take over its shards first."""
    from penstock.consumers.worker.process import ConsumerConfig, running_consumer  # what only a server needs
    from penstock.journals.client.journal import Journals

    session.start_logs()
    lease_ms = round(lease * 1_000)
    if lease_ms < LEASE_MS_MIN:
        raise InvalidArgument(f"--lease {lease_ms}ms: expected at least {LEASE_MS_MIN}ms")
    loaded, name = load_application(application)
    group = group or name
    data = session.effective.config.data.folder
    config = ConsumerConfig(group, lease_ms=lease_ms, limit=max_shards, folder=folder or data / f"{group}-{id}")
    wiring = wiring_of(session, listen)
    addresses = addresses_of(session, broker, cluster, "broker", "--broker")
    async with (
        Journals(addresses, token=wiring.token, tls=wiring.client_tls) as journals,
        keyspace_of(session, keyspace, cluster) as space,
        _with_shards(space, group),
        running_consumer(MemberId(zone, id), loaded, journals, space, config, wiring) as consumer,
        metrics_endpoint(session),
    ):
        session.say(f"consumer {id} of group {group} answers on {consumer.address}")
        await consumer.until_told()


@asynccontextmanager
async def _with_shards(space: KeySpace, group: str) -> AsyncIterator[None]:
    """Refuse a group without shards: its consumers would run, and consume nothing."""
    known = await groups_of(space)
    if group not in known:
        others = f"; groups with shards: {', '.join(known)}" if known else ""
        raise NotFound(f"group {group} has no shards{others}", next_step="penstock shards apply FILE")
    yield


def load_application(text: str) -> "tuple[Application[Any], str]":
    """The application in `FILE[:NAME]` or `MODULE[:NAME]`, and the name of its file."""
    from penstock.consumers.stores.application import Application

    place, _, name = text.partition(":")
    module = _module(place)
    stem = module.__name__.rpartition(".")[2]
    if name:
        return _made(getattr(module, name, None), text), stem
    own = [
        each
        for each in vars(module).values()
        if isinstance(each, Application)
        or (isinstance(each, type) and issubclass(each, Application) and each.__module__ == module.__name__)
    ]
    instances = [each for each in own if isinstance(each, Application)]
    found = instances or own
    if len(found) != 1:
        raise InvalidArgument(f"{place} has {len(found)} applications: say which, like {place}:NAME")
    return _made(found[0], text), stem


def _made(found: Any, text: str) -> "Application[Any]":
    from penstock.consumers.stores.application import Application

    if isinstance(found, type) and issubclass(found, Application):
        return found()
    if isinstance(found, Application):
        return found
    raise InvalidArgument(f"{text}: expected a class of penstock.Application, or what application_of made")


def _module(place: str) -> ModuleType:
    path = Path(place)
    if path.suffix != ".py":
        sys.path.insert(0, "")
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise InvalidArgument(f"there is no module {error.name}; a file's name ends in .py") from None
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise InvalidArgument(f"there is no file {place}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
