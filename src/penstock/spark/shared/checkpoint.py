"""What a streaming query's checkpoint says of a batch: its plan, written before any task ran. Design: spark.md.

A sink knows the checkpoint's location if it was given as an option. Only local folders are looked into; elsewhere a
batch has no guard, and the register's numbers alone tell a replay.
"""

import hashlib
import json
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from penstock.kernel.errors import NotFound

__all__ = ["CheckpointState", "Plan", "plan_of", "state_of"]

OFFSETS_MAX: Final = 8 << 10  # of the text in a commit's metadata


class Plan(msgspec.Struct, frozen=True):
    """A batch's plan: its digest, and the offsets of the sources up to which it reads."""

    guard: str = ""
    offsets: str = ""


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
    except OSError:
        return Plan()
    lines = data.decode("utf-8", "replace").splitlines()
    offsets = "\n".join(lines[2:])  # a version, then the plan's settings, then one line for each source
    return Plan(hashlib.sha256(data).hexdigest(), offsets if len(offsets) <= OFFSETS_MAX else "")


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
