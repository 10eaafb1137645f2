"""The transaction of a driver on a real PostgreSQL: each batch once, with any death. No Spark runs."""

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.kernel.errors import PreconditionFailed
from penstock.lake.core.staging.proposing.sink_rule import BatchOffer
from penstock.spark.databases.postgres_rule import (
    TableTarget,
    commit,
    create_register,
    drop_stages,
    registered,
    stage_name,
)
from penstock.spark.databases.postgres_stage import CopyAttempt, connect, create_stage, create_table

SCHEMA = StructType([StructField("id", LongType()), StructField("n", LongType()), StructField("text", StringType())])
COLUMNS = ("id", "n", "text")


@pytest.fixture
def connection(postgres: str) -> Iterator[Any]:
    with connect(postgres) as opened:
        opened.execute("DROP SCHEMA public CASCADE")
        opened.execute("CREATE SCHEMA public")
        create_register(opened)
        yield opened


class Driver:
    """A driver with a query of its own, and a stage for each of two tables."""

    def __init__(self, connection: Any, query: str, token: str) -> None:
        self.connection, self.query = connection, query
        self.drawn = 0
        self.targets = []
        for number, (table, mode, keys, order) in enumerate(
            [("log", "append", (), ""), ("newest", "upsert", ("id",), "n")]
        ):
            stage = stage_name("shop.orders", token, number)
            create_table(connection, table, SCHEMA, keys)
            create_stage(connection, stage, SCHEMA)
            self.targets.append(TableTarget(table, stage, COLUMNS, mode, keys, order))

    def stage(self, rows: list[tuple[int, int, str]], upto: int | None = None) -> str:
        """Write rows as a task does; a task that dies writes some of them."""
        self.drawn += 1
        attempt = f"{self.query}-{self.drawn}"
        for target in self.targets:
            copy = CopyAttempt(self.connection, target.stage, attempt)
            batch = pa.RecordBatch.from_pylist([dict(zip(COLUMNS, each, strict=True)) for each in rows[:upto]])
            if batch.num_rows:
                copy.add(batch)
        return attempt

    def commit(self, number: int, begin: int, end: int, attempts: list[str]) -> bool:
        offer = BatchOffer(self.query, number, f"plan{begin}-{end}", f'[{{"a":{begin}}}]', f'[{{"a":{end}}}]')
        return commit(self.connection, "shop.orders", offer, self.targets, attempts)


def rows_of(connection: Any, table: str) -> list[tuple[Any, ...]]:
    return sorted(connection.execute(f"SELECT id, n, text FROM {table}").fetchall())


def test_rows_of_attempts_that_lost_are_not_taken(connection: Any) -> None:
    driver = Driver(connection, "q1", "t1")
    rows = [(1, 1, "a"), (2, 1, "b"), (1, 2, "c")]
    driver.stage(rows, upto=2)  # a task that died
    won = driver.stage(rows)
    assert driver.commit(0, 0, 10, [won])
    assert rows_of(connection, "log") == sorted(rows)
    assert rows_of(connection, "newest") == [(1, 2, "c"), (2, 1, "b")]
    again = driver.stage(rows)
    assert not driver.commit(0, 0, 10, [again])  # a replay
    assert len(rows_of(connection, "log")) == 3
    late = driver.stage([(1, 1, "late"), (3, 9, "d")])
    assert driver.commit(1, 10, 20, [late])
    assert rows_of(connection, "newest") == [(1, 2, "c"), (2, 1, "b"), (3, 9, "d")]  # an older row changes nothing


def test_a_driver_that_was_frozen_is_refused(connection: Any) -> None:
    old, new = Driver(connection, "q1", "t1"), Driver(connection, "q2", "t2")
    assert old.commit(0, 0, 10, [old.stage([(1, 1, "a")])])
    staged = old.stage([(2, 2, "b")])  # and here it is frozen
    assert new.commit(0, 10, 20, [new.stage([(2, 2, "b")])])  # without its checkpoint, from where the register ends
    with pytest.raises(PreconditionFailed, match="belongs to query q2"):
        old.commit(1, 10, 20, [staged])
    with pytest.raises(PreconditionFailed, match="belongs to query q2"):
        Driver(connection, "q3", "t3").commit(0, 0, 20, [])  # begins elsewhere
    assert rows_of(connection, "log") == [(1, 1, "a"), (2, 2, "b")]
    found = registered(connection, "shop.orders")
    assert found is not None
    assert (found.query, found.batch, found.ends) == ("q2", 0, '[{"a":20}]')
    assert registered(connection, "shop.other") is None


def test_a_transaction_that_fails_leaves_the_register_as_it_was(connection: Any) -> None:
    driver = Driver(connection, "q1", "t1")
    connection.execute("ALTER TABLE newest ADD CHECK (text <> 'bad')")
    won = driver.stage([(1, 1, "a"), (2, 1, "bad")])
    with pytest.raises(Exception, match="check constraint"):
        driver.commit(0, 0, 10, [won])
    assert rows_of(connection, "log") == []
    assert registered(connection, "shop.orders") is None
    connection.execute("ALTER TABLE newest DROP CONSTRAINT newest_text_check")
    assert driver.commit(0, 0, 10, [won])
    assert len(rows_of(connection, "log")) == 2


def test_stages_of_drivers_that_are_gone_are_dropped(connection: Any, postgres: str) -> None:
    Driver(connection, "q1", "t1")
    in_use = Driver(connection, "q2", "t2").targets[0].stage
    connection.execute("CREATE TABLE penstock_stage_0123456789ab_t_0 (a int)")  # of another sink
    with connect(postgres) as other, other.transaction():
        other.execute(f"INSERT INTO {in_use} (id, _attempt) VALUES (1, 'x')")
        connection.execute("SET lock_timeout = 50")
        assert drop_stages(connection, "shop.orders") == 3
    assert drop_stages(connection, "shop.orders") == 1
    left = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'penstock_stage%'").fetchall()
    assert left == [("penstock_stage_0123456789ab_t_0",)]


@pytest.mark.parametrize("seed", range(4))
def test_random_deaths_neither_lose_nor_repeat_a_row(seed: int, connection: Any) -> None:
    """Tasks die half-way, drivers die before and after their commit; the result is that of a dictionary."""
    rng = random.Random(seed)
    history = [(rng.randrange(12), number, f"r{number}") for number in range(60)]
    driver, lives, number, at = Driver(connection, "q1", "t0"), 1, 0, 0
    while at < len(history):
        upto = min(len(history), at + rng.randrange(1, 9))
        while True:  # the checkpoint has this batch: every life tries it with the same offsets
            for _ in range(rng.randrange(3)):
                driver.stage(history[at:upto], upto=rng.randrange(upto - at + 1))
            won = driver.stage(history[at:upto])
            dies = rng.choice(["no", "no", "before", "after"])
            if dies != "before":
                driver.commit(number, at, upto, [won])
            if dies == "no":
                break
            drop_stages(connection, "shop.orders")
            driver, lives = Driver(connection, "q1", f"t{lives}"), lives + 1
        number, at = number + 1, upto
    assert rows_of(connection, "log") == sorted(history)
    newest = {id_: (id_, n, text) for id_, n, text in history}
    assert rows_of(connection, "newest") == sorted(newest.values())
    assert lives > 1
