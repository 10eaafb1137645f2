"""boto3 against a real server: every way of signing, and every operation."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from botocore.exceptions import ClientError
from tests.lake.s3.conftest import client_of, store_buckets
from tests.lake.s3.harness import KEY, SECRET, GatewayThread
from tests.plumbing.wire.test_tls import Authority

from penstock.plumbing.wire.tls import Tls

MIB = 1 << 20


def code_of(call: Any, **arguments: Any) -> tuple[int, str]:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response = caught.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


def body_of(s3: Any, bucket: str, key: str, **arguments: Any) -> bytes:
    body: bytes = s3.get_object(Bucket=bucket, Key=key, **arguments)["Body"].read()
    return body


KEYS = [
    "a",
    "a/b",
    "a/b/c.txt",
    "with space",
    "plus+and%percent",
    "é/日本",
    "a//b",
    "dir/",
    "x=1&y=2",
    "..dots",
    "q?m#f~'()*!",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_any_shape(s3: Any, bucket: str, key: str) -> None:
    put = s3.put_object(Bucket=bucket, Key=key, Body=b"hello", ContentType="text/plain", Metadata={"who": "me"})
    got = s3.get_object(Bucket=bucket, Key=key)
    assert (got["Body"].read(), got["ContentType"], got["Metadata"]) == (b"hello", "text/plain", {"who": "me"})
    assert got["ETag"] == put["ETag"] == '"5d41402abc4b2a76b9719d911017c592"'
    head = s3.head_object(Bucket=bucket, Key=key)
    assert (head["ContentLength"], head["ETag"]) == (5, put["ETag"])
    assert [one["Key"] for one in s3.list_objects_v2(Bucket=bucket)["Contents"]] == [key]
    s3.delete_object(Bucket=bucket, Key=key)
    assert code_of(s3.get_object, Bucket=bucket, Key=key) == (404, "NoSuchKey")
    assert code_of(s3.head_object, Bucket=bucket, Key=key) == (404, "404")


def test_ranges(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    got = s3.get_object(Bucket=bucket, Key="k", Range="bytes=2-4")
    assert (got["Body"].read(), got["ContentRange"]) == (b"234", "bytes 2-4/10")
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert body_of(s3, bucket, "k", Range="bytes=-3") == b"789"
    assert body_of(s3, bucket, "k", Range="bytes=7-") == b"789"
    assert body_of(s3, bucket, "k", Range="bytes=1-2,4-5") == b"0123456789"
    assert code_of(s3.get_object, Bucket=bucket, Key="k", Range="bytes=10-") == (416, "InvalidRange")
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    assert body_of(s3, bucket, "empty") == b""


def test_conditional_reads(s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    assert body_of(s3, bucket, "k", IfMatch=etag) == b"x"
    assert code_of(s3.get_object, Bucket=bucket, Key="k", IfMatch='"other"') == (412, "PreconditionFailed")
    assert code_of(s3.get_object, Bucket=bucket, Key="k", IfNoneMatch=etag) == (304, "304")


def test_conditional_writes(s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    refused = (412, "PreconditionFailed")
    assert code_of(s3.put_object, Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*") == refused
    assert code_of(s3.put_object, Bucket=bucket, Key="k", Body=b"2", IfMatch='"other"') == refused
    assert body_of(s3, bucket, "k") == b"1"
    s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfMatch=etag)
    assert code_of(s3.put_object, Bucket=bucket, Key="k", Body=b"3", IfMatch=etag) == refused
    assert code_of(s3.put_object, Bucket=bucket, Key="new", Body=b"3", IfMatch=etag) == refused
    assert body_of(s3, bucket, "k") == b"2"


def test_a_condition_that_does_not_hold_is_named(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="once", Body=b"1")
    for condition in ({"IfNoneMatch": "*"}, {"IfMatch": '"other"'}):
        with pytest.raises(ClientError) as refused:
            s3.put_object(Bucket=bucket, Key="once", Body=b"2", **condition)
        (name,) = condition
        assert refused.value.response["Error"]["Condition"].replace("-", "") == name


def test_copies(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a b/é", Body=b"x", ContentType="text/plain", Metadata={"n": "1"})
    source = {"Bucket": bucket, "Key": "a b/é"}
    s3.copy_object(Bucket=bucket, Key="kept", CopySource=source)
    s3.copy_object(
        Bucket=bucket, Key="new", CopySource=source, Metadata={"n": "2"}, MetadataDirective="REPLACE", ContentType="a/b"
    )
    kept, new = (s3.get_object(Bucket=bucket, Key=key) for key in ("kept", "new"))
    assert (kept["Body"].read(), kept["Metadata"], kept["ContentType"]) == (b"x", {"n": "1"}, "text/plain")
    assert (new["Body"].read(), new["Metadata"], new["ContentType"]) == (b"x", {"n": "2"}, "a/b")
    copy = s3.copy_object
    missing = {"Bucket": bucket, "Key": "missing"}
    assert code_of(copy, Bucket=bucket, Key="k", CopySource=missing) == (404, "NoSuchKey")
    assert code_of(copy, Bucket=bucket, Key="kept", CopySource={**source, "Key": "kept"}) == (400, "InvalidRequest")
    assert code_of(copy, Bucket=bucket, Key="k", CopySource=source, CopySourceIfMatch="x") == (
        412,
        "PreconditionFailed",
    )
    s3.delete_object(Bucket=bucket, Key="a b/é")
    assert body_of(s3, bucket, "kept") == b"x"


def test_listings(s3: Any, bucket: str) -> None:
    keys = ["a", "b/1", "b/2", "b/c/3", "d-1", "d/1", "é"]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    for list_objects in (s3.list_objects, s3.list_objects_v2):
        whole = list_objects(Bucket=bucket)
        assert [one["Key"] for one in whole["Contents"]] == keys
        top = list_objects(Bucket=bucket, Delimiter="/")
        assert [one["Key"] for one in top["Contents"]] == ["a", "d-1", "é"]
        assert [one["Prefix"] for one in top["CommonPrefixes"]] == ["b/", "d/"]
        below = list_objects(Bucket=bucket, Delimiter="/", Prefix="b/")
        assert [one["Key"] for one in below["Contents"]] == ["b/1", "b/2"]
        assert [one["Prefix"] for one in below["CommonPrefixes"]] == ["b/c/"]
        assert list_objects(Bucket=bucket, MaxKeys=0)["IsTruncated"] is False
    for name in ("list_objects", "list_objects_v2"):
        pages = s3.get_paginator(name).paginate(Bucket=bucket, Delimiter="/", PaginationConfig={"PageSize": 2})
        found = [
            one.get("Key") or one["Prefix"]
            for page in pages
            for one in page.get("Contents", []) + page.get("CommonPrefixes", [])
        ]
        assert sorted(found) == ["a", "b/", "d-1", "d/", "é"]
    after = s3.list_objects_v2(Bucket=bucket, StartAfter="b/2")
    assert [one["Key"] for one in after["Contents"]] == keys[3:]
    assert code_of(s3.list_objects_v2, Bucket=bucket, ContinuationToken="!") == (400, "InvalidArgument")


def test_deletes_many_at_once(s3: Any, bucket: str) -> None:
    for key in ("a", "b", "c"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}, {"Key": "nobody"}]})
    assert [one["Key"] for one in answer["Deleted"]] == ["a", "nobody"]
    assert "Deleted" not in s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "b"}], "Quiet": True})
    assert [one["Key"] for one in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["c"]


def test_buckets(s3: Any, bucket: str) -> None:
    assert bucket in [one["Name"] for one in s3.list_buckets()["Buckets"]]
    s3.head_bucket(Bucket=bucket)
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] is None
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    assert s3.get_bucket_acl(Bucket=bucket)["Grants"][0]["Permission"] == "FULL_CONTROL"
    assert code_of(s3.head_bucket, Bucket="nowhere") == (404, "404")
    assert code_of(s3.list_objects_v2, Bucket="nowhere") == (404, "NoSuchBucket")
    assert code_of(s3.put_object, Bucket="nowhere", Key="k", Body=b"") == (404, "NoSuchBucket")
    assert code_of(s3.get_bucket_policy, Bucket=bucket) == (501, "NotImplemented")
    assert code_of(s3.delete_bucket, Bucket=bucket) == (501, "NotImplemented")


def test_uploads_in_parts(s3: Any, bucket: str) -> None:
    data = bytes(range(256)) * (12 * MIB // 256)
    s3.upload_fileobj(io.BytesIO(data), bucket, "big", ExtraArgs={"Metadata": {"a": "b"}, "ContentType": "x/y"})
    got = s3.get_object(Bucket=bucket, Key="big")
    assert (got["ContentType"], got["Metadata"], got["ETag"][-3:]) == ("x/y", {"a": "b"}, '-2"')
    assert got["Body"].read() == data
    assert body_of(s3, bucket, "big", Range=f"bytes={8 * MIB - 2}-{8 * MIB + 1}") == data[8 * MIB - 2 : 8 * MIB + 2]
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_the_life_of_an_upload(s3: Any, bucket: str) -> None:
    id = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    which = {"Bucket": bucket, "Key": "k", "UploadId": id}
    assert [one["UploadId"] for one in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == [id]
    s3.upload_part(**which, PartNumber=1, Body=b"dropped")
    first = s3.upload_part(**which, PartNumber=1, Body=bytes(5 * MIB))["ETag"]
    s3.put_object(Bucket=bucket, Key="source", Body=b"0123456789")
    copied = s3.upload_part_copy(
        **which, PartNumber=7, CopySource={"Bucket": bucket, "Key": "source"}, CopySourceRange="bytes=2-4"
    )["CopyPartResult"]["ETag"]
    listed = s3.list_parts(**which)
    assert [(one["PartNumber"], one["Size"], one["ETag"]) for one in listed["Parts"]] == [
        (1, 5 * MIB, first),
        (7, 3, copied),
    ]
    assert [one["PartNumber"] for one in s3.list_parts(**which, MaxParts=1)["Parts"]] == [1]
    complete = s3.complete_multipart_upload
    good = [{"PartNumber": 1, "ETag": first}, {"PartNumber": 7, "ETag": copied}]
    assert code_of(complete, **which, MultipartUpload={"Parts": good[::-1]}) == (400, "InvalidPartOrder")
    wrong = [{"PartNumber": 2, "ETag": first}]
    assert code_of(complete, **which, MultipartUpload={"Parts": wrong}) == (400, "InvalidPart")
    assert code_of(s3.get_object, Bucket=bucket, Key="k") == (404, "NoSuchKey")
    etag = complete(**which, MultipartUpload={"Parts": good}, IfNoneMatch="*")["ETag"]
    assert body_of(s3, bucket, "k") == bytes(5 * MIB) + b"234"
    # A client which lost the answer asks again, and gets the same.
    assert complete(**which, MultipartUpload={"Parts": good})["ETag"] == etag


def test_a_long_completion_is_never_silent(
    s3: Any, bucket: str, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.lake.s3.upload_operations.PATIENCE_S", 0.0)
    monkeypatch.setattr("penstock.lake.s3.upload_operations.PULSE_S", 0.001)
    id = s3.create_multipart_upload(Bucket=bucket, Key="long")["UploadId"]
    which = {"Bucket": bucket, "Key": "long", "UploadId": id}
    sizes = (24 * MIB, 24 * MIB, 3)
    parts = [
        {"PartNumber": number, "ETag": s3.upload_part(**which, PartNumber=number, Body=bytes(size))["ETag"]}
        for number, size in enumerate(sizes, 1)
    ]
    assert code_of(s3.complete_multipart_upload, **which, MultipartUpload={"Parts": parts}, ChecksumCRC32="AAAAAA==")[
        1
    ] in ("BadDigest", "InvalidRequest")
    assert code_of(s3.head_object, Bucket=bucket, Key="long")[0] == 404
    seen: list[bytes] = []
    s3.meta.events.register(
        "after-call.s3.CompleteMultipartUpload", lambda http_response, **_: seen.append(http_response.content)
    )
    done = s3.complete_multipart_upload(**which, MultipartUpload={"Parts": parts})
    assert done["ETag"].endswith('-3"')
    assert s3.head_object(Bucket=bucket, Key="long")["ContentLength"] == sum(sizes)
    assert seen[0].startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n  ')


def test_uploads_which_come_to_nothing(s3: Any, bucket: str) -> None:
    id = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    which = {"Bucket": bucket, "Key": "k", "UploadId": id}
    small = [{"PartNumber": n, "ETag": s3.upload_part(**which, PartNumber=n, Body=b"x")["ETag"]} for n in (1, 2)]
    complete, put = s3.complete_multipart_upload, s3.upload_part
    assert code_of(complete, **which, MultipartUpload={"Parts": small}) == (400, "EntityTooSmall")
    assert code_of(put, **which, PartNumber=10_001, Body=b"") == (400, "InvalidArgument")
    assert code_of(put, Bucket=bucket, Key="other", UploadId=id, PartNumber=1, Body=b"") == (404, "NoSuchUpload")
    s3.abort_multipart_upload(**which)
    for call in (s3.abort_multipart_upload, s3.list_parts):
        assert code_of(call, **which) == (404, "NoSuchUpload")
    assert code_of(put, **{**which, "UploadId": "../../x"}, PartNumber=1, Body=b"") == (404, "NoSuchUpload")


def test_presigned_urls(s3: Any, bucket: str, endpoint: str) -> None:
    where = {"Bucket": bucket, "Key": "a b"}
    put = s3.generate_presigned_url("put_object", Params=where, ExpiresIn=60)
    assert urlopen(Request(put, data=b"hello", method="PUT")).status == 200
    get = s3.generate_presigned_url("get_object", Params={**where, "ResponseContentType": "text/x"}, ExpiresIn=60)
    with urlopen(get) as answer:
        assert (answer.read(), answer.headers["content-type"]) == (b"hello", "text/x")
    with pytest.raises(HTTPError, match="403"):
        urlopen(get.replace("text%2Fx", "text%2Fy"))
    with pytest.raises(HTTPError, match="403"):
        urlopen(f"{endpoint}/{bucket}/a%20b")


@pytest.mark.parametrize(
    ("key", "secret", "code"), [("nobody", SECRET, "InvalidAccessKeyId"), (KEY, "wrong", "SignatureDoesNotMatch")]
)
def test_strangers_are_refused(endpoint: str, bucket: str, key: str, secret: str, code: str) -> None:
    stranger = client_of(endpoint, key=key, secret=secret)
    assert code_of(stranger.list_objects_v2, Bucket=bucket) == (403, code)
    stranger.close()


def test_a_payload_which_is_not_what_was_signed_leaves_nothing(s3: Any, bucket: str) -> None:
    put = {"Bucket": bucket, "Key": "k", "Body": b"x"}
    assert code_of(s3.put_object, **put, ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==") == (400, "BadDigest")
    assert code_of(s3.put_object, **put, ChecksumCRC32="AAAAAA==") == (400, "BadDigest")
    assert code_of(s3.put_object, **put, ContentMD5="no") == (400, "InvalidDigest")
    assert code_of(s3.get_object, Bucket=bucket, Key="k") == (404, "NoSuchKey")


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Over TLS boto3 sends unsigned chunks with a checksum behind them."""
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = Authority(folder, "authority")
    with GatewayThread(store_buckets, tls=Tls(**authority.sign("server"))) as url:
        yield url, str(authority.certificate)


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_trailing_checksums(secure: tuple[str, str], algorithm: str) -> None:
    url, authority = secure
    client = client_of(url, verify=authority)
    client.create_bucket(Bucket=f"trailing-{algorithm.lower()}")
    where = {"Bucket": f"trailing-{algorithm.lower()}", "Key": "k"}
    seen: list[Any] = []
    client.meta.events.register(
        "before-send.s3.PutObject", lambda request, **_: seen.append(request.headers["x-amz-content-sha256"])
    )
    data = bytes(range(256)) * 5000
    put = client.put_object(**where, Body=io.BytesIO(data), ChecksumAlgorithm=algorithm)
    assert f"Checksum{algorithm}" in put
    assert client.get_object(**where)["Body"].read() == data
    assert seen == [b"STREAMING-UNSIGNED-PAYLOAD-TRAILER"]
    client.close()


def test_buckets_in_the_host_name() -> None:
    with GatewayThread(store_buckets, domain="s3.test") as url:
        # As a proxy, so that the names need not resolve.
        client = client_of("http://s3.test", s3={"addressing_style": "virtual"}, proxies={"http": url})
        client.create_bucket(Bucket="in-the-host")
        client.put_object(Bucket="in-the-host", Key="a/b", Body=b"x")
        assert client.get_object(Bucket="in-the-host", Key="a/b")["Body"].read() == b"x"
        assert [one["Name"] for one in client.list_buckets()["Buckets"]] == ["in-the-host"]
        client.close()
