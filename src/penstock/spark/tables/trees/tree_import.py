"""Import of very many objects as a Spark job: entries become ranges in tasks, and one commit names them all.

    import_entries(spark, "lake://shop@main/raw/", listing)

`listing` is a DataFrame of path (below the URL's path), address (a full one, like s3://bucket/key), size, etag and
mtime_ns; content_type and metadata if known. Afterwards the branch has these objects below the path, and nothing else
there, as after an import by the lake itself: with the same ranges and the same ids, because where a range ends is
decided by its keys alone (committed.md). Tasks may be repeated: ranges are named by their content.
"""

import asyncio
import io
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.formats import LAKE_TREE
from penstock.lake.client.lake import LakeUrl, parse_lake_url
from penstock.lake.core.committed.entry import ENTRY_SCHEMA
from penstock.lake.core.committed.importing import LISTING_COLUMNS, imported_entries
from penstock.lake.core.committed.leaves.parts import TreePart, WrittenNodes, join_parts, split_part, written_root
from penstock.lake.core.committed.leaves.root import NODE_SCHEMA, Root
from penstock.lake.core.committed.metarange import Location, location_of
from penstock.lake.core.committed.range import NARROW_ENTRIES, frame_of, read_parquet, table_of, write_parquet
from penstock.lake.member.shelves import namespace_prefix
from penstock.lake.records.sink_batch import BatchOutcome, SinkPlace, TreeBody
from penstock.plumbing.objects import open_store
from penstock.spark.tables.lake_access import LakeAccess, access_from
from penstock.spark.tables.staging_place import place_of

__all__ = ["Imported", "import_entries"]

ENTRIES_PER_TASK: Final = 1_000_000  # in memory at once
PARTS: Final = "first string, part binary"
_OPTIONAL: Final = ("content_type", "metadata")


class Imported(msgspec.Struct, frozen=True):
    """What an import did."""

    commit: str
    tree: str  # the id of the imported tree, without what else the branch has
    entries: int


class _Part(msgspec.Struct, frozen=True, array_like=True):
    """A part as it travels to the driver: its head and tail as Parquet, if they have rows, and its nodes."""

    head: bytes
    nodes: bytes
    written: dict[str, int]
    tail: bytes
    is_closed: bool


def import_entries(
    spark: SparkSession,
    url: str,
    listing: DataFrame,
    *,
    message: str = "",
    metadata: Mapping[str, str] | None = None,
    tasks: int = 0,
    options: Mapping[str, str] | None = None,
) -> Imported:
    """Put listed objects in place of whatever a branch has below the URL's path. No object is copied or read."""
    access, target = access_from(options or {}), parse_lake_url(url)
    prefix = target.path if not target.path or target.path.endswith("/") else target.path + "/"
    place = place_of(access, target).place
    location = location_of(place.link_epoch, f"spark-{secrets.token_hex(8)}")
    columns = [*LISTING_COLUMNS, *(name for name in _OPTIONAL if name in listing.columns)]
    wanted = listing.select(*columns)
    count = tasks or max(1, -(-wanted.count() // ENTRIES_PER_TASK))

    def build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _build(batches, prefix, place, location)

    found = wanted.repartitionByRange(count, "path").mapInArrow(build, PARTS).collect()
    parts = [msgspec.msgpack.decode(row["part"], type=_Part) for row in sorted(found, key=lambda row: row["first"])]
    tree = _joined(parts, place, location)
    said = message or f"Import below {prefix}"
    query = secrets.token_hex(16)
    body = TreeBody(tree.id, location, query, prefix, said, dict(metadata or {}), LAKE_TREE.version)
    return Imported(_commit(access, target, body), tree.id, tree.nodes.count)


def _commit(access: LakeAccess, target: LakeUrl, body: TreeBody) -> str:
    answer = access.ask("POST", f"{target.branch_api}/sinks/trees", msgspec.to_builtins(body))
    return msgspec.convert(answer, BatchOutcome).commit


def _build(
    batches: Iterator[pa.RecordBatch], prefix: str, place: SinkPlace, location: Location
) -> Iterator[pa.RecordBatch]:
    """Runs in tasks: writes the ranges which are whole, and hands on the rest."""
    entries = imported_entries(batches, prefix)
    if not entries.height:
        return
    own = namespace_prefix(place.store) + place.folder
    inside = entries.filter(pl.col("address").str.starts_with(own))
    if inside.height:  # the collector may have condemned it; a name for it would outlive it (lake.md L15)
        raise InvalidArgument(f"{inside['address'][0]!r} lies in the repository's own folder {own}")
    made = split_part(entries, location)
    _put(place, made.made.objects)
    nodes = _nodes_as_bytes(made.made.nodes)
    part = _Part(_parquet(made.head), nodes, made.made.written, _parquet(made.tail), made.is_closed)
    columns = [pa.array([entries["path"][0]], pa.string()), pa.array([msgspec.msgpack.encode(part)], pa.binary())]
    yield pa.RecordBatch.from_arrays(columns, names=["first", "part"])


def _joined(parts: Iterable[_Part], place: SinkPlace, location: Location) -> Root:
    """Runs on the driver: the tree, written and durable."""
    read = (_part_of(each) for each in parts)
    nodes: list[pl.DataFrame] = []
    written: dict[str, int] = {}
    for made in join_parts(read, location):
        _put(place, made.objects)
        nodes.append(made.nodes)
        written |= made.written
    root, objects = written_root(nodes, written, location)
    _put(place, objects)
    return root


def _part_of(part: _Part) -> TreePart:
    made = WrittenNodes({}, _nodes_of(part.nodes), part.written)
    return TreePart(_rows(part.head), made, _rows(part.tail), part.is_closed)


def _nodes_as_bytes(nodes: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    nodes.write_ipc(file)
    return file.getvalue()


def _nodes_of(data: bytes) -> pl.DataFrame:
    return pl.read_ipc(data).cast(NODE_SCHEMA)


def _put(place: SinkPlace, objects: Mapping[str, memoryview]) -> None:
    if not objects:
        return

    async def put_all() -> None:
        async with open_store(place.store) as store:
            for key, data in objects.items():
                await store.put(place.folder + key, data)

    asyncio.run(put_all())


def _parquet(rows: pl.DataFrame) -> bytes:
    return bytes(write_parquet(table_of(rows))) if rows.height else b""


def _rows(data: bytes) -> pl.DataFrame:
    if not data:
        return pl.DataFrame(schema=ENTRY_SCHEMA)
    return frame_of(read_parquet(data, NARROW_ENTRIES, "a part of a tree"))
