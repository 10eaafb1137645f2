"""Pipelines: functions from DataFrames to DataFrames, between named sources and sinks.

    pipeline = Pipeline("revenue")

    @pipeline.flow(source=journal("shop/orders", schema="sku string, quantity int, price decimal(9,2)"),
                   sink=lake("lake://shop@main/orders"))
    def orders(raw):
        return raw.where("quantity > 0").selectExpr("*", "quantity * price AS amount")

A flow is one streaming query: its checkpoint lies below the pipeline's folder, its sink is named `<pipeline>.<flow>`,
so that a lost checkpoint is noticed and nothing is written twice. A function takes as many DataFrames as there are
sources, by name if sources are named, and returns one; or one for each named sink, and they are committed together.
"""

import importlib.util
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar

import msgspec
from pyspark.sql import DataFrame, SparkSession

from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.spark.pipelines.ends import End, JournalEnd, LakeChanges, LakeSink, LakeTable, PostgresSink, Source
from penstock.spark.pipelines.user_code import UserCode
from penstock.spark.shared.checkpoint_files import checked_location
from penstock.spark.tables.lake_access import table_url

if TYPE_CHECKING:
    from penstock.spark.pipelines.running.run import Run

__all__ = ["Flow", "Pipeline", "load_pipeline"]

DATA: Final = "penstock-data"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,26}")
Transform = Callable[..., Any]
F = TypeVar("F", bound=Transform)


