"""The parser: whatever the bytes, and however they are cut."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import FrameTooLarge, MalformedFrame
from penstock.plumbing.wire.protocol.frames import (
    BUFFER_BYTES_MAX,
    BUFFER_BYTES_MIN,
    HEADER_BYTES,
    KIND_MAX,
    LARGE_BYTES,
    VIEW_BYTES,
    Bulk,
    Frame,
    FrameKind,
    FrameParser,
    encode_frame,
)

LIMIT = 1 << 20
SIZES = (0, 1, 100, LARGE_BYTES - 1, LARGE_BYTES, 3 * LARGE_BYTES + 7)


def feed(parser: FrameParser, data: bytes, cuts: list[int] | None = None) -> list[Frame]:
    """Hand the data to the parser in the pieces between the cuts, each as far as there is space."""
    frames: list[Frame] = []
    for begin, end in pairwise([0, *sorted(cuts or []), len(data)]):
        piece = data[begin:end]
        while piece:
            space = parser.space()
            assert 0 < len(space) <= max(BUFFER_BYTES_MAX, LIMIT)
            count = min(len(space), len(piece))
            space[:count] = piece[:count]
            piece = piece[count:]
            frames += parser.received(count)
    return frames


def plain(frames: list[Frame]) -> list[Frame]:
    """The same frames, with bulk as bytes, so that they compare."""
    return [(kind, method, id, argument, body, bytes(bulk)) for kind, method, id, argument, body, bulk in frames]


@st.composite
def some_frames(draw: st.DrawFn) -> list[Frame]:
    numbers = st.integers(min_value=0)
    frame = st.tuples(
        st.sampled_from([int(kind) for kind in FrameKind]),
        st.integers(0, 0xFFFF),
        st.integers(0, 2**64 - 1),
        st.integers(0, 2**32 - 1),
        st.sampled_from(SIZES),
        st.sampled_from(SIZES),
        numbers,
    )
    return [
        (kind, method, id, argument, Random(seed).randbytes(body), Random(seed + 1).randbytes(bulk))
        for kind, method, id, argument, body, bulk, seed in draw(st.lists(frame, max_size=8))
    ]


def encode(frames: list[Frame]) -> bytes:
    return b"".join(
        encode_frame(FrameKind(kind), method=method, id=id, argument=argument, body=body, bulk=bulk)
        for kind, method, id, argument, body, bulk in frames
    )


def test_a_frame_is_these_bytes() -> None:
    frame = encode_frame(FrameKind.REQUEST, method=2, id=7, argument=500, body=b"ab", bulk=b"xyz")
    assert frame == (b"\x05\0\0\0\x03\0\x02\0\x07\0\0\0\0\0\0\0\x02\0\0\0\xf4\x01\0\0abxyz")
    assert len(frame) == HEADER_BYTES + 5


@given(frames=some_frames(), data=st.data())
def test_the_same_frames_however_the_bytes_are_cut(frames: list[Frame], data: st.DataObject) -> None:
    stream = encode(frames)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20))
    parser = FrameParser(LIMIT)
    assert plain(feed(parser, stream, cuts)) == frames
    assert parser.failure is None
    assert not parser.is_partial


@given(frames=some_frames(), data=st.data())
def test_the_same_failure_however_the_bytes_are_cut(frames: list[Frame], data: st.DataObject) -> None:
    bad = data.draw(
        st.sampled_from(
            [
                encode_frame(FrameKind.PING, body=bytes(LIMIT + 1))[: HEADER_BYTES + 50],
                b"\0\0\0\0" + (KIND_MAX + 1).to_bytes(2, "little") + bytes(40),
                b"\x05\0\0\0\x01\0" + bytes(10) + b"\x06\0\0\0" + bytes(40),
            ]
        )
    )
    stream = encode(frames) + bad
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20))
    parser = FrameParser(LIMIT)
    assert plain(feed(parser, stream, cuts)) == frames
    assert isinstance(parser.failure, FrameTooLarge | MalformedFrame)
    assert feed(parser, encode(frames)) == []


@pytest.mark.parametrize("size", [0, 5, LARGE_BYTES])
def test_a_large_frame_may_be_cut_anywhere_around_its_end(size: int) -> None:
    frames: list[Frame] = [
        (FrameKind.MESSAGE, 0, id, 7, bytes([id]) * 10, bytes([id]) * (LARGE_BYTES + id)) for id in (1, 2)
    ]
    frames.append((FrameKind.PING, 0, 0, 3, b"p" * size, b""))
    stream = encode(frames)
    end = HEADER_BYTES + 10 + LARGE_BYTES + 1
    for first in range(end - 30, end + 60):
        for second in (first, first + 1, first + HEADER_BYTES):
            parser = FrameParser(LIMIT)
            assert plain(feed(parser, stream, [first, second])) == frames


@pytest.mark.parametrize("length", [LIMIT + 1, 0xFFFF_FFFF])
def test_a_large_frame_is_refused_by_its_header_alone(length: int) -> None:
    parser = FrameParser(LIMIT)
    feed(parser, length.to_bytes(4, "little") + b"\x0b\0" + bytes(18))
    assert isinstance(parser.failure, FrameTooLarge)
    assert parser.failure.details == {"length": length, "limit": LIMIT}


def test_a_frame_of_exactly_the_limit_is_taken() -> None:
    parser = FrameParser(LIMIT)
    [(_, _, _, _, body, bulk)] = feed(parser, encode_frame(FrameKind.MESSAGE, body=b"a", bulk=bytes(LIMIT - 1)))
    assert (body, len(bulk)) == (b"a", LIMIT - 1)


def test_bulk_which_is_held_is_not_overwritten_by_what_follows() -> None:
    random = Random(8)
    parser = FrameParser(LIMIT)
    held: list[tuple[memoryview, bytes]] = []
    for number in range(200):
        payload = random.randbytes(random.choice([LARGE_BYTES, 2 * LARGE_BYTES, 5 * LARGE_BYTES]))
        [(_, _, _, _, _, bulk)] = feed(parser, encode_frame(FrameKind.MESSAGE, id=number, bulk=payload), [100, 20_000])
        assert isinstance(bulk, memoryview)
        assert bulk.readonly
        held.append((bulk[10:-10], payload[10:-10]))
        if number % 3:
            held.pop(random.randrange(len(held)))
    assert all(view == payload for view, payload in held)


def test_bulk_of_a_middle_size_which_came_alone_is_held_likewise() -> None:
    random = Random(9)
    parser = FrameParser(LIMIT)
    held: list[tuple[Bulk, bytes]] = []
    for size in (VIEW_BYTES - 1, VIEW_BYTES, LARGE_BYTES // 2):
        payload = random.randbytes(size)
        [(_, _, _, _, body, bulk)] = feed(parser, encode_frame(FrameKind.MESSAGE, body=b"record", bulk=payload))
        assert body == b"record"
        assert isinstance(bulk, memoryview) is (size >= VIEW_BYTES)
        held.append((bulk, payload))
    assert all(memoryview(bulk).readonly for bulk, _ in held)
    assert all(bulk == payload for bulk, payload in held)


@given(frames=some_frames(), seed=st.integers(0, 2**32))
def test_any_change_of_valid_bytes_leads_to_frames_or_a_failure(frames: list[Frame], seed: int) -> None:
    random = Random(seed)
    stream = bytearray(encode(frames) + encode_frame(FrameKind.PING))
    for _ in range(random.randrange(1, 10)):
        stream[random.randrange(len(stream))] = random.randrange(256)
    parser = FrameParser(LIMIT)
    feed(parser, bytes(stream), [random.randrange(len(stream)) for _ in range(5)])
    assert parser.failure is None or isinstance(parser.failure, FrameTooLarge | MalformedFrame)


def test_the_buffer_grows_with_the_traffic_and_shrinks_without() -> None:
    parser = FrameParser(LIMIT)
    assert len(parser.space()) == BUFFER_BYTES_MIN
    feed(parser, encode_frame(FrameKind.PING, body=bytes(1000)) * 2000)
    assert BUFFER_BYTES_MIN < len(parser.space()) <= BUFFER_BYTES_MAX
    parser.trim()
    assert len(parser.space()) == BUFFER_BYTES_MIN


def test_trimming_loses_nothing_of_a_frame_which_has_begun() -> None:
    parser = FrameParser(LIMIT)
    feed(parser, encode_frame(FrameKind.PING, body=bytes(1000)) * 2000)
    for frame in (
        encode_frame(FrameKind.PING, body=b"small"),
        encode_frame(FrameKind.PING, bulk=bytes(5 * LARGE_BYTES)),
    ):
        feed(parser, frame[:-1])
        assert parser.is_partial
        parser.trim()
        assert len(feed(parser, frame[-1:])) == 1
