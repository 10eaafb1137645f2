"""Kinds of files: the name, the place and the versions of each file that Penstock keeps. Design: integrity.md D23.

A release reads every version from `reads` to `version`. It refuses a newer one with `FormatTooNew`, and changes no byte
of the folder. A file's version is found without its checksum, because a newer version may be summed in another way.
"""

from enum import Enum, auto
from typing import Final

import msgspec

from penstock.kernel.errors import FormatTooNew
from penstock.kernel.version import VERSION

__all__ = [
    "CREDENTIALS",
    "DATA_FOLDER",
    "FILES",
    "KEYSPACE",
    "KINDS",
    "LAKE_CHECKPOINT",
    "LAKE_COMMIT",
    "LAKE_TREE",
    "NODE_OWNER",
    "NODE_STATE",
    "SEEN_KEYSPACE",
    "SNAPSHOT",
    "SPOOL_STATE",
    "WAL_SEGMENT",
    "WITNESS",
    "FileKind",
    "FileTruth",
    "VersionPlace",
    "check_version",
    "kind_of_tag",
]


class VersionPlace(Enum):
    """Where a file says its version."""

    MAGIC = auto()  # 8 bytes of magic, then the version as a little-endian u32
    SQLITE = auto()  # `application_id` and `user_version` in the first page
    JSON = auto()  # the field `version`; 1 without it
    RECORD = auto()  # in the first record: its owner checks it
    NONE = auto()  # nowhere: the name or another file says all about it
    TAG = auto()  # an object: the tag of its one record is the magic, a hyphen, and the version


class FileTruth(Enum):
    """The loss if a file is gone."""

    ORIGINAL = auto()  # data that nothing else has
    REPLICATED = auto()  # data that peers have too
    COPY = auto()  # something that can be fetched again
    DISPOSABLE = auto()  # nothing


class FileKind(msgspec.Struct, frozen=True):
    """One kind of file."""

    name: str
    where: str  # a pattern below the folder of the role that keeps it
    header: VersionPlace
    magic: bytes
    version: int  # of the files that this release writes
    reads: int = 1  # the oldest version that this release reads
    truth: FileTruth = FileTruth.ORIGINAL


DATA_FOLDER: Final = FileKind("data folder", "penstock.json", VersionPlace.JSON, b"", 1)
KEYSPACE: Final = FileKind("KeySpace", "keyspace/store.sqlite", VersionPlace.SQLITE, b"PENS", 1)
WITNESS: Final = FileKind("witness", "keyspace/witness", VersionPlace.MAGIC, b"PENSWITN", 1)
SEEN_KEYSPACE: Final = FileKind(
    "note of the KeySpace", "seen-keyspace.json", VersionPlace.JSON, b"", 1, truth=FileTruth.COPY
)
NODE_OWNER: Final = FileKind("node name", "node", VersionPlace.MAGIC, b"PENSTATE", 1, truth=FileTruth.REPLICATED)
NODE_STATE: Final = FileKind(
    "node registers", "shards/*/state", VersionPlace.MAGIC, b"PENSTATE", 1, truth=FileTruth.REPLICATED
)
WAL_SEGMENT: Final = FileKind(
    "WAL segment", "shards/*/log/*.wal", VersionPlace.MAGIC, b"PENSTWAL", 1, truth=FileTruth.REPLICATED
)
SNAPSHOT: Final = FileKind(  # version 0 is the snapshot of level 0: a checksum and the content, without a header
    "snapshot", "shards/*/snapshots/*.snapshot", VersionPlace.MAGIC, b"PENSSNAP", 1, 0, FileTruth.REPLICATED
)
SPOOL_STATE: Final = FileKind("Spool state", "**/#spool/state", VersionPlace.RECORD, b"", 1, truth=FileTruth.REPLICATED)
CREDENTIALS: Final = FileKind("keys of the lake", "lake-credentials.json", VersionPlace.JSON, b"", 1)
LAKE_CHECKPOINT: Final = FileKind(
    "checkpoint of the lake", "_penstock/lake/*/*", VersionPlace.TAG, b"lake-checkpoint", 1, truth=FileTruth.DISPOSABLE
)
LAKE_COMMIT: Final = FileKind("commit of the lake", "*/_penstock/commits/*", VersionPlace.TAG, b"commit", 2)
LAKE_TREE: Final = FileKind("tree of the lake", "*/_penstock/*/*/root-*.parquet", VersionPlace.RECORD, b"", 3, reads=2)

