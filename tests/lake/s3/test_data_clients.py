"""What data engineers read and write with: s3fs, PyArrow, Polars, obstore, against a real server."""

import uuid
import weakref
from collections.abc import Iterator
from typing import Any

import obstore
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import s3fs
from obstore.store import S3Store
from pyarrow.fs import FileSelector, FileType, S3FileSystem
from tests.lake.s3.harness import KEY, SECRET

TABLE = pa.table({"id": list(range(1000)), "name": [f"n{number % 7}" for number in range(1000)]})


@pytest.fixture
def files(endpoint: str) -> Iterator[Any]:
    system = s3fs.S3FileSystem(
        key=KEY,
        secret=SECRET,
        client_kwargs={"endpoint_url": endpoint},
        skip_instance_cache=True,
        use_listings_cache=False,
    )
    yield system
    # It closes its connections when it is collected: now, and not in the middle of another test's loop.
    finalizers: Any = weakref.finalize
    for one in list(finalizers._registry):
        if (held := one.peek()) is not None and held[0] is system:
            one()


@pytest.fixture
def arrow(endpoint: str) -> S3FileSystem:
    return S3FileSystem(
        access_key=KEY,
        secret_key=SECRET,
        endpoint_override=endpoint.removeprefix("http://"),
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=False,
    )


@pytest.fixture
def polars_options(endpoint: str) -> dict[str, str]:
    return {
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
        "aws_endpoint_url": endpoint,
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
    }


def test_s3fs_reads_and_writes_files(files: Any, bucket: str) -> None:
    files.pipe(f"{bucket}/a/b.txt", b"hello")
    assert files.cat(f"{bucket}/a/b.txt") == b"hello"
    assert files.cat_file(f"{bucket}/a/b.txt", start=1, end=3) == b"el"
    assert files.ls(bucket) == [f"{bucket}/a"]
    assert files.find(bucket) == [f"{bucket}/a/b.txt"]
    assert files.info(f"{bucket}/a/b.txt")["size"] == 5
    files.copy(f"{bucket}/a/b.txt", f"{bucket}/c.txt")
    files.mv(f"{bucket}/c.txt", f"{bucket}/d.txt")
    assert not files.exists(f"{bucket}/c.txt")
    files.rm(bucket + "/a", recursive=True)
    assert files.find(bucket) == [f"{bucket}/d.txt"]
    with pytest.raises(FileNotFoundError):
        files.cat(f"{bucket}/nothing")


def test_s3fs_uploads_in_parts(files: Any, bucket: str) -> None:
    data = uuid.uuid4().bytes * (1 << 16)
    with files.open(f"{bucket}/big", "wb", block_size=5 << 20) as file:
        for _ in range(12):
            file.write(data)
    with files.open(f"{bucket}/big", "rb") as file:
        file.seek(3 << 20)
        assert file.read(10) == data[:10]
    assert files.info(f"{bucket}/big")["size"] == 12 << 20


def test_pyarrow_reads_and_writes_files(arrow: S3FileSystem, bucket: str) -> None:
    with arrow.open_output_stream(f"{bucket}/a/b.bin") as stream:
        stream.write(b"0123456789" * 1000)
    with arrow.open_input_file(f"{bucket}/a/b.bin") as file:
        assert (file.size(), file.read_at(4, 9998)) == (10_000, b"89")
    found = arrow.get_file_info(FileSelector(bucket, recursive=True))
    assert [(one.path, one.type) for one in found if one.is_file] == [(f"{bucket}/a/b.bin", FileType.File)]
    arrow.copy_file(f"{bucket}/a/b.bin", f"{bucket}/c.bin")
    arrow.delete_file(f"{bucket}/a/b.bin")
    assert arrow.get_file_info(f"{bucket}/a/b.bin").type == FileType.NotFound
    assert arrow.get_file_info(f"{bucket}/c.bin").size == 10_000


def test_pyarrow_reads_and_writes_datasets(arrow: S3FileSystem, bucket: str) -> None:
    pq.write_table(TABLE, f"{bucket}/one.parquet", filesystem=arrow)
    assert pq.read_table(f"{bucket}/one.parquet", filesystem=arrow) == TABLE
    ds.write_dataset(
        TABLE, f"{bucket}/many", format="parquet", filesystem=arrow, partitioning=["name"], partitioning_flavor="hive"
    )
    back = ds.dataset(f"{bucket}/many", filesystem=arrow, partitioning="hive").to_table(filter=ds.field("name") == "n3")
    assert back.num_rows == TABLE.filter(pa.compute.equal(TABLE["name"], "n3")).num_rows


def test_polars_scans_and_sinks(polars_options: dict[str, str], bucket: str) -> None:
    frame = pl.DataFrame({"id": range(1000), "value": [number * 0.5 for number in range(1000)]})
    for part in (0, 1):
        frame.lazy().sink_parquet(f"s3://{bucket}/t/{part}.parquet", storage_options=polars_options)
    scan = pl.scan_parquet(f"s3://{bucket}/t/*.parquet", storage_options=polars_options)
    assert scan.filter(pl.col("id") >= 990).select(pl.col("value").sum()).collect().item() == 2 * sum(
        number * 0.5 for number in range(990, 1000)
    )
    frame.write_csv(f"s3://{bucket}/t.csv", storage_options=polars_options)
    assert pl.scan_csv(f"s3://{bucket}/t.csv", storage_options=polars_options).collect().equals(frame)


def test_obstore_writes_conditionally(endpoint: str, bucket: str) -> None:
    store = S3Store(
        bucket,
        endpoint=endpoint,
        access_key_id=KEY,
        secret_access_key=SECRET,
        region="us-east-1",
        client_options={"allow_http": True},
    )
    first: Any = {"e_tag": obstore.put(store, "k", b"1", mode="create")["e_tag"]}
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        obstore.put(store, "k", b"2", mode="create")
    obstore.put(store, "k", b"2", mode=first)
    with pytest.raises(obstore.exceptions.PreconditionError):
        obstore.put(store, "k", b"3", mode=first)
    assert bytes(obstore.get(store, "k").bytes()) == b"2"
    obstore.copy(store, "k", "l")
    assert [one["path"] for page in obstore.list(store) for one in page] == ["k", "l"]
