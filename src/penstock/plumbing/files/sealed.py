"""Small JSON files with their version and their sum as fields. Design: integrity.md D8.

    {"version": 1, …, "crc32c": "5d1f20c3"}

People can read such a file. An edit by hand is noticed, because the sum is over all other fields.
"""

import json
from pathlib import Path
from typing import Any, Final

import google_crc32c

from penstock.kernel.errors import DataDamaged, StorageError
from penstock.kernel.formats import FileKind, check_version
from penstock.plumbing.files.whole import create_whole, write_whole
from penstock.plumbing.ports.disk import FileSystem, LocalDisk

__all__ = ["create_sealed", "read_sealed", "write_sealed"]

_CRC: Final = "crc32c"


def write_sealed(
    kind: FileKind, path: Path, fields: dict[str, Any], *, mode: int = 0o644, disk: FileSystem | None = None
) -> None:
    """Replace the file; return when that is durable. The folder is made if missing. `disk`: a role's port."""
    try:
        (disk or LocalDisk()).make_folders(path.parent)
        write_whole(path, _seal(kind, fields), mode=mode, disk=disk)
    except OSError as error:
        raise _cannot("written", path, error) from error


def create_sealed(kind: FileKind, path: Path, fields: dict[str, Any], *, mode: int = 0o644) -> bool:
    """Make the file unless it exists; return whether this call made it. The folder is made if missing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return create_whole(path, _seal(kind, fields), mode=mode)
    except OSError as error:
        raise _cannot("written", path, error) from error


def read_sealed(kind: FileKind, path: Path, disk: FileSystem | None = None) -> dict[str, Any] | None:
    """Return the fields, without version and sum; None if there is no file. Only reads.

    `FormatTooNew`: another release wrote it. `DataDamaged`: it is not the file that was written. A file without a sum
    is of a release before sums, or of a person.
    """
    try:
        data = (disk or LocalDisk()).read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _cannot("read", path, error) from error
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise _damaged(path, str(error)) from None
    version = fields.get("version", 1) if isinstance(fields, dict) else None
    if not isinstance(version, int):
        raise _damaged(path, "it is no JSON object with a version")
    check_version(kind, version, str(path))  # first: a newer version may have another sum
    said = fields.pop(_CRC, None)
    if said is not None and said != _sum(fields):
        raise _damaged(path, f"its sum is {_sum(fields)}, and it says {said}")
    fields.pop("version", None)
    return dict(fields)


def _seal(kind: FileKind, fields: dict[str, Any]) -> bytes:
    fields = {"version": kind.version, **fields}
    return json.dumps({**fields, _CRC: _sum(fields)}, indent=2).encode() + b"\n"


def _sum(fields: dict[str, Any]) -> str:
    """Return the sum over the fields, whatever their order and the spaces between them."""
    return f"{google_crc32c.value(json.dumps(fields, sort_keys=True).encode()):08x}"


def _cannot(what: str, path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path} cannot be {what}: {error.strerror or error}",
        next_step=f"check who owns {path.parent}, and its disk",
        file=str(path),
    )


def _damaged(path: Path, why: str) -> DataDamaged:
    return DataDamaged(
        f"{path} is not the file that Penstock wrote: {why}",
        next_step=f"restore it from a backup; after an edit by hand, remove the field {_CRC}",
        file=str(path),
    )
