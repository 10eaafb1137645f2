"""What each install can do: bare, server, spark, all, from the built wheel. `make matrix` runs it.

The bare one is a client: it publishes to a broker that runs in the server's environment, reads, and writes to the lake.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.matrix.environments import INSTALLS, Environment, build_wheel, make_environment

from penstock.cli.needs import NEEDS

pytestmark = pytest.mark.timeout(1800)

BARE_BYTES_MAX: Final = 20_000_000
START_S: Final = 120.0
HEAVY: Final = ("polars", "pyarrow", "numpy", "numba", "pandas", "pyspark", "sqlalchemy", "obstore", "uvloop")
CLIENT: Final = """
import penstock

with penstock.connect() as stock:
    journal = stock.journal("hello/world")
    with journal.publisher() as publish:
        publish({"text": "from Python"})
    print([message.value["text"] for message in journal.read()])
    branch = stock.lake("hello").branch("main")
    branch["a.txt"] = b"some bytes"
    print(branch.commit("a").message, branch["a.txt"])
"""


@pytest.fixture(scope="module")
def wheel() -> Path:
    return build_wheel()


@pytest.fixture(scope="module")
def environment(wheel: Path) -> Callable[[str], Environment]:
    made: dict[str, Environment] = {}

    def get(name: str) -> Environment:
        if name not in made:
            made[name] = make_environment(name, wheel)
        return made[name]

    return get


@pytest.fixture
def up(environment: Callable[[str], Environment], tmp_path: Path) -> Iterator[Path]:
    """`penstock up` of the server's environment, in a folder."""
    server = environment("server")
    log = (tmp_path / "up.log").open("w")
    process = subprocess.Popen(
        [server.folder / "bin/penstock", "up"],
        cwd=tmp_path,
        env={**server.variables(), "PENSTOCK_WIRE_LISTEN": "127.0.0.1:0", "PENSTOCK_LAKE_LISTEN": "127.0.0.1:0"},
        stdout=log,
        stderr=log,
    )
    deadline = time.monotonic() + START_S
    while "Stop:" not in (tmp_path / "up.log").read_text():
        assert process.poll() is None, (tmp_path / "up.log").read_text()
        assert time.monotonic() < deadline, (tmp_path / "up.log").read_text()
    try:
        yield tmp_path
    finally:
        process.terminate()
        assert process.wait(60) in (0, 143)
        log.close()


@pytest.mark.parametrize("name", INSTALLS)
def test_each_install_starts_and_finds_what_it_has(name: str, environment: Callable[[str], Environment]) -> None:
    here = environment(name)
    program = f"from importlib.util import find_spec; print([m for m in {HEAVY} if find_spec(m)])"
    found = here.run("python", "-c", program, at=here.folder).stdout.strip()
    kept = {
        "bare": [],
        "server": ["polars", "pyarrow", "numpy", "obstore", "uvloop"],
        "spark": ["polars", "pyarrow", "numpy", "pandas", "pyspark", "obstore"],
        "all": list(HEAVY),
    }
    assert found == str(kept[name])
    assert here.run("penstock", "--version", at=here.folder).stdout.strip()
    for noun in ("journals", "lake", "up", "pipeline"):
        assert here.run("penstock", noun, "--help", at=here.folder).stdout


def test_a_bare_install_is_small(environment: Callable[[str], Environment]) -> None:
    added = environment("bare").added_bytes()
    print(f"bare: {added / 1e6:.1f} MB in site-packages")
    assert added <= BARE_BYTES_MAX


def test_a_bare_install_publishes_and_reads(environment: Callable[[str], Environment], up: Path) -> None:
    bare = environment("bare")
    bare.run("penstock", "journals", "create", "hello/world", at=up)
    bare.run("penstock", "journals", "publish", "hello/world", at=up, stdin='{"text": "from a shell"}\n')
    shown = bare.run("penstock", "journals", "cat", "hello/world", "--committed", at=up).stdout
    assert json.loads(shown)["text"] == "from a shell"
    bare.run("penstock", "lake", "repo", "create", "hello", at=up)
    read = bare.run("python", "-c", CLIENT, at=up).stdout
    assert "['from a shell', 'from Python']" in read
    assert "b'some bytes'" in read
    bare.run("penstock", "quorum", "status", at=up)


def test_a_bare_install_names_the_extra_that_a_command_needs(
    environment: Callable[[str], Environment], tmp_path: Path
) -> None:
    arguments = {
        "up": (), "server": (), "broker": ("--id", "b1"), "node": ("--id", "n1"), "operator": (), "cluster up": (),
        "cluster start": ("n1",), "consumer run": ("a.py",), "lake serve": (),
        "lake recover": ("--into", "b"), "pipeline compact": ("a", "lake://a@b/c"),
        "pipeline import": ("a", "lake://a@b/c"), "pipeline garbage": ("lake://a@b",),
    }  # fmt: skip
    for words, name in NEEDS.items():
        more = arguments.get(words, ("a.py",))
        ran = environment("bare").run("penstock", *words.split(), *more, at=tmp_path, check=False)
        assert f"penstock {words} needs the {name} extra: pip install 'penstock[{name}]'" in ran.stderr, words
        assert ran.returncode == 2
    assert list(tmp_path.iterdir()) == []  # nothing was begun


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("import penstock; penstock.open('data')", "server"),
        ("import penstock.spark; penstock.spark.Pipeline", "spark"),
        ("from penstock.consumers.library import SqlStore", "sql"),
        ("from penstock.consumers.library import SqliteStore", "server"),
        ("from penstock.plumbing.objects import open_store; open_store('s3://a')", "server"),
        ("import penstock.lake.client.lake_fsspec", "tables"),
    ],
)
def test_a_bare_install_names_the_extra_that_a_call_needs(
    call: str, name: str, environment: Callable[[str], Environment], tmp_path: Path
) -> None:
    ran = environment("bare").run("python", "-c", call, at=tmp_path, check=False)
    last = ran.stderr.strip().splitlines()[-1]
    assert "penstock.kernel.errors.ConfigError" in last
    assert last.endswith(f"needs the {name} extra: pip install 'penstock[{name}]'")
    assert list(tmp_path.iterdir()) == []


def test_spark_reads_messages_without_numba(environment: Callable[[str], Environment], up: Path) -> None:
    spark = environment("spark")
    spark.run("penstock", "journals", "create", "hello/world", at=up)
    lines = "".join(json.dumps({"number": number}) + "\n" for number in range(1000))
    spark.run("penstock", "journals", "publish", "hello/world", at=up, stdin=lines)
    program = """
from pathlib import Path
import penstock.spark
from penstock.plumbing.process.running import running_in
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
penstock.spark.register(spark)
brokers = running_in(Path("penstock-data")).broker
read = penstock.spark.read_journal(spark, "hello/world", brokers=brokers, schema="number long")
print(read.count(), read.agg({"number": "sum"}).first()[0])
"""
    assert spark.run("python", "-c", program, at=up).stdout.strip().endswith("1000 499500")


def test_all_of_it_runs_a_consumer(environment: Callable[[str], Environment], up: Path) -> None:
    every = environment("all")
    program = "from penstock.consumers.library import SqlStore, SqliteStore; import numba, psycopg, grpc, fsspec"
    every.run("python", "-c", program, at=up)
