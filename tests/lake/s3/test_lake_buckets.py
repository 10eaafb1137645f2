"""The gateway to a real lake: one member on one quorum node, objects in a folder, clients over HTTP."""

import asyncio
import io
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import boto3
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError
from pyarrow import dataset
from pyarrow.fs import FileSelector, S3FileSystem
from tests.lake.member.lakes import running_lake
from tests.lake.s3.conftest import client_of
from tests.lake.s3.harness import KEY, SECRET, GatewayThread

from penstock.lake.records.service import Lake
from penstock.lake.s3.lake_buckets import LakeBuckets
from penstock.lake.s3.port import Buckets

T = TypeVar("T")
MIB = 1 << 20


class Running:
    """A lake which runs in the gateway's thread."""

    def __init__(self) -> None:
        self.url = ""
        self.lake: Lake
        self._loop: asyncio.AbstractEventLoop

    def set(self, lake: Lake) -> None:
        self.lake, self._loop = lake, asyncio.get_running_loop()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("lake")
    running = Running()

    @asynccontextmanager
    async def lake_buckets() -> AsyncIterator[Buckets]:
        async with running_lake(folder) as lake:
            running.set(lake)
            yield LakeBuckets(lake)

    with GatewayThread(lake_buckets) as url:
        running.url = url
        yield running


@pytest.fixture(scope="module")
def s3(running: Running) -> Iterator[Any]:
    client = client_of(running.url)
    yield client
    client.close()


