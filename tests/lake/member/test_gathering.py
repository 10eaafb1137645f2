"""Decode batches of this and of other releases, and bytes that no member wrote."""

import msgspec
import pytest

from penstock.kernel.errors import FormatTooNew
from penstock.lake.core.staging.proposing.port import Envelope
from penstock.lake.core.staging.records import Sync
from penstock.lake.member.gathering import GatheredBatch, decode_batch

encode = msgspec.msgpack.Encoder().encode
KNOWN = Envelope(None, Sync())


def test_a_batch_is_read_as_it_was_written() -> None:
    assert decode_batch(encode(GatheredBatch(7, (KNOWN, KNOWN))), 1) == GatheredBatch(7, (KNOWN, KNOWN))


@pytest.mark.parametrize("data", [b"", b"by hand", b"\x00" * 40, encode(["lak", 1]), encode({"a": 1}), encode([])])
def test_what_no_member_has_written_is_left_out(data: bytes) -> None:
    assert decode_batch(data, 1) is None


@pytest.mark.parametrize(
    "data",
    [
        encode(["lake-1", 7, [KNOWN, {"type": "lake", "token": None, "record": {"type": "teleport"}}]]),
        encode(["lake-1", 7, [KNOWN, {"type": "put", "record": 3}]]),
        encode(["lake-2", 7, "all is different"]),
    ],
    ids=["kind", "fields", "form"],
)
def test_a_record_of_another_release_stops_the_member(data: bytes) -> None:
    with pytest.raises(FormatTooNew, match="at 41"):
        decode_batch(data, 41)
