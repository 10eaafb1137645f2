"""DuckDB with its own client of S3, the extension httpfs."""

import duckdb
from duckdb_extensions import import_extension
from tests.matrix.s3_clients.program import ENDPOINT, KEY, REGION, ROOT, SECRET, main

import_extension("httpfs")
database = duckdb.connect()
database.sql("LOAD httpfs")
database.sql(
    f"CREATE SECRET (TYPE s3, KEY_ID '{KEY}', SECRET '{SECRET}', REGION '{REGION}', URL_STYLE 'path', USE_SSL false, "
    f"ENDPOINT '{ENDPOINT.removeprefix('http://')}')"
)
HERE = f"s3://{ROOT}/duckdb"


def tables() -> None:
    """COPY to Parquet and CSV, and queries over them"""
    database.sql("CREATE TABLE t AS SELECT range AS id, 'd' || (range % 4) AS day FROM range(1000)")
    database.sql(f"COPY t TO '{HERE}/t.parquet' (FORMAT parquet)")
    database.sql(f"COPY t TO '{HERE}/t.csv' (HEADER)")
    assert database.sql(f"SELECT sum(id) FROM '{HERE}/t.parquet'").fetchall() == [(499_500,)]
    assert database.sql(f"SELECT count(*) FROM read_csv('{HERE}/t.csv')").fetchall() == [(1000,)]


def partitions() -> None:
    """a table with partitions: COPY, glob, filter"""
    database.sql(f"COPY t TO '{HERE}/days' (FORMAT parquet, PARTITION_BY (day), OVERWRITE_OR_IGNORE)")
    found = database.sql(
        f"SELECT count(*) FROM read_parquet('{HERE}/days/*/*.parquet', hive_partitioning=true) WHERE day = 'd1'"
    )
    assert found.fetchall() == [(250,)]


def large() -> None:
    """a file of 24 MiB in parts, read by ranges"""
    database.sql(
        f"COPY (SELECT hash(range) AS h FROM range(3_000_000)) TO '{HERE}/large.parquet' (COMPRESSION uncompressed)"
    )
    assert database.sql(f"SELECT count(*) FROM '{HERE}/large.parquet' WHERE h % 2 = 0").fetchall()[0][0] > 1_000_000


main(tables, partitions, large)
