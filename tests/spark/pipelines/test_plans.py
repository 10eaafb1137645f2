"""Which plans keep state from batch to batch, by the JVM's own tree and by the text behind Spark Connect."""

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spark.pipelines import plans
from penstock.spark.pipelines.plans import keeping_state

Case = Callable[[DataFrame, DataFrame], DataFrame]
ROW_WISE: dict[str, Case] = {
    "where": lambda rows, _: rows.where("id > 1"),
    "select": lambda rows, _: rows.selectExpr("id + 1 AS id"),
    "explode": lambda rows, _: rows.select(F.explode(F.array("id", "id"))),
    "union": lambda rows, _: rows.union(rows),
    "watermark": lambda rows, _: rows.withWatermark("at", "1 minute"),
    "mapInPandas": lambda rows, _: rows.mapInPandas(lambda frames: frames, rows.schema),
    "mapInArrow": lambda rows, _: rows.mapInArrow(lambda batches: batches, rows.schema),
    "udf": lambda rows, _: rows.select(F.udf(lambda value: value, "long")("id")),
    "drop": lambda rows, _: rows.drop("at"),
    "na.fill": lambda rows, _: rows.na.fill(0),
    "hint": lambda rows, _: rows.hint("rebalance"),
    "repartition": lambda rows, _: rows.repartition(2),
    "a static table": lambda rows, static: rows.join(static, "id"),
    "an aggregate of a static table": lambda rows, static: rows.join(static.groupBy("id").count(), "id"),
}
STATEFUL: dict[str, tuple[Case, str]] = {
    "groupBy": (lambda rows, _: rows.groupBy("id").count(), "Aggregate"),
    "distinct": (lambda rows, _: rows.distinct(), "Deduplicate"),
    "dropDuplicates": (lambda rows, _: rows.dropDuplicates(["id"]), "Deduplicate"),
    "within": (
        lambda rows, _: rows.withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["id"]),
        "DeduplicateWithinWatermark",
    ),
    "session": (
        lambda rows, _: rows.withWatermark("at", "1 minute").groupBy(F.session_window("at", "1 minute")).count(),
        "Aggregate",
    ),
    "limit": (lambda rows, _: rows.limit(3), "GlobalLimit"),
    "two streams": (lambda rows, _: rows.alias("a").join(rows.alias("b"), F.expr("a.id = b.id")), "Join"),
    "below a row-wise one": (lambda rows, _: rows.groupBy("id").count().where("count > 1"), "Aggregate"),
}


def explained(frame: DataFrame) -> str:
    """The text that Spark Connect answers."""
    utils = frame.sparkSession._jvm.org.apache.spark.sql.api.python.PythonSQLUtils  # type: ignore[union-attr]
    return str(utils.explainString(frame._jdf.queryExecution(), "extended"))


@pytest.fixture(params=["tree", "text"])
def ends(
    request: pytest.FixtureRequest, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> tuple[DataFrame, DataFrame]:
    """A stream and a static table; `text` looks at them as behind Spark Connect, where no JVM can be asked."""
    if request.param == "text":
        monkeypatch.setattr(plans, "has_jvm", lambda _: False)
        monkeypatch.setattr(plans, "_explained", explained)
    rows = spark.readStream.format("rate").load().selectExpr("value AS id", "timestamp AS at")
    return rows, spark.range(3)


@pytest.mark.parametrize("name", ROW_WISE)
def test_row_wise(ends: tuple[DataFrame, DataFrame], name: str) -> None:
    assert keeping_state(ROW_WISE[name](*ends)) == ()


@pytest.mark.parametrize("name", STATEFUL)
def test_operators_that_keep_state_are_named(ends: tuple[DataFrame, DataFrame], name: str) -> None:
    case, operator = STATEFUL[name]
    assert operator in keeping_state(case(*ends))


def test_an_operator_that_nobody_knows_keeps_state(
    ends: tuple[DataFrame, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "ROW_WISE", plans.ROW_WISE - {"Filter"})
    assert keeping_state(ROW_WISE["where"](*ends)) == ("Filter",)