def error_of(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return str(caught.value.response["Error"]["Code"])


def keys_of(s3: Any, bucket: str, **arguments: Any) -> list[str]:
    found = s3.list_objects_v2(Bucket=bucket, **arguments)
    return [one["Key"] for one in found.get("Contents", [])] + [
        one["Prefix"] for one in found.get("CommonPrefixes", [])
    ]


def test_objects_on_branches(running: Running, s3: Any, bucket: str) -> None:
    put = s3.put_object(Bucket=bucket, Key="main/a/b c.txt", Body=b"hello", ContentType="text/x", Metadata={"n": "1"})
    got = s3.get_object(Bucket=bucket, Key="main/a/b c.txt")
    assert (got["Body"].read(), got["ContentType"], got["Metadata"]) == (b"hello", "text/x", {"n": "1"})
    assert got["ETag"] == put["ETag"] == '"5d41402abc4b2a76b9719d911017c592"'
    assert s3.get_object(Bucket=bucket, Key="main/a/b c.txt", Range="bytes=-2")["Body"].read() == b"lo"
    commit = running.do(running.lake.commit(bucket, "main", "first"))
    s3.put_object(Bucket=bucket, Key="main/a/b c.txt", Body=b"")
    assert s3.get_object(Bucket=bucket, Key=f"{commit.id}/a/b c.txt")["Body"].read() == b"hello"
    assert s3.head_object(Bucket=bucket, Key="main/a/b c.txt")["ContentLength"] == 0
    assert error_of(s3.get_object, Bucket=bucket, Key="main/a/b c.txt", Range="bytes=0-") == "InvalidRange"
    s3.delete_object(Bucket=bucket, Key="main/a/b c.txt")
    assert error_of(s3.get_object, Bucket=bucket, Key="main/a/b c.txt") == "NoSuchKey"
    assert error_of(s3.put_object, Bucket=bucket, Key=f"{commit.id}/x", Body=b"") in ("NoSuchBucket", "InvalidArgument")
    assert error_of(s3.put_object, Bucket=bucket, Key="main", Body=b"") == "InvalidArgument"
    s3.delete_object(Bucket=bucket, Key="main/")


def test_listings_go_over_branches(running: Running, s3: Any, bucket: str) -> None:
    for key in ("main/a", "main/d/1", "main/d/2", "main/é"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    running.do(running.lake.commit(bucket, "main", "first"))
    running.do(running.lake.create_branch(bucket, "main-2", "main"))
    s3.put_object(Bucket=bucket, Key="main-2/only", Body=b"x")
    mine = ["main/a", "main/d/1", "main/d/2", "main/é"]
    theirs = ["main-2/a", "main-2/d/1", "main-2/d/2", "main-2/only", "main-2/é"]
    assert keys_of(s3, bucket, Delimiter="/") == ["main-2/", "main/"]
    assert keys_of(s3, bucket, Delimiter="/", Prefix="main-") == ["main-2/"]
    assert keys_of(s3, bucket) == theirs + mine
    assert keys_of(s3, bucket, Prefix="main/") == mine
    assert keys_of(s3, bucket, Prefix="main/", Delimiter="/") == ["main/a", "main/é", "main/d/"]
    assert keys_of(s3, bucket, Prefix="main/d") == mine[1:3]
    assert keys_of(s3, bucket, Prefix="nowhere/") == []
    assert keys_of(s3, bucket, StartAfter="main-2/only") == theirs[4:] + mine
    for size in (1, 2, 4):
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": size})
        assert [one["Key"] for page in pages for one in page.get("Contents", [])] == theirs + mine
        folders = s3.get_paginator("list_objects").paginate(
            Bucket=bucket, Prefix="main/", Delimiter="/", PaginationConfig={"PageSize": size}
        )
        found = [one for page in folders for one in page.get("Contents", []) + page.get("CommonPrefixes", [])]
        assert sorted(one.get("Key") or one["Prefix"] for one in found) == ["main/a", "main/d/", "main/é"]


def test_conditional_writes_are_the_lakes(s3: Any, bucket: str) -> None:
    where = {"Bucket": bucket, "Key": "main/k"}
    etag = s3.put_object(**where, Body=b"1", IfNoneMatch="*")["ETag"]
    assert error_of(s3.put_object, **where, Body=b"2", IfNoneMatch="*") == "PreconditionFailed"
    s3.put_object(**where, Body=b"2", IfMatch=etag)
    assert error_of(s3.put_object, **where, Body=b"3", IfMatch=etag) == "PreconditionFailed"
    assert s3.get_object(**where)["Body"].read() == b"2"


def test_conditional_deletes_are_the_lakes(running: Running, s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="main/k", Body=b"1")["ETag"]
    running.do(running.lake.commit(bucket, "main", "one"))
    s3.put_object(Bucket=bucket, Key="main/staged", Body=b"2")
    for key in ("main/k", "main/staged", "main/nothing"):
        assert error_of(s3.delete_object, Bucket=bucket, Key=key, IfMatch='"other"') == "PreconditionFailed"
    assert keys_of(s3, bucket, Prefix="main/") == ["main/k", "main/staged"]
    s3.delete_object(Bucket=bucket, Key="main/k", IfMatch=etag)
    assert error_of(s3.delete_object, Bucket=bucket, Key="main/k", IfMatch=etag) == "PreconditionFailed"
    s3.delete_object(Bucket=bucket, Key="main/staged", IfMatch="*")
    assert keys_of(s3, bucket, Prefix="main/") == []


def test_a_branch_is_a_folder(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="main/", Body=b"")
    assert s3.head_object(Bucket=bucket, Key="main/")["ContentLength"] == 0
    assert s3.get_object(Bucket=bucket, Key="main/")["Body"].read() == b""
    assert keys_of(s3, bucket, Prefix="main/") == []
    assert error_of(s3.put_object, Bucket=bucket, Key="main/", Body=b"x") == "InvalidArgument"
    assert error_of(s3.put_object, Bucket=bucket, Key="nobranch/", Body=b"") == "NoSuchBucket"


def test_datasets_are_written_into_a_branch(running: Running, bucket: str) -> None:
    arrow = S3FileSystem(
        access_key=KEY,
        secret_key=SECRET,
        endpoint_override=running.url.removeprefix("http://"),
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=False,
    )
    table = pa.table({"id": list(range(10)), "day": ["mon", "tue"] * 5})
    for root in (f"{bucket}/main", f"{bucket}/main/deep/table"):
        dataset.write_dataset(table, root, filesystem=arrow, format="parquet", partitioning=["day"])
        found = dataset.dataset(
            root, filesystem=arrow, format="parquet", partitioning=["day"], exclude_invalid_files=True
        )
        assert found.count_rows() == 10
        arrow.delete_dir(root)


def test_default_presigned_urls_of_boto3(running: Running, s3: Any, bucket: str) -> None:
    default = boto3.client(
        "s3", endpoint_url=running.url, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1"
    )
    url = default.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "main/a b+ü.txt"})
    assert "AWSAccessKeyId=" in url, "signature version 2"
    assert fetch(url, "PUT", b"signed") == (200, b"")
    override = {"Bucket": bucket, "Key": "main/a b+ü.txt", "ResponseContentType": "text/x y"}
    assert fetch(default.generate_presigned_url("get_object", override)) == (200, b"signed")
    url = default.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "main/a b+ü.txt"}, ExpiresIn=-5)
    assert fetch(url)[0] == 403
    url = default.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "main/a b+ü.txt"}, ExpiresIn=8 * 86400)
    assert fetch(url)[0] == 403
    url = default.generate_presigned_url("head_object", {"Bucket": bucket, "Key": "main/a b+ü.txt"})
    assert fetch(url)[0] == 403, "it was signed for HEAD"
    assert fetch(url.replace("main/", "main/x"), "HEAD")[0] == 403


