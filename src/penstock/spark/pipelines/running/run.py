"""A run of a pipeline from Python: for notebooks, spark-submit, Airflow and Dagster. Design: spark-2.md P2.

    run = pipeline.run(spark, until="now")
    run.progress()

A session that was given is left as it was. A session that the run started ends with the run.
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from pyspark.sql import SparkSession

from penstock.kernel.errors import NotFound, PenstockError
from penstock.plumbing.config import Effective, load
from penstock.plumbing.process.running import running_in
from penstock.spark import register
from penstock.spark.connection import wire_options
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.pipelines.running.pipeline_run import FlowProgress, PipelineRun
from penstock.spark.pipelines.running.settings import RunSettings, apply_conf, settle
from penstock.spark.session import spark_session
from penstock.spark.tables.lake_access import access_from

__all__ = ["SPARK_LOG", "Run", "connect", "start"]

SPARK_LOG: Final = "spark.log"


class Run:
    """The flows of a pipeline as they run. Leaving it as a context manager stops them."""

    def __init__(self, work: PipelineRun, end: ExitStack) -> None:
        self._work = work
        self._end = end
        self.failures: dict[str, PenstockError] = {}

    @property
    def notes(self) -> list[str]:
        """Lines about flows that had no checkpoint, and where they begin."""
        return self._work.notes

    @property
    def flows(self) -> list[str]:
        return [flow.name for flow in self._work.flows]

    def progress(self) -> list[FlowProgress]:
        """Return for each flow its newest batch, its rows, and its lag."""
        return list(self._work.progress())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all flows are done, and return True; False after `timeout` seconds. Raises a flow's failure."""
        try:
            is_done = self._work.watch(lambda progress: None, timeout)
        except PenstockError as error:
            self.failures[str(error.details.get("flow", ""))] = error
            self._end.close()
            raise
        except BaseException:
            self._end.close()
            raise
        if is_done:
            self._end.close()
        return is_done

    def stop(self) -> None:
        """Stop all flows after the batch that they are at, and the session if this run started it."""
        self._work.stop()
        self._end.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(
    pipeline: Pipeline,
    spark: SparkSession | None,
    flows: tuple[str, ...],
    until: str | None,
    flags: Mapping[str, Any],
) -> Run:
    """Start the flows of a pipeline, in a session of the caller or in a new one."""
    effective = load(environment=os.environ)
    settings = settle(pipeline, flags, effective.config.pipeline.settings, str(effective.file or "the environment"))
    connect(pipeline, effective, settings)
    pipeline.chosen(flows)
    given = spark or SparkSession.getActiveSession()
    with ExitStack() as stack:
        if given is None:
            log = effective.config.data.folder / SPARK_LOG
            given = stack.enter_context(
                spark_session(
                    pipeline.name, master=settings.master, remote=settings.remote, settings=settings.conf, log=log
                )
            )
        else:
            apply_conf(given, settings.conf)
            register(given)
        work = PipelineRun(given, pipeline, flows)
        stack.callback(work.stop)
        work.start(once=until == "now", settings=settings)
        return Run(work, stack.pop_all())


def connect(pipeline: Pipeline, effective: Effective, settings: RunSettings) -> None:
    """Say to a pipeline where brokers, lake and checkpoints are, as the configuration has it."""
    config = effective.config
    up = running_in(config.data.folder)
    named = os.environ.get("PENSTOCK_BROKERS", "") or (up.broker if up is not None else "")
    try:
        lake = access_from({}, effective).options
    except NotFound:
        lake = {}  # its flows may need no lake, or name their own
    pipeline.connect({**({"brokers": named} if named else {}), **wire_options(config)}, lake)
    pipeline.checkpoints = settings.checkpoints or str(Path(config.data.folder, "pipelines", pipeline.name))
