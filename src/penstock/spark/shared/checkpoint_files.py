"""The files of a checkpoint, wherever Spark keeps it: a local folder, or any URL that Spark can open. spark-2.md P3.

A URL goes to Spark unchanged. Its files are read by Spark's own file systems: through the JVM of the session, or behind
Spark Connect by a query. Only a path without a scheme, and one of `file:`, is a folder of this machine.
"""

import re
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.kernel.errors import ConfigError, InvalidArgument, PreconditionFailed
from penstock.spark.versions import hadoop_version

__all__ = ["CheckpointFiles", "check_opens", "checked_location", "files_at", "is_local", "local_folder"]

PACKAGES: Final = {"s3a": "hadoop-aws", "abfs": "hadoop-azure", "abfss": "hadoop-azure"}
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


class CheckpointFiles(Protocol):
    """A checkpoint's folder."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder of it."""

    def set_aside(self, suffix: str) -> str:
        """Rename the folder, and return its new name."""


def checked_location(text: str) -> str:
    """Return a location as Spark takes it. A path is made absolute; a URL stays as it is.

    >>> checked_location("s3a://bucket/checkpoints")
    's3a://bucket/checkpoints'
    """
    scheme = _SCHEME.match(text)
    if scheme is None:
        return str(Path(text).absolute())
    if scheme[1].lower() == "s3":
        raise InvalidArgument(f"{text}: Spark opens no s3: URL; write s3a://BUCKET/FOLDER")
    if scheme[1].lower() != "file" and not text[scheme.end() :].startswith("//"):
        raise InvalidArgument(f"{text}: a URL has two slashes, like s3a://bucket/checkpoints")
    return text


def local_folder(location: str | None) -> Path | None:
    """Return the folder of a location on this machine; None for one elsewhere."""
    if not location:
        return None
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return None
    return Path(unquote(parts.path)) if parts.scheme else Path(location)


def is_local(location: str) -> bool:
    return local_folder(location) is not None


def files_at(location: str | None, spark: SparkSession | None = None) -> CheckpointFiles | None:
    """Return the files of a checkpoint; None if they cannot be read without a session."""
    folder = local_folder(location)
    if folder is not None:
        return _Folder(folder)
    if not location or spark is None:
        return None
    return _Hadoop(spark, location) if getattr(spark, "_jvm", None) is not None else _Connected(spark, location)


def check_opens(spark: SparkSession, location: str) -> None:
    """Refuse a location whose scheme the session cannot open, with the package that opens it."""
    if is_local(location) or getattr(spark, "_jvm", None) is None:
        return
    try:
        _Hadoop(spark, location).read("metadata")
    except Py4JJavaError as error:
        scheme = urlsplit(location).scheme
        why = str(error.java_exception.toString()).partition("\n")[0]
        package = PACKAGES.get(scheme, "")
        line = f"--package org.apache.hadoop:{package}:{hadoop_version()}" if package and "not found" in why else ""
        raise ConfigError(f"Spark cannot open the checkpoint {location}: {why}", next_step=line) from None


class _Folder:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except OSError:
            return None

    def names(self, folder: str) -> list[str]:
        place = self._folder / folder
        return [each.name for each in place.iterdir()] if place.is_dir() else []

    def set_aside(self, suffix: str) -> str:
        new = self._folder.with_name(self._folder.name + suffix)
        self._folder.rename(new)
        return str(new)


class _Hadoop:
    """A folder that the JVM of a session opens."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._jvm: Any = spark._jvm
        self._configuration: Any = spark._jsparkSession.sessionState().newHadoopConf()
        self._location = location.rstrip("/")

    def _path(self, name: str = "") -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._location + name)

    def read(self, name: str) -> bytes | None:
        path = self._path(f"/{name}")
        files = path.getFileSystem(self._configuration)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def names(self, folder: str) -> list[str]:
        path = self._path(f"/{folder}")
        files = path.getFileSystem(self._configuration)
        return [each.getPath().getName() for each in files.listStatus(path)] if files.exists(path) else []

    def set_aside(self, suffix: str) -> str:
        new = self._path(suffix)
        if not new.getFileSystem(self._configuration).rename(self._path(), new):
            raise PreconditionFailed(f"{self._location} could not be renamed to {new.toString()}")
        return str(new.toString())


class _Connected:
    """A folder that a Spark Connect server opens: its files are rows of queries."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self._location = location.rstrip("/")

    def read(self, name: str) -> bytes | None:
        try:
            found = self._spark.read.text(f"{self._location}/{name}", wholetext=True).collect()
        except PySparkException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return None
            raise
        return "".join(str(row[0]) for row in found).encode()

    def names(self, folder: str) -> list[str]:
        try:
            found = self._spark.read.format("binaryFile").load(f"{self._location}/{folder}").select("path").collect()
        except PySparkException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return []
            raise
        return [str(row[0]).rpartition("/")[2] for row in found]

    def set_aside(self, suffix: str) -> str:
        raise InvalidArgument(f"{self._location}: rename it to another name yourself: Spark Connect cannot")
