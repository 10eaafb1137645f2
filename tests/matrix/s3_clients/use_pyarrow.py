"""PyArrow: its file system, and datasets with partitions."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileType, S3FileSystem
from tests.matrix.s3_clients.program import ENDPOINT, KEY, REGION, ROOT, SECRET, main

fs = S3FileSystem(
    access_key=KEY,
    secret_key=SECRET,
    endpoint_override=ENDPOINT.removeprefix("http://"),
    scheme="http",
    region=REGION,
    allow_bucket_creation=False,
)
HERE = f"{ROOT}/arrow"
TABLE = pa.table({"id": list(range(1000)), "day": [f"2026-11-{number % 7 + 1:02d}" for number in range(1000)]})


def dataset() -> None:
    """a dataset with partitions: write, read with a filter, overwrite"""
    for behaviour in ("error", "delete_matching", "overwrite_or_ignore"):
        ds.write_dataset(
            TABLE,
            f"{HERE}/days",
            filesystem=fs,
            format="parquet",
            partitioning=["day"],
            partitioning_flavor="hive",
            existing_data_behavior=behaviour,
        )
    read = ds.dataset(f"{HERE}/days", filesystem=fs, format="parquet", partitioning="hive")
    assert read.count_rows() == 1000
    assert read.to_table(filter=pc.field("day") == "2026-11-03").num_rows == len(range(2, 1000, 7))


def root() -> None:
    """a dataset at a branch's root, and ParquetFile"""
    ds.write_dataset(
        TABLE.slice(0, 10),
        f"{ROOT}/",
        filesystem=fs,
        format="parquet",
        basename_template="root-{i}.parquet",
        existing_data_behavior="overwrite_or_ignore",
    )
    assert pq.read_table(f"{ROOT}/root-0.parquet", filesystem=fs).num_rows == 10


def files() -> None:
    """streams of some MiB, copy, move, folders"""
    data = bytes(range(256)) * 50_000
    with fs.open_output_stream(f"{HERE}/large", metadata={"Content-Type": "text/plain"}) as stream:
        stream.write(data)
    with fs.open_input_file(f"{HERE}/large") as file:
        assert file.read_at(3, 1_000_000) == data[1_000_000:1_000_003]
        assert file.size() == len(data)
    fs.copy_file(f"{HERE}/large", f"{HERE}/copied")
    fs.move(f"{HERE}/copied", f"{HERE}/moved")
    names = {each.base_name for each in fs.get_file_info(FileSelector(HERE)) if each.type == FileType.File}
    assert names == {"large", "moved"}
    fs.create_dir(f"{HERE}/made")
    fs.delete_dir(f"{HERE}/made")
    fs.delete_file(f"{HERE}/moved")
    assert fs.get_file_info(f"{HERE}/moved").type == FileType.NotFound
    fs.delete_dir_contents(f"{HERE}/days")
    assert [each for each in fs.get_file_info(FileSelector(f"{HERE}/days", recursive=True)) if each.is_file] == []


main(dataset, root, files)
