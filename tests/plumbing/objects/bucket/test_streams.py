"""Against the S3 server: what lies in the bucket while an upload is under way, and after it was aborted."""

import urllib.error
import urllib.request
import uuid
from typing import Any

import pytest

from penstock.plumbing.objects import ObjectStore, StoreOptions, open_store

PART_BYTES = 5 << 20


def open_s3(bucket: str, **options: Any) -> ObjectStore:
    credentials = {"access_key_id": "test", "secret_access_key": "test-secret"}
    url = bucket.replace("penstock?", f"penstock/{uuid.uuid4().hex}?")
    return open_store(url, StoreOptions(credentials=credentials, part_bytes=PART_BYTES, **options))


def fetched(url: str, method: str = "GET", data: bytes | None = None) -> bytes:
    headers = {"Content-Type": "application/octet-stream"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method)) as answer:
        body: bytes = answer.read()
    return body


def uploads(endpoint: str) -> bytes:
    return fetched(f"{endpoint}/penstock?uploads")


async def test_parts_are_uploaded_while_writing_and_removed_by_an_abort(s3_bucket: str, s3_endpoint: str) -> None:
    async with open_s3(s3_bucket, parts_in_flight_max=1) as store, store.writer("aborted/here") as writer:
        for _ in range(3):
            await writer.write(bytes(PART_BYTES))
        assert b"aborted/here" in uploads(s3_endpoint)
        await writer.abort()
    assert b"aborted/here" not in uploads(s3_endpoint)


async def test_a_small_object_needs_no_parts(s3_bucket: str) -> None:
    async with open_s3(s3_bucket) as store:
        async with store.writer("small") as writer:
            await writer.write(b"x" * 100)
        async with store.writer("large") as writer:
            await writer.write(b"x" * (PART_BYTES + 1))
        assert "-" not in (await store.head("small")).etag
        assert (await store.head("large")).etag.endswith('-2"')


async def test_a_signed_url_needs_no_credentials(s3_bucket: str) -> None:
    async with open_s3(s3_bucket) as store:
        put, get = await store.sign("PUT", "a b/ü", 60), await store.sign("GET", "a b/ü", 60)
        assert "test-secret" not in put + get
        fetched(put, "PUT", b"from elsewhere")
        assert fetched(get) == b"from elsewhere"
        assert bytes((await store.get("a b/ü")).data) == b"from elsewhere"
        missing = await store.sign("GET", "nothing", 60)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetched(missing)
