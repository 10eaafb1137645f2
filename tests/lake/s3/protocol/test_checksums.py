import base64
import hashlib
import zlib

import pytest

from penstock.kernel.errors import PenstockError
from penstock.lake.s3.protocol.checksums import ALGORITHMS, Checksum, given_checksums, header_of

# Of b"123456789", from the catalogue of CRCs, and from hashlib.
KNOWN = {
    "crc32": zlib.crc32(b"123456789").to_bytes(4, "big"),
    "crc32c": bytes.fromhex("e3069283"),
    "crc64nvme": bytes.fromhex("ae8b14860a799888"),
    "sha1": hashlib.sha1(b"123456789").digest(),
    "sha256": hashlib.sha256(b"123456789").digest(),
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_accepts_its_own_and_nothing_else(algorithm: str) -> None:
    text = base64.b64encode(KNOWN[algorithm]).decode()
    (checksum,) = given_checksums({header_of(algorithm): text})
    checksum.update(b"12345")
    checksum.update(memoryview(b"6789"))
    assert checksum.check() == text
    checksum.update(b"0")
    with pytest.raises(PenstockError, match="is not the one that was sent"):
        checksum.check()


def test_a_trailer_brings_it_later() -> None:
    (checksum,) = given_checksums({"x-amz-trailer": "X-Amz-Checksum-Crc32"})
    with pytest.raises(PenstockError, match="did not come"):
        checksum.check()
    checksum.expect("AAAAAA==")
    assert checksum.check() == "AAAAAA=="
    with pytest.raises(PenstockError, match="no valid digest"):
        checksum.expect("AAAA")


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-checksum-crc32": "AAAA"},
        {"x-amz-checksum-crc32": "!!!!"},
        {"x-amz-checksum-crc32": "AAAAAA==", "x-amz-checksum-crc32c": "AAAAAA=="},
        {"x-amz-trailer": "x-amz-checksum-md4"},
        {"x-amz-trailer": "content-length"},
        {"x-amz-trailer": "x-amz-checksum-crc32,x-amz-checksum-sha1"},
    ],
)
def test_bad_checksum_headers_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(PenstockError) as caught:
        given_checksums(headers)
    assert caught.value.details["s3"] == "InvalidRequest"


def test_a_checksum_knows_its_name() -> None:
    assert Checksum("sha1", None).algorithm == "sha1"