def fetch(url: str, method: str = "GET", body: bytes | None = None) -> tuple[int, bytes]:
    request = urllib.request.Request(url, body, {"content-type": ""} if body else {}, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_a_wrong_payload_leaves_nothing(s3: Any, bucket: str) -> None:
    put = {"Bucket": bucket, "Key": "main/k", "Body": b"x"}
    assert error_of(s3.put_object, **put, ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==") == "BadDigest"
    assert error_of(s3.get_object, Bucket=bucket, Key="main/k") == "NoSuchKey"


def test_uploads_in_parts_and_copies(s3: Any, bucket: str) -> None:
    data = bytes(range(256)) * (12 * MIB // 256)
    s3.upload_fileobj(io.BytesIO(data), bucket, "main/big")
    assert s3.get_object(Bucket=bucket, Key="main/big")["Body"].read() == data
    s3.copy_object(Bucket=bucket, Key="main/same", CopySource={"Bucket": bucket, "Key": "main/big"})
    other = f"{bucket}-other"
    s3.create_bucket(Bucket=other)
    s3.copy_object(Bucket=other, Key="main/other", CopySource={"Bucket": bucket, "Key": "main/big"})
    etags = [s3.head_object(Bucket=bucket, Key=f"main/{name}")["ETag"] for name in ("big", "same")]
    assert etags == [s3.head_object(Bucket=other, Key="main/other")["ETag"]] * 2
    assert s3.get_object(Bucket=other, Key="main/other")["Body"].read() == data
    gone = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "main/big"}, {"Key": "nowhere/x"}]})
    assert [one["Key"] for one in gone["Deleted"]] == ["main/big"]
    assert [one["Key"] for one in gone["Errors"]] == ["nowhere/x"]


def test_buckets_are_repositories(s3: Any, bucket: str) -> None:
    assert bucket in [one["Name"] for one in s3.list_buckets()["Buckets"]]
    assert error_of(s3.create_bucket, Bucket=bucket) == "BucketAlreadyOwnedByYou"
    assert error_of(s3.list_objects_v2, Bucket="nowhere") == "NoSuchBucket"
    assert error_of(s3.head_bucket, Bucket="nowhere") == "404"
    assert error_of(s3.put_object, Bucket="nowhere", Key="main/k", Body=b"") == "NoSuchBucket"
    assert error_of(s3.put_object, Bucket=bucket, Key="nobranch/k", Body=b"") == "NoSuchBucket"


def test_pyarrow_and_polars(running: Running, bucket: str) -> None:
    table = pa.table({"id": list(range(100))})
    arrow = S3FileSystem(
        access_key=KEY,
        secret_key=SECRET,
        endpoint_override=running.url.removeprefix("http://"),
        scheme="http",
        region="us-east-1",
    )
    pq.write_table(table, f"{bucket}/main/t/1.parquet", filesystem=arrow)
    assert pq.read_table(f"{bucket}/main/t", filesystem=arrow) == table
    names = [one.path for one in arrow.get_file_info(FileSelector(f"{bucket}/main", recursive=True)) if one.is_file]
    assert names == [f"{bucket}/main/t/1.parquet"]
    options = {
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
        "aws_endpoint_url": running.url,
        "aws_allow_http": "true",
    }
    pl.DataFrame({"id": range(100, 200)}).lazy().sink_parquet(
        f"s3://{bucket}/main/t/2.parquet", storage_options=options
    )
    scan = pl.scan_parquet(f"s3://{bucket}/main/t/*.parquet", storage_options=options)
    assert scan.select(pl.col("id").sum()).collect().item() == sum(range(200))


async def test_a_page_of_a_bucket_opens_only_the_branches_that_it_shows(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("many")
        await lake.put("many", "main", "a", b"1")
        await lake.commit("many", "main", "first")
        for number in range(5):
            await lake.create_branch("many", f"w{number}", "main")
        opened: list[str] = []

        class Counted:
            """The lake, which notes the refs that are listed."""

            def __getattr__(self, name: str) -> Any:
                return getattr(lake, name)

            async def list(self, repository: str, ref: str, **options: Any) -> Any:
                opened.append(ref)
                return await lake.list(repository, ref, **options)

        buckets = LakeBuckets(cast("Lake", Counted()))
        page = await buckets.list("many", prefix="", after="w1/", delimiter="", limit=2)
        folders = await buckets.list("many", prefix="", after="", delimiter="/", limit=10)

        assert [each.key for each in page.objects] == ["w1/a", "w2/a"]
        assert opened == ["w1", "w2"]
        assert len(folders.prefixes) == 6
