"""Whom a command talks to: addresses by flag, by configuration, or those of the local cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from penstock.kernel.errors import NotFound
from penstock.plumbing.process.running import running_in
from penstock.server.session import Session
from penstock.server.wiring import parse_address, wiring_of

if TYPE_CHECKING:
    from penstock.quorum.client.operator import Operators
    from penstock.quorum.client.quorum import QuorumLog
    from penstock.server.cluster.local import Role

__all__ = [
    "CLUSTER_FOLDER",
    "AtFolder",
    "AtNodes",
    "AtOperators",
    "Shard",
    "addresses_of",
    "operators_of",
    "quorum_log_of",
]

CLUSTER_FOLDER: Final = Path("penstock-cluster")

AtFolder = Annotated[
    Path, Parameter(name="--cluster", help="The local cluster's folder.", metavar="FOLDER", show_default=True)
]
AtNodes = Annotated[
    tuple[str, ...],
    Parameter(name="--node", help="A node to ask. Default: the local cluster's.", metavar="HOST:PORT"),
]
AtOperators = Annotated[
    tuple[str, ...],
    Parameter(name="--operator", help="An operator to ask. Default: the local cluster's.", metavar="HOST:PORT"),
]
Shard = Annotated[str, Parameter(help="The shard.", metavar="NAME")]


def addresses_of(session: Session, given: tuple[str, ...], folder: Path, role: "Role", flag: str) -> list[str]:
    """Whom to ask: those given; or what `penstock up` runs here; or all of that role in the local cluster."""
    if given:
        return [str(parse_address(address, flag)) for address in given]
    up = running_in(session.effective.config.data.folder) if folder == CLUSTER_FOLDER else None
    if up is not None:
        return [{"node": up.node, "operator": up.operator, "broker": up.broker}[role]]
    from penstock.server.cluster.local import LocalCluster

    try:
        return LocalCluster.load(folder).addresses(role)
    except NotFound:
        raise NotFound(
            f"there is no cluster in {folder}, and no {flag} was given",
            next_step=f"run penstock up, penstock cluster up, or say where with {flag} HOST:PORT",
        ) from None


@asynccontextmanager
async def quorum_log_of(
    session: Session, shard: str, nodes: tuple[str, ...], folder: Path
) -> "AsyncIterator[QuorumLog]":
    from penstock.quorum.client.quorum import QuorumLog

    session.start_logs(quiet=True)
    wiring = wiring_of(session)
    addresses = addresses_of(session, nodes, folder, "node", "--node")
    async with QuorumLog(addresses, shard, token=wiring.token, tls=wiring.client_tls) as log:
        yield log


@asynccontextmanager
async def operators_of(session: Session, given: tuple[str, ...], folder: Path) -> "AsyncIterator[Operators]":
    from penstock.quorum.client.operator import Operators

    session.start_logs(quiet=True)
    wiring = wiring_of(session)
    addresses = addresses_of(session, given, folder, "operator", "--operator")
    async with Operators(addresses, token=wiring.token, tls=wiring.client_tls) as operators:
        yield operators
