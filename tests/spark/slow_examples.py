"""The pipelines in `examples/pipelines`, killed at random moments: each equals its batch answer.

`make soak-examples` runs this. A run is a process of its own, and a kill is SIGKILL of its whole group.
"""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.ups import UpProcess
from tests.lake.rest.servers import KEY, SECRET
from tests.spark.example_cases import CASES, Case, Rows, World, ordered
from tests.spark.histories import read_plainly

import penstock
from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.records.spec import JournalSpec
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.publisher import Publisher
from penstock.messages.uuid import producer_id
from penstock.spark.databases.postgres_stage import connect
from penstock.spark.tables.lake_access import access_from, table_url
from penstock.spark.tables.lake_tree import files_of, key_of

pytestmark = pytest.mark.timeout(1800)
EXAMPLES = Path(__file__).parents[2] / "examples/pipelines"
KILLS = int(os.environ.get("KILLS", "2"))  # for each part of the data
SEED = int(os.environ.get("SEED", "1"))
APPEND_ROWS = 7
LIFE_S = 6.0  # a kill comes within this time after the flows have started


class RealWorld(World):
    """A server of every role, with a folder of its own."""

    def __init__(self, folder: Path, server: UpProcess, postgres: str) -> None:
        self.folder, self._broker, self._postgres = folder, server.running.broker, postgres
        self._lake = {"lake": server.running.lake, "access_key_id": KEY, "secret_access_key": SECRET}
        self._publisher = Publisher(producer_id(9), 1_700_000_000_000_000_000)
        database = postgres.replace("postgresql+psycopg:", "postgresql:")
        self.environment = {
            **os.environ,
            "PENSTOCK_DATA_FOLDER": str(server.folder),
            "PENSTOCK_LAKE_ACCESS_KEY_ID": KEY,
            "PENSTOCK_LAKE_SECRET_ACCESS_KEY": SECRET,
            "MART_URL": database,
        }

    def make(self, case: Case) -> None:
        access = access_from(self._lake)
        known = [each["id"] for each in access.pages("/repositories")]
        if "examples" not in known:
            access.ask("POST", "/repositories", {"name": "examples", "storage_namespace": "local://examples"})
        with BlockingJournals([self._broker]) as journals:
            for name in case.journals:
                journals.create(JournalSpec(name=name, replication=1))

    def publish(self, rows: Rows) -> None:
        with BlockingJournals([self._broker]) as journals:
            for name, each in rows.items():
                for at in range(0, len(each), APPEND_ROWS):
                    journals.append(name, self._frames(name, each[at : at + APPEND_ROWS]), timeout=60.0)

    def _frames(self, name: str, rows: list[Any]) -> bytes:
        found = b""
        for row in rows:
            found += row if isinstance(row, bytes) else self._publisher.committed(name, JsonLines(), [row])
        return found

    def write_table(self, name: str, rows: list[dict[str, Any]]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PENSTOCK_LAKE_ACCESS_KEY_ID", KEY)
            patch.setenv("PENSTOCK_LAKE_SECRET_ACCESS_KEY", SECRET)
            with penstock.connect(lake=self._lake["lake"]) as stock:
                branch = stock.lake("examples").branch("main")
                branch[f"{name}/rows.parquet"] = pa.Table.from_pylist(rows)
                branch.commit(f"rows of {name}")

    def table(self, name: str) -> list[dict[str, Any]]:
        found = files_of(access_from(self._lake), table_url(f"lake://examples@main/{name}"))
        root = Path(found.place.store.removeprefix("file://"))
        tables = [pq.read_table(root / key_of(found.place, each)) for each in found.files]
        return [row for table in tables for row in table.to_pylist()]

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with connect(self._postgres) as connection:
            return list(connection.execute(sql).fetchall())

    def messages(self, journal: str) -> list[dict[str, Any]]:
        with BlockingJournals([self._broker]) as journals:
            return [row for _, row in read_plainly(journals, journal, JsonLines())]

    def run(self, command: str, file: str) -> "subprocess.Popen[str]":
        arguments = ["pipeline", command, str(EXAMPLES / file), "--max-bytes", "3000B", "--until-now"]
        if command == "backfill":
            arguments = arguments[:3]
        return subprocess.Popen(
            [sys.executable, "-m", "penstock", *arguments],
            cwd=self.folder,
            env=self.environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Iterator[RealWorld]:
    folder = tmp_path_factory.mktemp("examples")
    with UpProcess(folder / "penstock-data") as server:
        yield RealWorld(folder, server, postgres)


def kill_soon(process: "subprocess.Popen[str]", rng: random.Random) -> bool:
    """Kill a run some time after its flows have started; return whether it was still at work."""
    assert process.stderr is not None
    for line in process.stderr:
        if "running:" in line or "B are written" in line:
            break
    try:
        process.wait(rng.uniform(0.0, LIFE_S))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False


def run_with_kills(world: RealWorld, command: str, file: str, rng: random.Random) -> int:
    killed = 0
    for _ in range(KILLS):
        process = world.run(command, file)
        with process:
            killed += kill_soon(process, rng)
    with world.run(command, file) as process:
        _, said = process.communicate()
        assert process.returncode == 0, said
    return killed


@pytest.mark.parametrize("name", CASES)
def test_an_example_equals_its_batch_answer_whatever_is_killed(name: str, world: RealWorld) -> None:
    case, rng = CASES[name](), random.Random(f"{SEED} {name}")
    world.make(case)
    killed = 0
    for number, (part, tables) in enumerate(zip(case.parts, case.tables, strict=True)):
        for table, rows in tables.items():
            world.write_table(table, rows)
        world.publish(part)
        file = case.second_file or case.file if number else case.file
        killed += run_with_kills(world, "run" if number else case.first, file, rng)
    print(f"{name}: {killed} kills of {2 * KILLS}, {len(case.answer)} rows")
    assert ordered(case.found(world)) == ordered(case.answer)


def test_each_example_has_its_readme_and_its_journals() -> None:
    folders = sorted(each.name for each in EXAMPLES.iterdir() if each.is_dir())
    assert folders == sorted({each().file.partition("/")[0] for each in CASES.values()})
    for folder in folders:
        assert len((EXAMPLES / folder / "README.md").read_text().splitlines()) <= 14
        assert (EXAMPLES / folder / "journals.yaml").is_file()