KINDS: Final = (  # with versions; `penstock.json` lists them
    DATA_FOLDER,
    KEYSPACE,
    WITNESS,
    SEEN_KEYSPACE,
    NODE_OWNER,
    NODE_STATE,
    WAL_SEGMENT,
    SNAPSHOT,
    SPOOL_STATE,
    CREDENTIALS,
    LAKE_CHECKPOINT,
    LAKE_COMMIT,
    LAKE_TREE,
)


def _plain(name: str, where: str, truth: FileTruth = FileTruth.DISPOSABLE) -> FileKind:
    return FileKind(name, where, VersionPlace.NONE, b"", 0, 0, truth)


FILES: Final = (  # every kind of file in a data folder; the first one that fits counts
    *KINDS,
    _plain("quarantined file", "quarantine/**", FileTruth.ORIGINAL),
    _plain("sums of an object", "**/.penstock/sums/**"),
    _plain("lock of an object store", "**/.penstock/locks/*"),
    _plain("unfinished object", "**/.penstock/staging/**"),
    _plain("KeySpace log", "keyspace/store.sqlite-wal", FileTruth.ORIGINAL),
    _plain("KeySpace map", "keyspace/store.sqlite-shm"),
    _plain("KeySpace lock", "keyspace/writer.lock"),
    _plain("KeySpace pipe", "keyspace/wake/*"),
    _plain("WAL witness", "shards/*/log.witness", FileTruth.COPY),
    _plain("WAL lock", "shards/*/log/LOCK"),
    _plain("lost transactions", "shards/*/lost/**", FileTruth.ORIGINAL),
    _plain("replica set aside", "set-aside/**", FileTruth.ORIGINAL),
    _plain("open content of a Spool", "spools/**/#spool/open-*", FileTruth.REPLICATED),
    _plain("finished fragment in a Spool", "spools/**/#spool/final/**", FileTruth.REPLICATED),
    _plain("content set aside", "spools/**/#aside/*", FileTruth.ORIGINAL),
    _plain("stored fragment", "fragments/**", FileTruth.ORIGINAL),
    _plain("index of a tree of the lake", "**/_penstock/*/*/index-*.parquet", FileTruth.ORIGINAL),
    _plain("pack of a tree of the lake", "**/_penstock/*/*/pack-*.parquet", FileTruth.ORIGINAL),
    _plain("range of the lake", "**/_penstock/*/*.parquet", FileTruth.ORIGINAL),
    _plain("bytes of the lake", "objects/**/data/*/*", FileTruth.ORIGINAL),
    _plain("note of the garbage collector", "**/_penstock/*", FileTruth.COPY),
    _plain("scratch of the lake", "objects/scratch/**"),
    _plain("lock of the folder", "up.lock"),
    _plain("addresses of the roles", "up.json"),
    _plain("log of the server", "server.log"),
)


def check_version(kind: FileKind, found: int, where: str) -> None:
    """Raise `FormatTooNew` unless this release reads that version of the kind.

    >>> check_version(WAL_SEGMENT, 1, "log/1.wal")
    """
    if kind.reads <= found <= kind.version:
        return
    reads = str(kind.version) if kind.reads == kind.version else f"{kind.reads} to {kind.version}"
    raise FormatTooNew(
        f"{where} ({kind.name}) has version {found}; this is Penstock {VERSION}, which reads version {reads}",
        next_step="start the release of Penstock that wrote it; no byte was changed",
        file=where,
        kind=kind.name,
        version=found,
    )


def kind_of_tag(tag: object) -> tuple[str, int] | None:
    """Return the name and the version in the tag of a record, as `lake-checkpoint-1` has them.

    >>> kind_of_tag("lake-checkpoint-2")
    ('lake-checkpoint', 2)
    """
    if not isinstance(tag, str):
        return None
    name, _, version = tag.rpartition("-")
    return (name, int(version)) if name and version.isascii() and version.isdigit() and len(version) < 9 else None
