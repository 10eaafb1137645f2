"""The jar of the source in Java: shipped with the sources that it is of; a compiled one is whole or not there.

Two processes which compile it: `slow_java_source.py`.
"""

import re
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.spark.journals import java_source
from penstock.spark.journals.java_source import SHIPPED, SOURCES, jar_of, make_jar, shipped_jar

TREE = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(java_source, "_folder", lambda: tmp_path)
    return tmp_path


def javac_release() -> int:
    """The Java that is here, if it has a compiler; 0 if it has none."""
    if shutil.which("javac") is None:
        return 0
    said = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True)
    return int(re.findall(r"javac (\d+)", said.stdout + said.stderr)[0])


def test_the_shipped_jar_is_of_these_sources() -> None:
    assert shipped_jar() == SHIPPED, "the sources have changed: run `make jar`"
    with zipfile.ZipFile(SHIPPED) as jar:
        assert jar.testzip() is None
        names = {Path(name).stem for name in jar.namelist()}
    assert {path.stem for path in SOURCES.glob("*.java")} <= names


def test_a_jar_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    edited = tmp_path / "jvm"
    shutil.copytree(SOURCES, edited)
    (edited / "Part.java").write_text((SOURCES / "Part.java").read_text().replace("journal;", "journal; // edited"))
    monkeypatch.setattr(java_source, "SOURCES", edited)
    assert shipped_jar() is None
    monkeypatch.setattr(java_source, "SHIPPED", tmp_path / "missing.jar")
    assert shipped_jar() is None


@pytest.mark.skipif(javac_release() != 17, reason="class files are compared with those of JDK 17, which is not here")
def test_the_shipped_jar_is_rebuilt_to_the_same_bytes(tmp_path: Path) -> None:
    made = tmp_path / "again.jar"
    subprocess.run([sys.executable, TREE / "scripts/make_jar.py", "--out", made], check=True, capture_output=True)
    assert made.read_bytes() == SHIPPED.read_bytes(), "run `make jar`"


def test_a_session_has_the_shipped_jar(spark: SparkSession) -> None:
    assert jar_of(spark) == SHIPPED


def test_who_comes_at_once_or_later_uses_one_jar(spark: SparkSession, folder: Path) -> None:
    gateway = spark.sparkContext._gateway
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: make_jar(gateway, spark.version), range(2))
    assert first == second
    assert list(folder.iterdir()) == [first]
    written = first.stat().st_mtime_ns
    assert make_jar(gateway, spark.version) == first
    assert first.stat().st_mtime_ns == written
    assert make_jar(gateway, "another version") != first
    with zipfile.ZipFile(first) as jar:
        names = {Path(name).stem for name in jar.namelist()}
    assert {path.stem for path in SOURCES.glob("*.java")} <= names


def test_a_damaged_jar_is_made_again(spark: SparkSession, folder: Path) -> None:
    gateway = spark.sparkContext._gateway
    path = make_jar(gateway, spark.version)
    content = path.read_bytes()
    path.write_bytes(content[:-100])  # as a full disk leaves it
    assert make_jar(gateway, spark.version) == path
    assert path.read_bytes() == content
