"""Where the consumers' topology is, and which group is meant: by flag, or what there is on this machine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from cyclopts import Parameter

from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.keyspace.shell.port import KeySpace
from penstock.server.session import Session
from penstock.server.targets import CLUSTER_FOLDER
from penstock.server.wiring import wiring_of

if TYPE_CHECKING:
    from penstock.consumers.client.shards import Shards

__all__ = ["AtKeySpace", "InGroup", "groups_of", "keyspace_of", "keyspace_url", "shards_of"]

AtKeySpace = Annotated[
    str | None,
    Parameter(
        name="--keyspace",
        help="The KeySpace: a folder, or etcd://HOST:PORT,… Default: the local cluster's, or that of penstock up.",
        metavar="FOLDER|URL",
    ),
]
InGroup = Annotated[
    str | None, Parameter(name="--group", help="The group of consumers. Default: the only one.", metavar="NAME")
]


def keyspace_url(session: Session, given: str | None, folder: Path) -> str:
    """Given; or the local cluster's; or that of the data folder."""
    if given is not None and "://" in given:
        return given
    if given is not None:
        where = Path(given)
    elif (folder / "cluster.json").exists():
        where = folder / "keyspace"
    elif folder == CLUSTER_FOLDER:
        where = session.effective.config.data.folder / "keyspace"
    else:
        raise NotFound(
            f"there is no cluster in {folder}", next_step="run penstock cluster up, or say where with --keyspace"
        )
    return f"embedded://{quote(str(where.absolute()))}"


@asynccontextmanager
async def keyspace_of(session: Session, given: str | None, folder: Path) -> AsyncIterator[KeySpace]:
    from penstock.server.keyspaces import open_keyspace

    async with await open_keyspace(keyspace_url(session, given, folder), wiring_of(session)) as keyspace:
        yield keyspace


@asynccontextmanager
async def shards_of(session: Session, group: str | None, given: str | None, folder: Path) -> "AsyncIterator[Shards]":
    from penstock.consumers.client.shards import Shards

    session.start_logs(quiet=True)
    async with keyspace_of(session, given, folder) as keyspace:
        yield Shards(keyspace, group or await _only_group(keyspace), wiring_of(session))


async def groups_of(keyspace: KeySpace) -> list[str]:
    """Every group of consumers which has shards."""
    from penstock.consumers.client.definition import ROOT, groups_in

    return groups_in(entry.key for entry in (await keyspace.range(f"{ROOT}/")).entries)


async def _only_group(keyspace: KeySpace) -> str:
    groups = await groups_of(keyspace)
    if not groups:
        raise NotFound("there are no shards", next_step="penstock shards apply FILE")
    if len(groups) > 1:
        raise InvalidArgument(f"there are several groups: {', '.join(groups)}; choose one with --group")
    return groups[0]
