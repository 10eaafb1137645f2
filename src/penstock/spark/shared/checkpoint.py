"""What a streaming query's checkpoint says of a batch: its plan, written before any task ran. Design: spark.md.

A sink knows the checkpoint's location if it was given as an option. Only local folders are looked into; elsewhere a
batch has no guard, and the register's numbers alone tell a replay.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from penstock.kernel.errors import NotFound
from penstock.spark.shared.offsets import begin_of, end_of, positions_text

__all__ = ["CheckpointState", "Plan", "plan_of", "state_of"]

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


def plan_of(location: str | None, batch: int) -> Plan:
    """Return the plan of a batch in its checkpoint; an empty one if it cannot be read."""
    folder = _folder(location)
    if folder is None:
        return Plan()
    try:
        data = (folder / "offsets" / str(batch)).read_bytes()
        before = (folder / "offsets" / str(batch - 1)).read_bytes() if batch else b""
    except OSError:
        return Plan()
    lines, last = _lines(data), _lines(before)
    offsets = "\n".join(lines)
    begins = [end_of(_parsed(each)) for each in last] if batch else [begin_of(_parsed(each)) for each in lines]
    ends = positions_text([end_of(_parsed(each)) for each in lines])
    kept = offsets if len(offsets) <= OFFSETS_MAX else ""
    return Plan(hashlib.sha256(data).hexdigest(), kept, positions_text(begins), ends)


def _lines(data: bytes) -> list[str]:
    """Return the offset of each source: a version comes first, and the plan's settings."""
    return data.decode("utf-8", "replace").splitlines()[2:]


def _parsed(line: str) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return line


def state_of(location: str) -> CheckpointState:
    """Return the query of a checkpoint, and its progress."""
    folder = _folder(location)
    if folder is None or not (folder / "metadata").is_file():
        raise NotFound(f"{location} is no checkpoint of a streaming query in a local folder")
    query = json.loads((folder / "metadata").read_text())["id"]
    return CheckpointState(query, _newest(folder / "offsets"), _newest(folder / "commits"))


def _newest(folder: Path) -> int:
    return max((int(each.name) for each in folder.glob("[0-9]*") if each.name.isdigit()), default=-1)


def _folder(location: str | None) -> Path | None:
    if not location:
        return None
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return None
    return Path(unquote(parts.path)) if parts.scheme else Path(location)
