"""An unknown parameter, header or value gets 501 by name, and changes nothing."""

import pytest
from tests.lake.s3.raw import RawS3, raw_s3
from tests.lake.s3.test_gateway import code_of

from penstock.lake.s3.operations import OPERATIONS

# Requests of S3 that become other reads or writes in a gateway that ignores unknown names.
STRANGE = [
    ("PUT", "/bucket/k", "append", {}),
    ("PUT", "/bucket/k", "", {"x_amz_write_offset_bytes": "3"}),
    ("PUT", "/bucket/k", "", {"x_amz_rename_source": "bucket/other"}),
    ("PUT", "/bucket/k", "renameObject", {"x_amz_rename_source": "/other"}),
    ("PUT", "/bucket/k", "", {"x_amz_server_side_encryption_customer_algorithm": "AES256"}),
    ("PUT", "/bucket/k", "", {"x_amz_server_side_encryption": "aws:kms"}),
    ("PUT", "/bucket/k", "", {"x_amz_tagging": "a=b"}),
    ("PUT", "/bucket/k", "", {"x_amz_acl": "public-read"}),
    ("PUT", "/bucket/k", "", {"x_amz_storage_class": "GLACIER"}),
    ("PUT", "/bucket/k", "", {"x_amz_object_lock_mode": "COMPLIANCE"}),
    ("PUT", "/bucket/k", "", {"x_amz_expected_bucket_owner": "111122223333"}),
    ("PUT", "/bucket/k", "", {"if_unmodified_since": "Sun, 15 Nov 2026 12:00:00 GMT"}),
    ("PUT", "/bucket/k", "acl", {}),
    ("PUT", "/bucket/k", "partNumber=1", {}),
    ("PUT", "/bucket/k", "", {"x_amz_copy_source": "bucket/k?versionId=7", "x_amz_metadata_directive": "REPLACE"}),
    ("GET", "/bucket/k", "partNumber=1", {}),
    ("GET", "/bucket/k", "acl", {}),
    ("GET", "/bucket/k", "attributes", {}),
    ("GET", "/bucket/k", "versionId=null", {}),
    ("HEAD", "/bucket/k", "partNumber=1", {}),
    ("DELETE", "/bucket/k", "versionId=7", {}),
    ("DELETE", "/bucket/k", "", {"x_amz_if_match_size": "3"}),
    ("DELETE", "/bucket/k", "", {"if_none_match": "*"}),
    ("DELETE", "/bucket/k", "", {"if_match": '"of something else"'}),  # no store deletes under a condition
    ("DELETE", "/bucket", "", {}),
    ("PUT", "/another", "metadataTable", {}),
    ("PUT", "/another", "metadataConfiguration", {}),
    ("PUT", "/another", "", {"x_amz_bucket_object_lock_enabled": "true"}),
    ("GET", "/bucket", "list-type=3", {}),
    ("GET", "/bucket", "tomorrows-parameter", {}),
    ("GET", "/", "Action=ListUsers", {}),
]


async def keys(s3: RawS3) -> bytes:
    found = await s3.ask("GET", "/bucket")
    buckets = await s3.ask("GET", "/")
    return found.body + buckets.body.partition(b"<Buckets>")[2]


@pytest.mark.parametrize(("method", "path", "query", "headers"), STRANGE, ids=range(len(STRANGE)))
async def test_what_is_unknown_is_refused_and_changes_nothing(
    method: str, path: str, query: str, headers: dict[str, str]
) -> None:
    async with raw_s3() as s3:
        for key in ("k", "other"):
            assert (await s3.ask("PUT", f"/bucket/{key}", b"as it was")).status == 200
        before = await keys(s3)
        answer = await s3.ask(method, path, b"new", query, **headers)
        assert answer.status == 501
        if method != "HEAD":
            assert code_of(answer.body) == "NotImplemented"
            name = query.partition("=")[0] or next(iter(headers), "").replace("_", "-")
            assert not name or method == "DELETE" or name.encode() in answer.body
        assert await keys(s3) == before
        assert (await s3.ask("GET", "/bucket/k")).body == b"as it was"


