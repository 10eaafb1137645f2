"""End a flow at the present end of its journals, on a Spark that cannot do it alone. Design: spark-2.md V1.

Before Spark 4.2 a source limits its batches by itself, and Spark ends a query of such a source after one batch: also
after one that it repeats, because the driver died between the sink's commit and its own. So the option `untilOffsets`
says where the source ends, the query runs as any other, and a thread stops it at that end.
"""

import contextlib
import threading

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.pipelines.ends import JournalEnd
from penstock.spark.pipelines.pipeline import Flow
from penstock.spark.pipelines.running.flow_start import heads_of
from penstock.spark.versions import HAS_READ_LIMITS

__all__ = ["present_ends", "stop_when_read"]


def present_ends(flow: Flow) -> dict[str, str]:
    """Return for each source of journals where it ends now, as an option; nothing if Spark ends the flow itself."""
    if HAS_READ_LIMITS:
        return {}
    journals = {name: each for name, each in flow.streams.items() if isinstance(each, JournalEnd)}
    return {name: msgspec.json.encode(heads_of(each)).decode() for name, each in journals.items()}


def stop_when_read(query: StreamingQuery) -> None:
    """Stop a query when it has read everything, in a thread. The query itself keeps the error of one that fails."""

    def work() -> None:
        with contextlib.suppress(PySparkException):
            query.processAllAvailable()
            query.stop()

    threading.Thread(target=work, name="penstock-until-now", daemon=True).start()