class Flow(msgspec.Struct, frozen=True):
    """One query of a pipeline."""

    pipeline: str
    name: str
    transform: Transform
    sources: Mapping[str, Source]  # one without a name is ""
    sinks: Mapping[str, End]  # as well

    @property
    def sink(self) -> str:
        """The name of its sink, which outlives the checkpoint."""
        return f"{self.pipeline}.{self.name}"

    def connected(self, journals: Mapping[str, str], lake: Mapping[str, str]) -> "Flow":
        """The same flow, whose ends know where brokers and lake are; what an end says itself counts more."""

        def known(end: Any) -> Any:
            more = journals if isinstance(end, JournalEnd) else {} if isinstance(end, PostgresSink) else lake
            return msgspec.structs.replace(end, options={**more, **end.options})

        sources = {name: known(each) for name, each in self.sources.items()}
        sinks = {name: known(each) for name, each in self.sinks.items()}
        return msgspec.structs.replace(self, sources=sources, sinks=sinks)

    @property
    def code(self) -> UserCode:
        """The file of its function."""
        return UserCode.of(self.transform)

    @property
    def is_audited(self) -> bool:
        return any(isinstance(each, LakeSink) and each.checks for each in self.sinks.values())

    @property
    def streams(self) -> dict[str, JournalEnd | LakeChanges]:
        return {name: each for name, each in self.sources.items() if not isinstance(each, LakeTable)}

    @property
    def output_mode(self) -> str:
        return next((each.mode for each in self.sinks.values() if isinstance(each, LakeSink)), "append")

    def stream(
        self, spark: SparkSession, starting: str = "", until: Mapping[str, str] | None = None
    ) -> dict[str, DataFrame]:
        """The function's result, on streams. `until` says of a source where it ends."""
        ends = until or {}

        def read(name: str, source: Source) -> DataFrame:
            match source:
                case JournalEnd():
                    return source.stream(spark, starting, ends.get(name, ""))
                case LakeChanges():
                    return source.stream(spark)
                case LakeTable():
                    return source.read(spark)

        return self.apply({name: read(name, each) for name, each in self.sources.items()})

    def apply(self, inputs: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """The function's result, one DataFrame for each sink, in the order of the sinks."""
        unnamed = inputs.get("")
        with self.code.blamed():
            found = self.transform(unnamed) if unnamed is not None else self.transform(**inputs)
        results = {"": found} if "" in self.sinks else found
        if not isinstance(results, Mapping) or set(results) != set(self.sinks):
            wanted = ", ".join(self.sinks) if "" not in self.sinks else "one"
            raise InvalidArgument(f"{self.sink} returned {type(found).__name__}; it has to return DataFrames: {wanted}")
        for each in results.values():
            if not isinstance(each, DataFrame):
                raise InvalidArgument(f"{self.sink} returned {type(each).__name__} where a DataFrame is wanted")
        return {name: results[name] for name in self.sinks}


class Pipeline:
    """Flows under one name.

    `checkpoints` is a folder, or a URL that Spark can open. `interval` is the time between two batches, like "30s", and
    `conf` has settings of Spark. Flags and `[pipeline.NAME]` in penstock.toml count more than these.
    """

    def __init__(
        self,
        name: str,
        *,
        checkpoints: str | Path = "",
        interval: str = "",
        conf: Mapping[str, str] | None = None,
    ) -> None:
        self.name = _checked(name)
        self.settings = {"checkpoints": str(checkpoints), "interval": interval, "conf": dict(conf or {})}
        self.checkpoints = str(checkpoints) or f"{DATA}/pipelines/{name}"
        self.flows: dict[str, Flow] = {}

    def flow(
        self, *, source: Source | Mapping[str, Source], sink: End | Mapping[str, End], name: str = ""
    ) -> Callable[[F], F]:
        """Add a function as a flow. It stays a plain function: tests may call it."""

        def added(function: F) -> F:
            chosen = _checked(name or function.__name__)
            if chosen in self.flows:
                raise InvalidArgument(f"pipeline {self.name} has two flows named {chosen}")
            sources: Mapping[str, Source] = dict(source) if isinstance(source, Mapping) else {"": source}
            sinks: Mapping[str, End] = dict(sink) if isinstance(sink, Mapping) else {"": sink}
            self.flows[chosen] = _sound(Flow(self.name, chosen, function, sources, sinks))
            return function

        return added

    def connect(self, journals: Mapping[str, str], lake: Mapping[str, str]) -> None:
        """Say where brokers and lake are, for all ends which do not say it themselves."""
        self.flows = {name: flow.connected(journals, lake) for name, flow in self.flows.items()}

    def chosen(self, names: tuple[str, ...] = ()) -> list[Flow]:
        """Return all flows, or those of these names."""
        for name in names:
            if name not in self.flows:
                raise NotFound(f"pipeline {self.name} has no flow {name}; it has {', '.join(self.flows)}")
        return [flow for name, flow in self.flows.items() if not names or name in names]

    def checkpoint_of(self, flow: Flow) -> str:
        """Return where Spark keeps how far a flow is: an absolute path, or a URL."""
        return checked_location(f"{self.checkpoints.rstrip('/')}/{flow.name}")

    def run(
        self,
        spark: SparkSession | None = None,
        *,
        flows: Sequence[str] = (),
        until: Literal["now"] | None = None,
        interval: str | None = None,
        conf: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> "Run":
        """Run the flows: for good, or `until="now"` to the present end of their sources.

        Without a session one is started, and stopped at the end. A given session is left running. Waits until all flows
        are done, unless `wait=False`. A flow that fails raises its error.

            run = pipeline.run(spark, until="now")
            run.progress()
        """
        from penstock.spark.pipelines.running.run import start

        found = start(self, spark, tuple(flows), until, {"interval": interval, "conf": dict(conf or {})})
        if wait:
            found.wait()
        return found

    def main(self, arguments: Sequence[str] | None = None) -> NoReturn:
        """Run as a program, with the flags of `penstock pipeline run`: `spark-submit shop.py --until-now`.

        Exit status: 0 done, 1 failed, 2 wrong use or an error in the code, 75 the sink belongs to another query.
        """
        from penstock.spark.pipelines.running.program import main

        main(self, arguments)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidArgument(f"{name[:60]!r}: a name has up to 27 letters, digits, _ and -")
    return name


def _sound(flow: Flow) -> Flow:
    """The flow itself, if it can be run."""
    if not flow.streams:
        raise InvalidArgument(f"{flow.sink} has no stream among its sources: a journal, or changes of a table")
    ends = list(flow.sinks.values())
    if len({type(each) for each in ends}) > 1 or len({each.url for each in ends if isinstance(each, PostgresSink)}) > 1:
        raise InvalidArgument(
            f"{flow.sink}: several sinks are committed together if all are tables of one branch of the lake, "
            "or all are journals, or all are tables of one database"
        )
    branches = {
        (url.repository, url.ref) for each in ends if isinstance(each, LakeSink) for url in [table_url(each.url)]
    }
    modes = {each.mode for each in ends if isinstance(each, LakeSink)}
    if len(branches) > 1 or len(modes) > 1:
        raise InvalidArgument(f"{flow.sink}: tables committed together are of one branch, and of one mode")
    return flow


def load_pipeline(file: Path) -> Pipeline:
    """Return the pipeline in a Python file: the only one it has at its top level.

    Modules next to the file can be imported, and travel to Spark's workers with it. An error in the file is
    `InvalidArgument`, with its line.
    """
    if not file.is_file():
        raise NotFound(f"no such file: {file}")
    spec = importlib.util.spec_from_file_location(f"penstock_pipeline_{file.stem}", file.resolve())
    if spec is None or spec.loader is None:
        raise InvalidArgument(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with UserCode(file.resolve()).blamed():
        spec.loader.exec_module(module)
    found = [value for value in vars(module).values() if isinstance(value, Pipeline)]
    if len(found) != 1:
        raise InvalidArgument(f"{file} has {len(found)} pipelines at its top level; expected one: Pipeline(...)")
    return found[0]
