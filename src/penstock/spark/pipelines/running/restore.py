"""Have a flow continue on a machine without its checkpoint, or with an old one. Design: spark-2.md P4.

The sink's register knows where the last commit ended, and commits chain by it. So a flow that keeps no state needs no
checkpoint: an old one is set aside, and the next run continues after the last commit under a new query. The driver of
before may still live. Its next batch is refused, because the sink then belongs to the new query.
"""

import secrets

from pyspark.sql import SparkSession

from penstock.kernel.errors import PreconditionFailed
from penstock.spark.pipelines.pipeline import Flow, Pipeline
from penstock.spark.pipelines.running.flow_start import start_of
from penstock.spark.pipelines.running.pipeline_run import publisher_of
from penstock.spark.shared.checkpoint import find_state
from penstock.spark.shared.checkpoint_files import files_at

__all__ = ["restore"]


def restore(spark: SparkSession, pipeline: Pipeline, flow: Flow) -> str:
    """Set the checkpoint of a flow aside, and return where the flow will continue.

    `PreconditionFailed` if it cannot continue from its sink: because it keeps state, or reads more than journals.
    """
    checkpoint = pipeline.checkpoint_of(flow)
    register = publisher_of(flow, "").register()
    if register is None or not register.ends:
        raise PreconditionFailed(
            f"{flow.sink} has committed nothing that says where it ended: there is nothing to restore",
            next_step="penstock pipeline run",
        )
    note = start_of(spark, flow, register).note  # refuses a flow that cannot continue there
    state = find_state(checkpoint, spark)
    files = files_at(checkpoint, spark)
    if state is None or files is None:
        return note
    kept = files.set_aside(f".before-{secrets.token_hex(4)}")
    return f"{note}; the checkpoint of query {state.query} is kept in {kept}"
