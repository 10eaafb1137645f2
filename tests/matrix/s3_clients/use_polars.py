"""Polars: reads and writes of tables, lazily and with partitions."""

import polars as pl
from tests.matrix.s3_clients.program import ENDPOINT, KEY, REGION, ROOT, SECRET, main

OPTIONS = {
    "aws_access_key_id": KEY,
    "aws_secret_access_key": SECRET,
    "aws_region": REGION,
    "aws_endpoint_url": ENDPOINT,
    "aws_allow_http": "true",
}
HERE = f"s3://{ROOT}/polars"
FRAME = pl.DataFrame({"id": range(1000), "day": [f"d{number % 4}" for number in range(1000)]})


def tables() -> None:
    """Parquet, CSV, NDJSON, IPC: write and scan"""
    FRAME.write_parquet(f"{HERE}/t.parquet", storage_options=OPTIONS)
    FRAME.lazy().sink_csv(f"{HERE}/t.csv", storage_options=OPTIONS)
    FRAME.lazy().sink_ndjson(f"{HERE}/t.ndjson", storage_options=OPTIONS)
    FRAME.lazy().sink_ipc(f"{HERE}/t.arrow", storage_options=OPTIONS)
    scans = [
        pl.scan_parquet(f"{HERE}/t.parquet", storage_options=OPTIONS),
        pl.scan_csv(f"{HERE}/t.csv", storage_options=OPTIONS),
        pl.scan_ndjson(f"{HERE}/t.ndjson", storage_options=OPTIONS),
        pl.scan_ipc(f"{HERE}/t.arrow", storage_options=OPTIONS),
    ]
    for scan in scans:
        assert scan.collect().equals(FRAME)


def partitions() -> None:
    """a table with partitions: sink, scan with a filter, globs"""
    FRAME.lazy().sink_parquet(
        pl.PartitionBy(f"{HERE}/days", key="day", include_key=False), storage_options=OPTIONS, mkdir=True
    )
    scan = pl.scan_parquet(f"{HERE}/days/**/*.parquet", storage_options=OPTIONS, hive_partitioning=True)
    assert scan.filter(pl.col("day") == "d1").collect().height == 250
    assert scan.select(pl.len()).collect().item() == 1000


def large() -> None:
    """a file of some MiB, in parts"""
    frame = pl.DataFrame({"x": range(2_000_000)}).with_columns(y=pl.col("x").hash())
    frame.lazy().sink_parquet(f"{HERE}/large.parquet", storage_options=OPTIONS, compression="uncompressed")
    found = pl.scan_parquet(f"{HERE}/large.parquet", storage_options=OPTIONS).select(pl.col("x").sum()).collect().item()
    assert found == sum(range(2_000_000))


main(tables, partitions, large)
