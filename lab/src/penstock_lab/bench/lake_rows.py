"""Rows for the lake's benchmarks: many staged objects, made by column, the same in every run."""

import numpy as np
import polars as pl

from penstock.lake.core.committed.entry import ENTRY_SCHEMA

__all__ = ["appended", "clustered", "made_rows", "scattered"]

_PARTITION_OBJECTS = 5_000  # of one folder, as a table with a partition a day has


def made_rows(count: int, *, seed: int = 1) -> pl.DataFrame:
    """Entries of a table's files, in the order a busy cluster may stage them: none."""
    number = pl.col("number")
    text = pl.Series("number", np.random.default_rng(seed).permutation(count)).to_frame()
    return text.select(
        path=pl.format(
            "tables/events/dt={}/part-{}.parquet",
            (number // _PARTITION_OBJECTS).cast(pl.String).str.zfill(6),
            number.cast(pl.String).str.zfill(8),
        ),
        address=pl.format("data/00000001/{}", _scrambled(number).cast(pl.String).str.zfill(20)),
        size=number * 37 % 1_000_003,
        etag=pl.format("{}{}", _scrambled(number).cast(pl.String).str.zfill(20), number.cast(pl.String).str.zfill(12)),
        mtime_ns=(number + 1_700_000_000) * 1_000_000_000,
        content_type=pl.lit("application/vnd.apache.parquet"),
        metadata=pl.lit(""),
    ).match_to_schema(ENTRY_SCHEMA)


def _scrambled(number: pl.Expr) -> pl.Expr:
    """Digits which do not compress, as those of an ETag or a random name."""
    return number.cast(pl.UInt64).hash(seed=7)


def clustered(rows: pl.DataFrame, count: int, at: float = 0.5) -> pl.DataFrame:
    """Return neighbouring entries of sorted rows, changed: a job that writes one partition again. `at` is where."""
    return _changed(rows.slice(int((rows.height - count) * at), count))


def scattered(rows: pl.DataFrame, count: int) -> pl.DataFrame:
    """Return entries of sorted rows, evenly spread, changed: the worst case, since every range is touched."""
    return _changed(rows.gather_every(max(1, rows.height // count)).head(count))


def appended(rows: pl.DataFrame, count: int) -> pl.DataFrame:
    """Return entries after all of the sorted rows: new partitions of a table that grows day by day."""
    later = pl.col("path").str.replace("dt=", "dt=z", literal=True)
    return rows.head(count).with_columns(later)


def _changed(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.col("size") + 1, pl.format("{}x", pl.col("etag")).alias("etag"))
