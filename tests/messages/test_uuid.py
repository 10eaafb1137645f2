import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Clock
from penstock.messages.clock import from_unix_ns
from penstock.messages.uuid import ProducerId, TxnFlag, Uuid, producer_id, producer_text

UUIDS = st.builds(Uuid, st.integers(0, 2**48 - 1), st.integers(0, 2**64 - 1), st.integers(0, 1023))


def test_the_vector_of_gazette() -> None:
    made = Uuid(ProducerId(0x080607050309), Clock(0x1234567812345678), TxnFlag.ACK_TXN)
    assert made.text == "81234567-4567-1123-a002-080607050309"
    assert made.packed.hex() == "8123456745671123a002080607050309"
    assert Uuid.unpack(made.packed) == made


@given(UUIDS)
def test_the_standard_library_reads_the_same_parts(made: Uuid) -> None:
    theirs = uuid.UUID(made.text)
    assert theirs.version == 1
    assert theirs.variant == uuid.RFC_4122
    assert theirs.node == made.producer
    assert theirs.time == made.clock >> 4
    assert theirs.clock_seq == (made.clock & 15) << 10 | made.flags
    assert theirs.bytes == made.packed
    assert Uuid.unpack(made.packed) == Uuid.parse(made.text) == Uuid.parse(made.text.encode()) == made


@pytest.mark.parametrize(
    "text",
    [
        "",
        "81234567-4567-1123-a002-08060705030",
        "81234567-4567-4123-a002-080607050309",  # version 4
        "81234567-4567-1123-2002-080607050309",  # another variant
        "81234567_4567-1123-a002-080607050309",
        "81234567-4567-1123-a002-0806070503 9",
        "8123456745671123a002080607050309",
        b"\xff" * 36,
    ],
)
def test_what_is_no_uuid_of_ours_is_refused(text: Any) -> None:
    with pytest.raises(InvalidArgument, match="UUID"):
        Uuid.parse(text)


def test_a_drawn_producer_is_nobodys_network_card() -> None:
    assert producer_text(producer_id(0)) == "010000000000"
    assert producer_id((1 << 60) - 1) == (1 << 48) - 1


def test_a_uuid_carries_the_time_of_its_publishing() -> None:
    made = Uuid(producer_id(7), from_unix_ns(1_700_000_000_000_000_000), 0)
    assert uuid.UUID(made.text).time == 1_700_000_000_0000000 + 0x01B21DD213814000
