import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Clock
from penstock.messages.framing.fixed import MAGIC, Fixed
from penstock.messages.uuid import ProducerId, Uuid

UUID = Uuid(ProducerId(1), Clock(1 << 40), 0)
FRAME = Fixed().encode(b"body", UUID)


def test_the_layout() -> None:
    assert FRAME[:8].hex() == "6633933614000000"
    assert FRAME[8:24] == UUID.packed
    assert FRAME[24:] == b"body"


@given(st.binary(min_size=1, max_size=40))
def test_after_garbage_the_next_frame_is_found(garbage: bytes) -> None:
    split = Fixed(frame_bytes_max=1000).split(garbage + FRAME + FRAME)
    if split.frames:  # garbage may look like the head of a frame which is not complete yet
        assert split.frames[-1] == FRAME
        assert split.bad[0].begin == 0


def test_what_lies_between_frames_is_named() -> None:
    split = Fixed().split(FRAME + b"garbage" + FRAME + MAGIC[:1])
    assert split.frames == [FRAME, FRAME]
    assert [(bad.begin, bad.end) for bad in split.bad] == [(28, 35)]
    assert split.consumed == 63, "one byte may be the first of a frame"


@given(st.binary(max_size=40).map(lambda text: text.replace(b"f", b"3f")), st.integers(0, 60))
def test_where_a_reader_goes_on_after_garbage_does_not_depend_on_chunks(garbage: bytes, cut: int) -> None:
    data = FRAME + garbage
    whole = Fixed().split(data).consumed
    first = Fixed().split(data[:cut]).consumed
    assert first + Fixed().split(data[first:]).consumed == whole


def test_a_length_out_of_range_is_no_frame() -> None:
    small = Fixed(frame_bytes_max=100)
    with pytest.raises(InvalidArgument, match="100"):
        small.encode(bytes(100), UUID)
    split = small.split(Fixed().encode(bytes(200), UUID) + FRAME)
    assert split.frames == [FRAME]
    assert split.bad[0].begin == 0


def test_a_uuid_of_another_version_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="version 1"):
        Fixed().uuid(FRAME[:8] + b"\x01" * 16)
