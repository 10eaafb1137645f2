"""The source in Java: compiled once, whoever comes first, and for any session."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.spark.columns import frames_of, parts_of, wait_stored
from tests.spark.conftest import Brokers
from tests.spark.histories import History, json_value, make

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.publisher import Publisher
from penstock.messages.uuid import producer_id
from penstock.spark import read_journal

pytestmark = pytest.mark.timeout(600)
MAKES_JAR = """
from pyspark.java_gateway import launch_gateway
from penstock.spark.journals.java_source import make_jar
gateway = launch_gateway()
print(make_jar(gateway, "any version"))
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""
# A session as anybody makes it: no daemon of ours, no options for Java.
PLAIN_SESSION = """
import sys
from pyspark.sql import SparkSession
from penstock.spark import read_journal
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for setting in sys.argv[3:]:
    builder = builder.config(*setting.split("="))
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
frame = read_journal(spark, sys.argv[1], schema="n long", brokers=sys.argv[2])
print("rows", frame.count(), frame.count())
spark.stop()
"""


def start(code: str, folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=folder)


def test_two_processes_which_compile_at_once_use_one_jar(tmp_path: Path) -> None:
    processes = [start(MAKES_JAR, tmp_path) for _ in range(2)]
    said = [process.communicate()[0].split()[-1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert said[0] == said[1]
    assert list((tmp_path / "penstock").iterdir()) == [Path(said[0])]
    content = Path(said[0]).read_bytes()
    Path(said[0]).write_bytes(content[:-100])  # as a full disk leaves it
    start(MAKES_JAR, tmp_path).communicate()
    assert Path(said[0]).read_bytes() == content


@pytest.mark.parametrize("setting", ["spark.python.worker.reuse=true", "spark.python.use.daemon=false"])
def test_a_session_without_our_settings_reads_too(
    brokers: Brokers, journals: BlockingJournals, tmp_path: Path, setting: str
) -> None:
    name = make(journals, f"java/{setting}".replace("=", "-"))
    for append in History(4, JsonLines(), json_value).appends(40):
        journals.append(name, append, timeout=60.0)
    process = start(PLAIN_SESSION, tmp_path, name, brokers.address, setting)
    said = process.communicate()[0]
    counts = said.split("rows ")[-1].split()
    assert counts[0] == counts[1]
    assert int(counts[0]) > 10


def test_a_line_longer_than_any_is_read_by_a_worker(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals
) -> None:
    name = make(journals, "java/long", fragment_bytes=1 << 20)
    rows = [{"n": 1, "text": "short"}, {"n": 2, "text": "x" * (70 << 20)}, {"n": 3, "text": "y" * (2 << 20)}]
    frames = Publisher(producer_id(5), 1_700_000_000_000_000_000).committed(name, JsonLines(), rows)
    journals.append(name, frames, timeout=60.0)
    journals.append(name, Publisher(producer_id(6), 1_700_000_000_000_000_000).committed(name, JsonLines(), rows[:1]))
    wait_stored(journals, name, 1 << 20)
    found = read_journal(spark, name, schema="n long, text string", brokers=brokers.address)
    assert {each.are_lines for each in frames_of(parts_of(brokers, name, "n long, text string"))} == {True}
    lengths = sorted(tuple(row) for row in found.select("n", F.length("text")).collect())
    assert lengths == [(1, 5), (1, 5), (2, 70 << 20), (3, 2 << 20)]
