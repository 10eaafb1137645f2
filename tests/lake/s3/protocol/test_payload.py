"""Bodies in every protection S3 knows, over a real connection: only what fits in every way becomes an object."""

import base64
import hashlib
import zlib
from collections.abc import Sequence

import pytest
from tests.lake.s3.raw import RawS3, raw_s3

from penstock.lake.s3.protocol.chunks import EMPTY_SHA256
from penstock.lake.s3.protocol.signature import Signed, sign

SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
DATA = bytes(range(256)) * 300
CRC32 = base64.b64encode(zlib.crc32(DATA).to_bytes(4, "big")).decode()


def signed_chunks(seed: Signed, chunks: Sequence[bytes], trailer: str = "") -> bytes:
    body, previous = b"", seed.signature
    for chunk in [*chunks, b""]:
        digest = hashlib.sha256(chunk).hexdigest()
        text = f"AWS4-HMAC-SHA256-PAYLOAD\n{seed.timestamp}\n{seed.scope}\n{previous}\n{EMPTY_SHA256}\n{digest}"
        previous = sign(seed.key, text)
        body += f"{len(chunk):x};chunk-signature={previous}\r\n".encode() + chunk + (b"\r\n" if chunk else b"")
    if trailer:
        digest = hashlib.sha256(f"{trailer}\n".encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256-TRAILER\n{seed.timestamp}\n{seed.scope}\n{previous}\n{digest}"
        body += f"{trailer}\r\nx-amz-trailer-signature:{sign(seed.key, text)}\r\n".encode()
    return body + b"\r\n"


def unsigned_chunks(chunks: Sequence[bytes], trailer: str) -> bytes:
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return framed + f"0\r\n{trailer}\r\n\r\n".encode()


async def put(
    s3: RawS3, payload: str, body: object, headers: dict[str, str] | None = None, *, size: int = len(DATA)
) -> tuple[int, str]:
    """Status and S3 code of a put; `body` makes the bytes from what signs its chunks."""
    made = body(s3.signed("PUT", "/bucket/k", payload)[0]) if callable(body) else body
    assert isinstance(made, bytes)
    length, decoded = str(len(made)), str(size)
    fields = {**(headers or {}), "content_length": length, "x_amz_decoded_content_length": decoded}
    seed, head = s3.signed("PUT", "/bucket/k", payload, **fields)
    answer = await s3.send(head + (body(seed) if callable(body) else made))
    code = answer.body.partition(b"<Code>")[2].partition(b"<")[0].decode()
    return answer.status, code


async def stored(s3: RawS3) -> bytes | None:
    answer = await s3.ask("GET", "/bucket/k")
    return answer.body if answer.status == 200 else None


async def test_signed_chunks() -> None:
    async with raw_s3() as s3:
        assert await put(s3, SIGNED, lambda seed: signed_chunks(seed, [DATA[:65536], DATA[65536:]])) == (200, "")
        assert await stored(s3) == DATA


async def test_signed_chunks_with_a_trailer() -> None:
    trailer = f"x-amz-checksum-crc32:{CRC32}"
    async with raw_s3() as s3:
        answer = await put(
            s3,
            SIGNED_TRAILER,
            lambda seed: signed_chunks(seed, [DATA], trailer),
            {"x_amz_trailer": "x-amz-checksum-crc32"},
        )
        assert answer == (200, "")
        assert await stored(s3) == DATA


async def test_unsigned_chunks_with_a_trailer() -> None:
    body = unsigned_chunks([DATA[:10], DATA[10:]], f"x-amz-checksum-crc32:{CRC32}")
    async with raw_s3() as s3:
        assert await put(s3, UNSIGNED_TRAILER, body, {"x_amz_trailer": "x-amz-checksum-crc32"}) == (200, "")
        assert await stored(s3) == DATA


def _changed(seed: Signed) -> bytes:
    return signed_chunks(seed, [DATA]).replace(b"\x00\x01\x02", b"\x00\x01\x03", 1)


def _swapped(seed: Signed) -> bytes:
    first, second = signed_chunks(seed, [DATA, DATA[::-1]]).split(DATA)
    return first + DATA[::-1] + second.replace(DATA[::-1], DATA)


@pytest.mark.parametrize(
    ("payload", "body", "headers", "code"),
    [
        (SIGNED, _changed, {}, "SignatureDoesNotMatch"),
        (SIGNED, lambda seed: signed_chunks(seed, [DATA[:-1]]), {}, "IncompleteBody"),
        (SIGNED, lambda seed: signed_chunks(seed, [DATA])[:-90], {}, "IncompleteBody"),
        (SIGNED, DATA, {}, "InvalidRequest"),
        (UNSIGNED_TRAILER, unsigned_chunks([DATA], "x-amz-checksum-crc32:AAAAAA=="), {}, "InvalidRequest"),
        (
            UNSIGNED_TRAILER,
            unsigned_chunks([DATA], "x-amz-checksum-crc32:AAAAAA=="),
            {"x_amz_trailer": "x-amz-checksum-crc32"},
            "BadDigest",
        ),
        (
            UNSIGNED_TRAILER,
            unsigned_chunks([DATA], f"x-amz-checksum-crc32c:{CRC32}"),
            {"x_amz_trailer": "x-amz-checksum-crc32"},
            "InvalidRequest",
        ),
        (
            UNSIGNED_TRAILER,
            unsigned_chunks([DATA], "x:y").replace(b"x:y\r\n", b""),
            {"x_amz_trailer": "x-amz-checksum-crc32"},
            "InvalidRequest",
        ),
        ("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", DATA, {}, "InvalidArgument"),
        ("0" * 64, DATA, {}, "XAmzContentSHA256Mismatch"),
        ("UNSIGNED-PAYLOAD", DATA, {"content_md5": "AAAAAAAAAAAAAAAAAAAAAA=="}, "BadDigest"),
        ("UNSIGNED-PAYLOAD", DATA, {"x_amz_checksum_sha256": "AAAA"}, "InvalidRequest"),
    ],
)
async def test_what_does_not_fit_leaves_nothing(payload: str, body: object, headers: dict[str, str], code: str) -> None:
    async with raw_s3() as s3:
        status, found = await put(s3, payload, body, headers)
        assert (status in (400, 403), found) == (True, code)
        assert await stored(s3) is None


async def test_chunks_in_another_order_are_noticed() -> None:
    async with raw_s3() as s3:
        assert await put(s3, SIGNED, _swapped, size=2 * len(DATA)) == (403, "SignatureDoesNotMatch")


async def test_the_size_of_chunks_must_be_said_and_bounded() -> None:
    body = unsigned_chunks([DATA], f"x-amz-checksum-crc32:{CRC32}")
    async with raw_s3() as s3:
        assert await put(s3, UNSIGNED_TRAILER, body, size=6 << 30) == (400, "EntityTooLarge")
        _, head = s3.signed("PUT", "/bucket/k", UNSIGNED_TRAILER, content_length=str(len(body)))
        assert (await s3.send(head + body)).status == 411
