"""The source written in Java (`jvm/*.java`), as a jar which a session knows. Decision 603 says why there is one.

It is compiled when it is used first on a machine, by Janino, which is among Spark's own jars: no JDK is needed. The
jar's name is a hash of its ingredients (sources, Spark's version), and it is kept in the user's cache. What always
holds: a jar under its name is whole, because it is linked there when it is; who comes second, at the same time or
later, uses the first.
"""

import hashlib
import io
import os
import tempfile
import weakref
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

__all__ = ["CLASS", "add_jar", "has_jvm", "known_here", "make_jar"]

CLASS: Final = "penstock.spark.jvm.JournalSource"
SOURCES: Final = Path(__file__).parents[1] / "jvm"
JAVA_VERSION: Final = 8  # of what Janino writes; any Java runs it
_DATE: Final = (1980, 1, 1, 0, 0, 0)  # of files in the jar: the same sources are the same bytes

_added: "weakref.WeakSet[SparkSession]" = weakref.WeakSet()


def has_jvm(spark: SparkSession) -> bool:
    """Is its JVM this process's own? With Spark Connect it is not."""
    return getattr(spark, "_jvm", None) is not None


def add_jar(spark: SparkSession) -> None:
    """Make the source known to a session and to its executors."""
    if spark not in _added:
        path = str(make_jar(spark.sparkContext._gateway, spark.version)).replace("\\", "\\\\").replace("'", "\\'")
        spark.sql(f"ADD JAR '{path}'")
        _added.add(spark)


@contextmanager
def known_here(spark: SparkSession) -> Iterator[None]:
    """Classes of added jars are found: ADD JAR tells that to the one thread of the JVM which ran it."""
    state: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(state.sharedState().jarClassLoader())
    try:
        yield
    finally:
        thread.setContextClassLoader(before)


def make_jar(gateway: Any, version: str) -> Path:
    """Return the jar for this version of Spark: the kept one, or one compiled in the JVM of a gateway."""
    sources = {path.name: path.read_text() for path in sorted(SOURCES.glob("*.java"))}
    named = hashlib.sha256(repr((version, JAVA_VERSION, sources)).encode()).hexdigest()[:24]
    path = _folder() / f"journal-source-{named}.jar"
    if not _is_whole(path):
        _put(path, _zipped(_compiled(gateway, sources)))
    return path


def _compiled(gateway: Any, sources: dict[str, str]) -> dict[str, bytes]:
    """Class files, by their paths."""
    jvm = gateway.jvm
    janino, util = jvm.org.codehaus.janino, jvm.org.codehaus.commons.compiler.util.resource
    given = gateway.new_array(util.Resource, len(sources))
    for number, (name, text) in enumerate(sources.items()):
        given[number] = util.StringResource(name, text)
    classes = jvm.java.util.HashMap()
    compiler = janino.Compiler()
    loader = jvm.org.apache.spark.util.Utils.getSparkClassLoader()  # which knows no jar that was added, not even ours
    compiler.setIClassLoader(janino.ClassLoaderIClassLoader(loader))
    compiler.setClassFileCreator(util.MapResourceCreator(classes))
    compiler.setSourceVersion(JAVA_VERSION)
    compiler.setTargetVersion(JAVA_VERSION)
    compiler.compile(given)
    return {str(name): bytes(content) for name, content in dict(classes).items()}


def _zipped(classes: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, code in sorted(classes.items()):
            jar.writestr(zipfile.ZipInfo(name, _DATE), code)
    return content.getvalue()


def _is_whole(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as jar:
            return jar.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False


def _put(path: Path, content: bytes) -> None:
    """Write a file that appears under its name only when it is complete. A damaged one is replaced."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        if path.exists() and _is_whole(path):
            return  # another process was faster
        os.replace(name, path)
        name = ""
    finally:
        if name:
            os.unlink(name)


@cache
def _folder() -> Path:
    """The user's cache; a folder of this process alone where there is none."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    folder = Path(home) / "penstock"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK) and folder.stat().st_uid == os.getuid():
            return folder
    except OSError:
        pass
    return Path(_own_folder().name)


@cache
def _own_folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="penstock-")
