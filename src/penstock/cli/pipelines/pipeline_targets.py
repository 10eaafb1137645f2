"""Where a pipeline's brokers, lake and Spark are: what its commands have in common."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from penstock.kernel.errors import InvalidArgument, NotFound, Refused
from penstock.server.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.pipelines.running.settings import RunSettings
    from penstock.spark.pipelines.user_code import UserCode

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
    from penstock.spark.connection import wire_options

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
    settings: "RunSettings | None" = None,
    *,
    master: str = "",
    remote: str = "",
    code: "UserCode | None" = None,
) -> "Iterator[SparkSession]":
    """Start a Spark whose own log is a file in the data folder, and name the file if something fails.

    An error of Spark's becomes its cause: one of the user's code with its line.
    """
    from pyspark.errors import PySparkException

    from penstock.spark.pipelines.user_code import UserCode, cause_of
    from penstock.spark.session import spark_session

    log = session.effective.config.data.folder / SPARK_LOG
    if settings is not None:
        master, remote = settings.master, settings.remote
    conf = None if settings is None else settings.conf
    try:
        with spark_session(name, master=master, remote=remote, settings=conf, log=log) as spark:
            yield spark
    except Exception as error:
        if log.is_file():
            session.say(f"Spark's own log: {log}")
        if not isinstance(error, PySparkException):
            raise
        cause = cause_of(str(error), code or UserCode())
        raise (InvalidArgument if cause.where else Refused)(str(cause)) from error
