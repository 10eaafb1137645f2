"""The versions of the files in a data folder, read before any of them is opened. Design: integrity.md D23.

A file's version is in its first bytes (`kernel/formats.py`). A file that is too short to have one, or has no magic, is
left to its owner, who knows whether that is damage or the rest of an interrupted start.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Final
from urllib.parse import quote

from penstock.kernel.errors import StorageError
from penstock.kernel.formats import FILES, KINDS, FileKind, VersionPlace, check_version

__all__ = ["check_versions", "files_of", "kind_of", "version_of"]

_MAGIC = Struct("<8sI")
_JSON_BYTES_MAX: Final = 1 << 20
_ROLES: Final = ("", "*/")  # a role's folder is the data folder, or in it


def check_versions(folder: Path) -> None:
    """Raise `FormatTooNew` if a file of the folder is newer than this release. Only reads."""
    for kind in KINDS:
        if kind.header in (VersionPlace.MAGIC, VersionPlace.SQLITE, VersionPlace.JSON):
            for path in files_of(kind, folder):
                found = version_of(kind, path)
                if found is not None:
                    check_version(kind, found, str(path))


def files_of(kind: FileKind, folder: Path) -> Iterator[Path]:
    """Return the files of one kind, those of the roles in the folder included."""
    for prefix in _ROLES:
        yield from sorted(path for path in folder.glob(prefix + kind.where) if path.is_file())


def kind_of(path: str) -> FileKind | None:
    """Return the kind of a file by its place in the data folder; None if no release put it there.

    >>> kind_of("n1/shards/main/log/00000000000000000001.wal").name
    'WAL segment'
    """
    return next((kind for kind, place in _places() if place.fullmatch(path)), None)


@cache
def _places() -> list[tuple[FileKind, re.Pattern[str]]]:
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}

    def pattern(where: str) -> str:
        parts = re.split(r"(\*\*/|\*\*|\*)", where)
        return "(?:[^/]+/)?" + "".join(words.get(part, re.escape(part)) for part in parts)

    return [(kind, re.compile(pattern(kind.where))) for kind in FILES]


def version_of(kind: FileKind, path: Path) -> int | None:
    """Return the version in the header of a file; None if it has none that this release knows."""
    if kind.header is VersionPlace.SQLITE:
        return _sqlite_version(kind, path)
    try:
        with path.open("rb") as file:
            head = file.read(_JSON_BYTES_MAX if kind.header is VersionPlace.JSON else _MAGIC.size)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}", next_step=f"ls -l {path}") from error
    match kind.header:
        case VersionPlace.MAGIC:
            magic, version = _MAGIC.unpack_from(head) if len(head) >= _MAGIC.size else (b"", 0)
            return int(version) if magic == kind.magic else None
        case VersionPlace.JSON:
            return _json_version(head)
        case _:
            return None


def _sqlite_version(kind: FileKind, path: Path) -> int | None:
    """Ask SQLite, which never closes a file while this process has it open elsewhere.

    A process loses all its locks on a file when it closes any descriptor of it (POSIX). Another process that closes the
    store would then count as the last one and remove the log, to which this process still writes.
    """
    if not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?immutable=1", uri=True)) as connection:
            application, version = (
                connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
            )
    except sqlite3.OperationalError as error:
        raise StorageError(f"{path} cannot be read: {error}", next_step=f"ls -l {path}") from error
    except sqlite3.DatabaseError:
        return None
    return int(version) if application == int.from_bytes(kind.magic, "big") else None


def _json_version(text: bytes) -> int | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    version = found.get("version", 1) if isinstance(found, dict) else None
    return version if isinstance(version, int) else None
