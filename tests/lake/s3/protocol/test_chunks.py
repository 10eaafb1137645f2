import contextlib
import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import PenstockError
from penstock.lake.s3.protocol.chunks import EMPTY_SHA256, LINE_BYTES_MAX, ChunkDecoder
from penstock.lake.s3.protocol.signature import Signed, scope_of, sign, signing_key

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
SEED = Signed(
    "AKIAIOSFODNN7EXAMPLE",
    scope_of("20130524", "us-east-1", "s3"),
    "20130524T000000Z",
    signing_key(SECRET, "20130524", "us-east-1", "s3"),
    "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
)

# The example of Amazon's documentation: 65 KiB of "a" in two chunks.
DOCUMENTED = (
    b"10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n"
    + b"a" * 65536
    + b"\r\n400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n"
    + b"a" * 1024
    + b"\r\n0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"
)


def decode(body: bytes, cuts: Sequence[int] = (), *, signed: Signed | None = SEED, has_trailers: bool = False) -> Any:
    decoder = ChunkDecoder(signed, has_trailers=has_trailers)
    edges = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    payload = b"".join(bytes(piece) for start, end in pairwise(edges) for piece in decoder.feed(body[start:end]))
    decoder.finish()
    return payload, decoder.trailers


def encode(chunks: Sequence[bytes], trailers: dict[str, str] | None = None, *, signed: bool = True) -> bytes:
    """A body as a client writes it."""
    body, previous = b"", SEED.signature
    for chunk in [*(one for one in chunks if one), b""]:
        head = f"{len(chunk):x}"
        if signed:
            digest = hashlib.sha256(chunk).hexdigest()
            text = f"AWS4-HMAC-SHA256-PAYLOAD\n{SEED.timestamp}\n{SEED.scope}\n{previous}\n{EMPTY_SHA256}\n{digest}"
            previous = sign(SEED.key, text)
            head += f";chunk-signature={previous}"
        body += head.encode() + b"\r\n" + chunk + (b"\r\n" if chunk else b"")
    lines = "".join(f"{name}:{value}\n" for name, value in sorted((trailers or {}).items()))
    body += lines.replace("\n", "\r\n").encode()
    if signed and trailers is not None:
        digest = hashlib.sha256(lines.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256-TRAILER\n{SEED.timestamp}\n{SEED.scope}\n{previous}\n{digest}"
        body += f"x-amz-trailer-signature:{sign(SEED.key, text)}\r\n".encode()
    return body + b"\r\n"


def test_the_documented_example() -> None:
    assert decode(DOCUMENTED) == (b"a" * 66560, {})


@given(st.lists(st.binary(max_size=40), max_size=5), st.lists(st.integers(0), max_size=6), st.booleans(), st.booleans())
def test_a_body_is_decoded_however_it_is_cut(
    chunks: list[bytes], cuts: list[int], is_signed: bool, has_trailers: bool
) -> None:
    trailers = {"x-amz-checksum-crc32": "AAAAAA=="} if has_trailers else {}
    body = encode(chunks, trailers if has_trailers else None, signed=is_signed)
    found = decode(body, cuts, signed=SEED if is_signed else None, has_trailers=has_trailers)
    assert found == (b"".join(chunks), trailers)


@given(st.data())
def test_no_changed_byte_goes_unnoticed(data: st.DataObject) -> None:
    chunks = data.draw(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=3))
    body = bytearray(encode(chunks, {"x-amz-checksum-sha1": "abc="}))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(PenstockError):
        # Upper-case digits of a size, and space before a trailer's value, say the same.
        assert decode(bytes(body), has_trailers=True) == (b"".join(chunks), {"x-amz-checksum-sha1": "abc="})


@given(st.binary(max_size=200), st.booleans(), st.booleans())
def test_any_bytes_are_decoded_or_refused(body: bytes, is_signed: bool, has_trailers: bool) -> None:
    with contextlib.suppress(PenstockError):
        decode(body, [3, 50], signed=SEED if is_signed else None, has_trailers=has_trailers)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (DOCUMENTED[:-2], "IncompleteBody"),
        (DOCUMENTED[:1000], "IncompleteBody"),
        (b"", "IncompleteBody"),
        (DOCUMENTED + b"x", "InvalidRequest"),
        (DOCUMENTED.replace(b"400;", b"3ff;"), "InvalidRequest"),
        (DOCUMENTED.replace(b"aaaa\r\n400", b"aaab\r\n400"), "SignatureDoesNotMatch"),
        (DOCUMENTED.replace(b"b6c6", b"b6c7"), "SignatureDoesNotMatch"),
        (encode([b"abc"], signed=False), "InvalidRequest"),
        (b"5;chunk-signature=" + b"0" * LINE_BYTES_MAX, "InvalidRequest"),
        (b"ffffffffffffffff;chunk-signature=" + b"0" * 64 + b"\r\n", "EntityTooLarge"),
        (b"5\n", "InvalidRequest"),
        (b"-5\r\n", "InvalidRequest"),
    ],
)
def test_broken_bodies_say_what_is_broken(body: bytes, code: str) -> None:
    with pytest.raises(PenstockError) as caught:
        decode(body)
    assert caught.value.details["s3"] == code


def test_trailers_are_as_announced() -> None:
    with pytest.raises(PenstockError, match="none was announced"):
        decode(b"0\r\na:b\r\n\r\n", signed=None)
    with pytest.raises(PenstockError, match="comes twice"):
        decode(b"0\r\na:b\r\na:c\r\n\r\n", signed=None, has_trailers=True)
    with pytest.raises(PenstockError, match="signature of the trailers"):
        decode(encode([b"abc"], {"a": "b"}).replace(b"a:b\r\n", b"a:c\r\n"), has_trailers=True)
