"""What a streaming query's checkpoint says of a batch: its plan, written before any task ran. Design: spark.md.

A sink knows the checkpoint's location if it was given as an option. A local folder is read as it is, any other URL by
the file systems of a session (`checkpoint_files.py`). Without a session such a batch has no guard, and the register's
numbers alone tell a replay.
"""

import hashlib
import json
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession

from penstock.kernel.errors import NotFound
from penstock.spark.shared.checkpoint_files import CheckpointFiles, files_at
from penstock.spark.shared.offsets import begin_of, end_of, positions_text

__all__ = ["CheckpointState", "Plan", "find_state", "offset_of", "plan_of", "state_of"]

OFFSETS_MAX: Final = 8 << 10  # of the text in a commit's metadata


class Plan(msgspec.Struct, frozen=True):
    """A batch's plan: its digest, the offsets up to which it reads, and the positions at its begin and at its end."""

    guard: str = ""
    offsets: str = ""
    begins: str = ""
    ends: str = ""


class CheckpointState(msgspec.Struct, frozen=True):
    """A checkpoint: its query, the last batch which was planned, and the last one Spark knows as done."""

    query: str
    planned: int
    committed: int


def plan_of(location: str | None, batch: int, spark: SparkSession | None = None) -> Plan:
    """Return the plan of a batch in its checkpoint; an empty one if it cannot be read."""
    files = files_at(location, spark)
    data = files.read(f"offsets/{batch}") if files is not None else None
    before = files.read(f"offsets/{batch - 1}") if files is not None and batch else b""
    if data is None or before is None:
        return Plan()
    lines, last = _lines(data), _lines(before)
    offsets = "\n".join(lines)
    begins = [end_of(_parsed(each)) for each in last] if batch else [begin_of(_parsed(each)) for each in lines]
    ends = positions_text([end_of(_parsed(each)) for each in lines])
    kept = offsets if len(offsets) <= OFFSETS_MAX else ""
    return Plan(hashlib.sha256(data).hexdigest(), kept, positions_text(begins), ends)


def offset_of(location: str, batch: int, spark: SparkSession | None = None) -> dict[str, Any]:
    """Return the offset of the first source in the plan of a batch; an empty one before the first."""
    files = files_at(location, spark)
    data = files.read(f"offsets/{batch}") if files is not None and batch >= 0 else None
    found = _parsed(_lines(data)[0]) if data is not None else {}
    return found if isinstance(found, dict) else {}


def _lines(data: bytes) -> list[str]:
    """Return the offset of each source: a version comes first, and the plan's settings."""
    return data.decode("utf-8", "replace").splitlines()[2:]


def _parsed(line: str) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return line


def state_of(location: str, spark: SparkSession | None = None) -> CheckpointState:
    """Return the query of a checkpoint, and its progress."""
    found = find_state(location, spark)
    if found is None:
        raise NotFound(f"{location} is no checkpoint of a streaming query that can be read from here")
    return found


def find_state(location: str, spark: SparkSession | None = None) -> CheckpointState | None:
    """Return the same, and None where no query has begun."""
    files = files_at(location, spark)
    metadata = files.read("metadata") if files is not None else None
    if files is None or metadata is None:
        return None
    return CheckpointState(json.loads(metadata)["id"], _newest(files, "offsets"), _newest(files, "commits"))


def _newest(files: CheckpointFiles, folder: str) -> int:
    return max((int(each) for each in files.names(folder) if each.isdigit()), default=-1)
