"""Where a pipeline's brokers, lake and Spark are: what its commands have in common."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from penstock.kernel.errors import NotFound
from penstock.server.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["AtBrokers", "Master", "Remote", "journal_options", "lake_options", "spark_for"]

SPARK_LOG: Final = "spark.log"

AtBrokers = Annotated[
    tuple[str, ...],
    Parameter(name="--broker", help="A broker to ask. Default: the local cluster's.", metavar="HOST:PORT"),
]
Master = Annotated[str, Parameter(help="A Spark master, like spark://host:7077. Default: this machine.", metavar="URL")]
Remote = Annotated[str, Parameter(help="A Spark Connect server, like sc://host:15002.", metavar="URL")]


def journal_options(session: Session, addresses: list[str]) -> dict[str, str]:
    """Return where brokers are, with the token and the TLS of this command, as options of Spark's sources and sinks."""
    from penstock.spark.shared.connection import wire_options

    return {"brokers": ",".join(addresses), **wire_options(session.effective.config)}


def lake_options(session: Session, url: str | None) -> dict[str, str]:
    from penstock.spark.tables.lake_access import access_from

    try:
        return access_from({"lake": url} if url else {}, session.effective).options
    except NotFound:
        return {}  # its flows may need no lake


@contextmanager
def spark_for(
    session: Session,
    name: str,
    *,
    master: str = "",
    remote: str = "",
    folder: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> "Iterator[SparkSession]":
    """Start a Spark whose own log is a file in a folder (the data folder), and name the file if something fails."""
    from penstock.spark.session import spark_session

    log = (folder or session.effective.config.data.folder) / SPARK_LOG
    try:
        with spark_session(name, master=master, remote=remote, settings=settings, log=log) as spark:
            yield spark
    except Exception:
        if log.is_file():
            session.say(f"Spark's own log: {log}")
        raise
