"""Where a pipeline's brokers, lake and Spark are: what its commands have in common."""

from typing import Annotated

from cyclopts import Parameter

from penstock.kernel.errors import NotFound
from penstock.server.session import Session

__all__ = ["AtBrokers", "Master", "Remote", "lake_options"]

AtBrokers = Annotated[
    tuple[str, ...],
    Parameter(name="--broker", help="A broker to ask. Default: the local cluster's.", metavar="HOST:PORT"),
]
Master = Annotated[str, Parameter(help="A Spark master, like spark://host:7077. Default: this machine.", metavar="URL")]
Remote = Annotated[str, Parameter(help="A Spark Connect server, like sc://host:15002.", metavar="URL")]


def lake_options(session: Session, url: str | None) -> dict[str, str]:
    from penstock.spark.tables.lake_access import access_from

    try:
        return access_from({"lake": url} if url else {}, session.effective).options
    except NotFound:
        return {}  # its flows may need no lake
