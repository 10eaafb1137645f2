"""The jar of the source in Java: whole or not there. Two processes which compile it: `slow_java_source.py`."""

import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.spark.journals import java_source
from penstock.spark.journals.java_source import SOURCES, make_jar


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(java_source, "_folder", lambda: tmp_path)
    return tmp_path


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
