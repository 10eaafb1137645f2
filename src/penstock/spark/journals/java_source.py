"""The source written in Java (`jvm/*.java`), as a jar which a session knows. Decision 603 says why there is one.

The package has the jar, and its manifest names the hash of the sources that it was compiled from (`make jar`). A tree
whose sources were edited since has another hash: then Janino, which is among Spark's own jars, compiles them at the
first use. That jar's name is a hash of its ingredients (sources, Spark's version), and it is kept in the user's cache.
Invariants: no jar of other sources is used. A jar under its name is whole, because it is linked there when it is; who
comes second, at the same time or later, uses the first.
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

__all__ = [
    "CLASS",
    "SHIPPED",
    "SOURCES",
    "add_jar",
    "has_jvm",
    "jar_of",
    "java_sources",
    "known_here",
    "make_jar",
    "manifest",
    "shipped_jar",
    "zipped",
]

CLASS: Final = "penstock.spark.jvm.JournalSource"
SOURCES: Final = Path(__file__).parents[1] / "jvm"
SHIPPED: Final = SOURCES / "penstock-spark.jar"
MANIFEST: Final = "META-INF/MANIFEST.MF"
JAVA_VERSION: Final = 8  # of what Janino writes; any Java runs it
_DATE: Final = (1980, 1, 1, 0, 0, 0)  # of files in the jar: the same sources are the same bytes

_added: "weakref.WeakSet[SparkSession]" = weakref.WeakSet()


def has_jvm(spark: SparkSession) -> bool:
    """Is its JVM this process's own? With Spark Connect it is not."""
    return getattr(spark, "_jvm", None) is not None


def add_jar(spark: SparkSession) -> None:
    """Make the source known to a session and to its executors."""
    if spark not in _added:
        path = str(jar_of(spark)).replace("\\", "\\\\").replace("'", "\\'")
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


def jar_of(spark: SparkSession) -> Path:
    """Return the jar for a session: the shipped one if it was made of the sources as they are, or a compiled one."""
    return shipped_jar() or make_jar(spark.sparkContext._gateway, spark.version)


def java_sources() -> dict[str, str]:
    """Return the text of each source, by its name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(SOURCES.glob("*.java"))}


def manifest(sources: dict[str, str]) -> str:
    """Return the manifest of a jar made of these sources."""
    hashed = hashlib.sha256(repr(sorted(sources.items())).encode()).hexdigest()[:48]  # lines have 72 bytes at most
    return f"Manifest-Version: 1.0\r\nPenstock-Sources: {hashed}\r\n\r\n"


def shipped_jar() -> Path | None:
    """Return the jar of this package; None if its manifest names other sources."""
    try:
        with zipfile.ZipFile(SHIPPED) as jar:
            return SHIPPED if jar.read(MANIFEST).decode() == manifest(java_sources()) else None
    except (OSError, KeyError, zipfile.BadZipFile):
        return None


def make_jar(gateway: Any, version: str) -> Path:
    """Return the jar for this version of Spark: the kept one, or one compiled in the JVM of a gateway."""
    sources = java_sources()
    named = hashlib.sha256(repr((version, JAVA_VERSION, sources)).encode()).hexdigest()[:24]
    path = _folder() / f"journal-source-{named}.jar"
    if not _is_whole(path):
        _put(path, zipped(_compiled(gateway, sources), manifest(sources)))
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


def zipped(classes: dict[str, bytes], told: str) -> bytes:
    """Return a jar of class files by their paths, and a manifest. The same classes are the same bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as jar:
        jar.writestr(zipfile.ZipInfo(MANIFEST, _DATE), told)
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
