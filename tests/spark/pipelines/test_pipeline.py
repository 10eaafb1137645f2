"""Pipelines as they are written down: what is taken, and what is refused with which words. No Spark runs."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.errors import StreamingQueryException

from penstock.kernel.errors import InvalidArgument, NotFound, Refused
from penstock.spark import Pipeline, journal, lake
from penstock.spark.pipelines.ends import JournalEnd, LakeSink
from penstock.spark.pipelines.pipeline import Flow, load_pipeline
from penstock.spark.pipelines.running.pipeline_run import SLOW_START, PipelineRun

ORDERS = journal("shop/orders", schema="id long")
TABLE = lake("lake://shop@main/orders")


def same(frame: Any) -> Any:
    return frame


def test_a_flow_is_named_after_its_function() -> None:
    pipeline = Pipeline("revenue")
    assert pipeline.flow(source=ORDERS, sink=TABLE)(same) is same
    (flow,) = pipeline.chosen()
    assert (flow.name, flow.sink, flow.is_audited, flow.output_mode) == ("same", "revenue.same", False, "append")
    assert pipeline.checkpoint_of(flow).endswith("/penstock-data/pipelines/revenue/same")
    with pytest.raises(InvalidArgument, match="two flows named same"):
        pipeline.flow(source=ORDERS, sink=TABLE)(same)
    with pytest.raises(NotFound, match="it has same"):
        pipeline.chosen(("other",))


def test_ends_learn_where_brokers_and_lake_are() -> None:
    pipeline = Pipeline("revenue")
    own = lake("lake://shop@main/orders", lake="http://elsewhere:8000")
    pipeline.flow(source=ORDERS, sink=own)(same)
    pipeline.connect({"brokers": "127.0.0.1:1"}, {"lake": "http://127.0.0.1:2", "access_key_id": "k"})
    (flow,) = pipeline.chosen()
    source, sink = flow.sources[""], flow.sinks[""]
    assert isinstance(source, JournalEnd)
    assert isinstance(sink, LakeSink)
    assert source.options == {"brokers": "127.0.0.1:1"}
    assert sink.options == {"lake": "http://elsewhere:8000", "access_key_id": "k"}


@pytest.mark.parametrize(
    ("source", "sink", "why"),
    [
        (lake.table("lake://shop@main/products"), TABLE, "no stream among its sources"),
        (ORDERS, {"a": TABLE, "b": journal("shop/out")}, "all are tables of one branch"),
        (ORDERS, {"a": TABLE, "b": lake("lake://shop@other/b")}, "of one branch, and of one mode"),
        (ORDERS, {"a": TABLE, "b": lake("lake://shop@main/b", mode="complete")}, "of one branch, and of one mode"),
    ],
)
def test_flows_which_cannot_be_run(source: Any, sink: Any, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        Pipeline("revenue").flow(source=source, sink=sink)(same)


def test_results_must_fit_the_sinks() -> None:
    pipeline = Pipeline("revenue")
    pipeline.flow(source=ORDERS, sink=TABLE, name="one")(lambda frame: 7)
    pipeline.flow(source=ORDERS, sink={"a": TABLE, "b": lake("lake://shop@main/b")}, name="two")(lambda frame: {"a": 1})
    one, two = pipeline.chosen()
    with pytest.raises(InvalidArgument, match="returned int where a DataFrame is wanted"):
        one.apply({"": object()})  # type: ignore[dict-item]
    with pytest.raises(InvalidArgument, match="it has to return DataFrames: a, b"):
        two.apply({"": object()})  # type: ignore[dict-item]


def test_names_and_urls_are_checked() -> None:
    for wrong in ("", "a b", "x" * 28, "a.b"):
        with pytest.raises(InvalidArgument):
            Pipeline(wrong)
    for url in ("shop", "lake://shop@main", "lake://shop/orders"):
        with pytest.raises(InvalidArgument):
            lake(url)


def test_a_file_holds_one_pipeline(tmp_path: Path) -> None:
    file = tmp_path / "revenue.py"
    file.write_text("from penstock.spark import Pipeline\npipeline = Pipeline('revenue', checkpoints='here')\n")
    loaded = load_pipeline(file)
    assert (loaded.name, loaded.checkpoints, loaded.settings["checkpoints"]) == ("revenue", "here", "here")
    file.write_text("pipeline = 1\n")
    with pytest.raises(InvalidArgument, match="has 0 pipelines"):
        load_pipeline(file)
    with pytest.raises(NotFound):
        load_pipeline(tmp_path / "missing.py")


class Ended:
    """A query of Spark's which has ended, well or with an error."""

    isActive = False
    lastProgress = None
    status: ClassVar = {"message": "Terminated"}

    def __init__(self, error: str = "") -> None:
        self._error = error

    def exception(self) -> StreamingQueryException | None:
        return StreamingQueryException(self._error, "") if self._error else None


class Scripted(PipelineRun):
    """A run whose queries end as it is written down, one after the other for each flow."""

    def __init__(self, pipeline: Pipeline, ends: dict[str, list[Ended]]) -> None:
        super().__init__(None, pipeline)  # type: ignore[arg-type]
        self.ends = ends

    def _start(self, flow: Flow) -> Any:
        return self.ends[flow.name].pop(0)


def test_a_source_which_is_too_slow_to_start_is_started_again_until_it_is_not() -> None:
    """Also if all flows have failed once more by the time all are started again: none of them is done."""
    pipeline = Pipeline("revenue")
    for name in ("one", "two"):
        pipeline.flow(source=ORDERS, sink=TABLE, name=name)(same)
    slow = [Ended(SLOW_START) for _ in range(3)]
    run = Scripted(pipeline, {"one": [*slow, Ended()], "two": [*slow, Ended()]})
    run.start(once=True)
    run.watch(lambda progress: None)
    assert run.ends == {"one": [], "two": []}


def test_a_failure_of_another_kind_ends_the_run(tmp_path: Path) -> None:
    pipeline = Pipeline("revenue", checkpoints=tmp_path)
    pipeline.flow(source=ORDERS, sink=TABLE, name="one")(same)
    run = Scripted(pipeline, {"one": [Ended(SLOW_START), Ended("no such column")]})
    run.start(once=True)
    with pytest.raises(Refused, match=r"flow one, batch 0 failed: .*no such column"):
        run.watch(lambda progress: None)
