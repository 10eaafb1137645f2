"""The parts of a sink's batch, between the writer of its files and the lake that commits them. Design: spark.md.

The list of a batch's files is one object of the store, named by its content (`scratch/sinks/<SHA-256>`): tasks write
files, the driver writes the list, and one small request names it. A list that is never committed is gone after a day.
"""

import hashlib
import re
from typing import Annotated, Final, Literal

import msgspec

from penstock.kernel.bounds import INT64_MAX, Address, Metadata, Name, Numbered, Paragraph, Size
from penstock.kernel.codec import Codec
from penstock.kernel.errors import InvalidArgument, ObjectStoreFailed

__all__ = [
    "ANY_BASE",
    "STORE_MARK",
    "TABLE_SCHEMA",
    "BatchBody",
    "BatchFile",
    "BatchOutcome",
    "BatchTable",
    "Roots",
    "SinkBody",
    "SinkPlace",
    "TreeBody",
    "TreePlace",
    "decode_list",
    "encode_list",
    "list_key",
    "staged_address",
]

TABLES_MAX: Final = 1000
ANY_BASE: Final = "any"
TABLE_SCHEMA: Final = "_penstock_schema.json"  # in a table's folder; readers pass over names that begin with _
STORE_MARK: Final = "scratch/store"  # a key of the store itself
_ID: Final = re.compile(r"[0-9a-f]{64}")


class BatchFile(msgspec.Struct, frozen=True, array_like=True):
    """A file which a task has written: the path it is to have, and where its bytes are, below the repository."""

    path: Name
    address: Name
    size: Size
    etag: Name
    rows: Numbered = 0
    host: Name = ""  # of the task that wrote it


class BatchTable(msgspec.Struct, frozen=True, array_like=True):
    """What a batch does below one prefix: adds files, or replaces everything there with them.

    `expects` are paths with the ETag that each must still have (empty: no such path). A batch replaces a
    table only as it was in the commit `base`, or any table with the base `any`.
    """

    prefix: Name
    files: tuple[BatchFile, ...] = ()
    replaces: bool = False
    expects: tuple[tuple[Name, Name], ...] = ()
    base: Name = ""


class BatchBody(msgspec.Struct, frozen=True):
    """A batch to be committed. Without a sink the query is an id of its own: calling again does nothing."""

    list: Name
    query: Name
    sink: Name = ""
    batch: Numbered = 0
    guard: Name = ""
    message: Paragraph = ""
    metadata: Metadata = {}
    begins: Address = ""  # positions in the sources after which the batch reads; empty: unknown
    ends: Address = ""  # positions at its end


class TreeBody(msgspec.Struct, frozen=True):
    """A tree which was built elsewhere, to be committed below a prefix. Its ranges are all in its own location."""

    tree: Name  # the metarange's id
    location: Name
    query: Name  # an id of the job: calling again does nothing
    prefix: Name = ""
    message: Paragraph = ""
    metadata: Metadata = {}
    format: Numbered = 2  # of the tree


class BatchOutcome(msgspec.Struct, frozen=True):
    """What became of it. A batch without rows has no commit of its own: it names the head."""

    outcome: Literal["applied", "replayed"]
    commit: Name


class SinkPlace(msgspec.Struct, frozen=True):
    """Where files of a branch go: tasks write below `data` of the folder, in the store."""

    store: Address  # its URL
    folder: Name  # of the repository in it; ends in "/"
    data: Name  # below that folder: where new files may go; ends in "/"
    mark: Name = ""  # content of the object `STORE_MARK` in a store that is a folder; a task compares it

    @property
    def link_epoch(self) -> int:
        """The epoch under which whatever is written now is addressed.

        >>> SinkPlace("file:///lake", "shop/", "data/00000003/").link_epoch
        3
        """
        return int(self.data.strip("/").rpartition("/")[2])


class SinkBody(msgspec.Struct, frozen=True):
    """A sink with its register, as it is shown, and as it is set by adopting."""

    sink: Name
    query: Name
    batch: Annotated[int, msgspec.Meta(ge=-1, le=INT64_MAX)]  # -1: none yet, so the query begins with batch 0
    guard: Name = ""
    commit: Name = ""
    ends: Address = ""  # positions in its sources where its last batch ended; empty: unknown


class TreePlace(msgspec.Struct, frozen=True):
    """Where the tree of a commit is, for a process that reads its files by itself."""

    commit: Name
    store: Address
    folder: Name
    storage: Address  # the repository's namespace: how full addresses of its own files begin
    prefix: Address  # how full addresses in this store begin
    metarange: Name  # a key below the folder; empty for an empty tree


class Roots(msgspec.Struct, frozen=True):
    """What a repository's garbage is found by. Keys are below the folder; staged addresses are as they are stored."""

    store: Address  # its URL
    folder: Name
    storage: Address  # how full addresses of the repository's own objects begin
    gce: Numbered  # objects addressed under this epoch, or a later one, are not garbage yet
    metaranges: tuple[Name, ...]  # of trees which are kept with all they contain
    trees_only: tuple[Name, ...]  # of those whose objects are given up
    staged: tuple[Address, ...]


_codec: Codec[tuple[BatchTable, ...]] = Codec(tuple[BatchTable, ...])


def encode_list(tables: tuple[BatchTable, ...]) -> tuple[str, bytes]:
    """The list as bytes, and its id."""
    data = _codec.encode(tables)
    return hashlib.sha256(data).hexdigest(), data


def list_key(id_: str) -> str:
    if not _ID.fullmatch(id_):
        raise InvalidArgument(f"{id_[:100]!r} is no list of a batch: its id has 64 hexadecimal digits")
    return f"scratch/sinks/{id_}"


def decode_list(id_: str, data: bytes | memoryview) -> tuple[BatchTable, ...]:
    """Return the tables in a list, if it is the one that the id names."""
    if hashlib.sha256(data).hexdigest() != id_:
        raise ObjectStoreFailed(f"the list {id_} of a batch holds something else", retryable=False)
    tables = _codec.decode(bytes(data))
    if len(tables) > TABLES_MAX:
        raise InvalidArgument(f"a batch has {TABLES_MAX} tables at most, not {len(tables)}")
    return tables


def staged_address(data: str, attempt: str, number: int) -> str:
    """Return the place of the nth file of a task's attempt. Attempts are random: no two ever write to the same place.

    >>> staged_address("data/00000003/", "5f3c", 2)
    'data/00000003/5f3c-00002.parquet'
    """
    return f"{data}{attempt}-{number:05d}.parquet"
