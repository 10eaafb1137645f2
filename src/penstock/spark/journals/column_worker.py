"""A Python worker which reads a range for Java, and sends columns: what `jvm/WorkerReader.java` talks to.

In: length and bytes of a pickled request (options, schema, Range or LineSpans), then of the columns' names, joined by
newlines, then of the offset from which on lines are read. Out: an Arrow stream of these columns, then length and bytes
of why it failed, nothing if it did not. Spark's daemon (`pyspark_journal.columns`) calls `main` once for each request;
a worker serves many.
"""

import json
import pickle
import struct
import sys
import traceback
from typing import IO, Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.kernel.errors import PenstockError
from penstock.spark.journals.line_places import LineSpans, SpansReader
from penstock.spark.journals.ranges import Range, RangeReader, shared_access
from penstock.spark.options import SourceOptions
from penstock.spark.shared.schemas import arrow_schema

__all__ = ["main"]

_LENGTH: Final = struct.Struct(">i")


def main(requests: IO[bytes], columns: IO[bytes]) -> None:
    """Serve one request."""
    options, schema, part = pickle.loads(_receive(requests))
    names = [name for name in _receive(requests).decode().split("\n") if name]
    begin = int(_receive(requests))
    full = arrow_schema(StructType.fromJson(json.loads(schema)))
    wanted = pa.schema([full.field(name) for name in names or full.names[:1]])  # a row count needs some column
    failure = ""
    with pa.ipc.new_stream(columns, wanted) as stream:
        try:
            _send(stream, options, part, begin, full, wanted)
        except PenstockError as error:
            failure = f"{type(error).__name__}: {error}"
        except Exception:  # whatever the error, the task must get it
            failure = traceback.format_exc()
    content = failure.encode()
    columns.write(_LENGTH.pack(len(content)) + content)
    columns.flush()


def _send(stream: Any, options: SourceOptions, part: Range | LineSpans, begin: int, full: Any, wanted: Any) -> None:
    """The rows. Columns of CSV have no names in it: there all are read, and some are sent."""
    access = shared_access(options.connection)
    if isinstance(part, LineSpans):
        for batch in SpansReader(access, part, wanted).batches(begin):
            stream.write_batch(batch)
        return
    read = full if part.framing == "csv" else wanted
    reader = RangeReader(access, options, part, read, use_threads=False, is_ordered=False)
    for batch in reader.batches():
        stream.write_batch(batch if read is wanted else batch.select(wanted.names))


def _receive(requests: IO[bytes]) -> bytes:
    head = requests.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        sys.exit(-1)  # no more requests; PySpark's own workers end like this, too
    (length,) = _LENGTH.unpack(head)
    return requests.read(length)
