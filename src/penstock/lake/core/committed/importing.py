"""Import: existing objects become entries without being copied.

A listing of a store (an Arrow stream of path, address, size, ETag, mtime; content type and metadata if known) becomes
changes: a put for each object, and a tombstone for whatever the destination has below the imported prefix and the
listing has not, so that the prefix afterwards is what the store holds. Full addresses are never ours to delete; an
object of another repository was copied, and has an address of the own namespace.
"""

from collections.abc import Iterable
from typing import Final

import polars as pl
import pyarrow as pa

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.changes import deletes, newest, puts
from penstock.lake.core.committed.entry import ENTRY_SCHEMA, check_entries, empty_entries

__all__ = ["LISTING_COLUMNS", "import_changes", "imported_entries"]

LISTING_COLUMNS: Final = ("path", "address", "size", "etag", "mtime_ns")
_OPTIONAL: Final = ("content_type", "metadata")
_ADDRESS: Final = "://|^data/[0-9]{8}/"  # elsewhere in the store, or a copy in the own namespace


def imported_entries(batches: Iterable[pa.RecordBatch], destination: str = "") -> pl.DataFrame:
    """Return the listed objects as entries below `destination`, a literal prefix ("" or "raw/2026/")."""
    frames = [_entries_of(batch, destination) for batch in batches]
    entries = check_entries(newest(pl.concat(frames))) if frames else empty_entries()
    if not entries["address"].str.contains(_ADDRESS).all():
        raise InvalidArgument("an imported object needs a full address, as in s3://bucket/key, or the one of a copy")
    return entries


def _entries_of(batch: pa.RecordBatch, destination: str) -> pl.DataFrame:
    frame = pl.DataFrame(pa.Table.from_batches([batch]))
    missing = [name for name in LISTING_COLUMNS if name not in frame.columns]
    if missing:
        wanted = ", ".join(LISTING_COLUMNS)
        raise InvalidArgument(f"a listing has the columns {wanted}; this one lacks {', '.join(missing)}")
    absent = [pl.lit("").alias(name) for name in _OPTIONAL if name not in frame.columns]
    below = (pl.lit(destination) + pl.col("path")).alias("path")
    return frame.with_columns(below, *absent).select(ENTRY_SCHEMA.names()).cast(ENTRY_SCHEMA)


def import_changes(imported: pl.DataFrame, existing: pl.Series) -> pl.DataFrame:
    """Changes which make a prefix hold the imported entries and nothing else; `existing` are the paths it has now."""
    stale = existing.rename("path").to_frame().join(imported.select("path"), on="path", how="anti")["path"]
    return pl.concat([deletes(stale), puts(imported)]).sort("path")
