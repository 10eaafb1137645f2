"""delta-rs: tables whose commits are conditional writes."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from tests.matrix.s3_clients.program import ENDPOINT, KEY, REGION, ROOT, SECRET, main

OPTIONS = {
    "aws_access_key_id": KEY,
    "aws_secret_access_key": SECRET,
    "aws_region": REGION,
    "aws_endpoint_url": ENDPOINT,
    "aws_allow_http": "true",
    "conditional_put": "etag",
}
PLACE = f"s3://{ROOT}/delta/t"


def rows(start: int, stop: int) -> pa.Table:
    ids = list(range(start, stop))
    return pa.table({"id": pa.array(ids, pa.int64()), "day": [f"d{number % 4}" for number in ids]})


def commits() -> None:
    """append, overwrite, time travel, history"""
    write_deltalake(PLACE, rows(0, 100), storage_options=OPTIONS, partition_by=["day"])
    write_deltalake(PLACE, rows(100, 200), storage_options=OPTIONS, mode="append")
    table = DeltaTable(PLACE, storage_options=OPTIONS)
    assert (table.version(), table.to_pyarrow_table().num_rows) == (1, 200)
    assert DeltaTable(PLACE, version=0, storage_options=OPTIONS).to_pyarrow_table().num_rows == 100
    assert len(table.history()) == 2


def changes() -> None:
    """delete, update, merge, optimize, vacuum"""
    table = DeltaTable(PLACE, storage_options=OPTIONS)
    table.delete("id < 10")
    table.update(updates={"day": "'d9'"}, predicate="id = 11")
    table.merge(
        rows(190, 210), "s.id = t.id", source_alias="s", target_alias="t"
    ).when_not_matched_insert_all().execute()
    assert table.to_pyarrow_table().num_rows == 200
    table.optimize.compact()
    assert table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert table.to_pyarrow_table().num_rows == 200


def writers() -> None:
    """four writers at once: each commit wins once"""
    place = f"s3://{ROOT}/delta/many"
    write_deltalake(place, rows(0, 1), storage_options=OPTIONS)
    with ThreadPoolExecutor(4) as pool:
        done = [
            pool.submit(write_deltalake, place, rows(number, number + 1), storage_options=OPTIONS, mode="append")
            for number in range(12)
        ]
        for each in done:
            each.result()
    table = DeltaTable(place, storage_options=OPTIONS)
    assert (table.version(), table.to_pyarrow_table().num_rows) == (12, 13)


main(commits, changes, writers)