@pytest.mark.parametrize(
    ("query", "headers"), [("", {"x_amz_security_token": "never given out"}), ("X-Amz-Security-Token=x", {})]
)
async def test_session_tokens_are_refused(query: str, headers: dict[str, str]) -> None:
    async with raw_s3() as s3:
        answer = await s3.ask("GET", "/bucket", b"", query, **headers)
        assert (answer.status, code_of(answer.body)) == (400, "InvalidToken")


@pytest.mark.parametrize(
    "headers",
    [
        {"x_amz_storage_class": "STANDARD", "x_amz_acl": "private"},
        {"x_amz_meta_a": "b", "x_amz_user_agent": "s", "x_amz_sdk_checksum_algorithm": "CRC32"},
        {"if_none_match": "*", "x_amz_acl": "bucket-owner-full-control"},
    ],
)
async def test_what_asks_for_the_usual_is_taken(headers: dict[str, str]) -> None:
    async with raw_s3() as s3:
        assert (await s3.ask("PUT", "/bucket/k", b"x", "x-id=PutObject", **headers)).status == 200


async def test_bytes_of_users_are_no_script_of_this_origin() -> None:
    async with raw_s3() as s3:
        await s3.ask("PUT", "/bucket/k.html", b"<script>", content_type="text/html")
        for query in ("", "response-content-type=text%2Fhtml"):
            answer = await s3.ask("GET", "/bucket/k.html", b"", query)
            assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
            assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_completion_checks_the_whole_object() -> None:
    async with raw_s3() as s3:
        begun = await s3.ask("POST", "/bucket/k", b"", "uploads")
        upload = begun.body.partition(b"<UploadId>")[2].partition(b"<")[0].decode()
        part = await s3.ask("PUT", "/bucket/k", b"123456789", f"partNumber=1&uploadId={upload}")
        etag = part.headers["etag"]
        inner = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
        xml, query = f"<CompleteMultipartUpload>{inner}</CompleteMultipartUpload>".encode(), f"uploadId={upload}"
        for headers, code in (
            ({"x_amz_checksum_crc32": "AAAAAA=="}, "BadDigest"),
            ({"x_amz_mp_object_size": "8"}, "InvalidRequest"),
            ({"x_amz_checksum_crc32": "AAAAAA==-1"}, "NotImplemented"),
        ):
            answer = await s3.ask("POST", "/bucket/k", xml, query, **headers)
            assert code_of(answer.body) == code
            assert (await s3.ask("GET", "/bucket/k")).status == 404
        done = await s3.ask(
            "POST",
            "/bucket/k",
            xml,
            query,
            x_amz_checksum_crc32="y/Q5Jg==",
            x_amz_mp_object_size="9",
        )
        assert done.status == 200, done.body
        assert (await s3.ask("GET", "/bucket/k")).body == b"123456789"


async def test_buckets_are_listed_by_prefix_and_in_pages() -> None:
    async with raw_s3() as s3:
        for name in ("other", "shop-1", "shop-2", "shop-3"):
            await s3.ask("PUT", f"/{name}")
        seen: list[bytes] = []
        token = ""
        while True:
            page = (await s3.ask("GET", "/", b"", f"max-buckets=2&prefix=shop{token}")).body
            seen += [part.partition(b"<")[0] for part in page.split(b"<Name>")[1:]]
            if b"<ContinuationToken>" not in page:
                break
            token = "&continuation-token=" + page.partition(b"<ContinuationToken>")[2].partition(b"<")[0].decode()
        assert seen == [b"shop-1", b"shop-2", b"shop-3"]


def test_every_operation_is_in_the_reference() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs/reference/s3.md").read_text()
    missing = [each.name for each in OPERATIONS.values() if each.name not in page]
    assert not missing
