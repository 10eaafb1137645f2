"""Each codec gives back its input, however both are cut; reads the output of other programs; refuses damaged input."""

import gzip
import random
from itertools import pairwise

import cramjam
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.journals.records.fragment import CompressionCodec
from penstock.journals.storage.codecs import PIECE_BYTES, compressor, decompressor
from penstock.kernel.errors import StorageError

CODECS = list(CompressionCodec)
PACKED = [codec for codec in CODECS if codec is not CompressionCodec.NONE]
TEXT = b'{"customer": 1234, "amount": 99.50}\n' * 20_000
NOISE = random.Random(7).randbytes(300_000)


def packed(codec: CompressionCodec, *chunks: bytes) -> bytes:
    stream = compressor(codec)
    return b"".join([*map(stream.compress, chunks), stream.finish()])


def unpacked(codec: CompressionCodec, *chunks: bytes) -> bytes:
    stream = decompressor(codec)
    content = b"".join(piece for chunk in chunks for piece in stream.decompress(chunk))
    stream.finish()
    return content


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in cuts)})
    return [data[begin:end] for begin, end in pairwise(places)]


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=20, deadline=None)
@given(st.sampled_from([b"", b"x", TEXT, NOISE]), st.lists(st.integers(0, 1 << 20)), st.lists(st.integers(0, 1 << 20)))
def test_content_comes_back_however_it_is_cut(
    codec: CompressionCodec, content: bytes, cuts: list[int], object_cuts: list[int]
) -> None:
    data = packed(codec, *cut(content, cuts))
    assert unpacked(codec, *cut(data, object_cuts)) == content


@pytest.mark.parametrize("codec", PACKED)
def test_text_shrinks_and_noise_hardly_grows(codec: CompressionCodec) -> None:
    assert len(packed(codec, TEXT)) < len(TEXT) / 4
    assert len(packed(codec, NOISE)) < len(NOISE) * 1.01 + 100


@pytest.mark.parametrize("codec", PACKED)
def test_objects_one_behind_the_other_are_read_as_one(codec: CompressionCodec) -> None:
    data = packed(codec, TEXT) + packed(codec, NOISE)
    assert unpacked(codec, data) == TEXT + NOISE
    assert unpacked(codec, *(data[at : at + 1] for at in range(2_000)), data[2_000:]) == TEXT + NOISE


def test_what_other_programs_wrote_is_read() -> None:
    assert unpacked(CompressionCodec.GZIP, gzip.compress(TEXT) + gzip.compress(NOISE)) == TEXT + NOISE
    assert unpacked(CompressionCodec.ZSTANDARD, zstandard.compress(TEXT)) == TEXT
    assert unpacked(CompressionCodec.SNAPPY, bytes(cramjam.snappy.compress(TEXT + NOISE))) == TEXT + NOISE


def test_other_programs_read_what_is_written() -> None:
    assert gzip.decompress(packed(CompressionCodec.GZIP, TEXT, NOISE)) == TEXT + NOISE
    reader = zstandard.ZstdDecompressor().stream_reader(packed(CompressionCodec.ZSTANDARD, TEXT, NOISE))
    assert reader.read() == TEXT + NOISE
    assert bytes(cramjam.snappy.decompress(packed(CompressionCodec.SNAPPY, TEXT, NOISE))) == TEXT + NOISE


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("lost", [1, 4, 1_000])
def test_an_object_that_was_cut_short_is_refused(codec: CompressionCodec, lost: int) -> None:
    with pytest.raises(StorageError):
        unpacked(codec, packed(codec, NOISE)[:-lost])


@pytest.mark.parametrize("codec", PACKED)
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_makes_no_difference(codec: CompressionCodec, place: int, change: int) -> None:
    data = bytearray(packed(codec, TEXT[:5_000]))
    data[place % len(data)] ^= change
    try:
        content = unpacked(codec, bytes(data))
    except StorageError:
        return
    assert content == TEXT[:5_000]


@pytest.mark.parametrize("codec", PACKED)
@given(st.binary(min_size=1, max_size=200))
def test_nonsense_is_refused_with_our_error(codec: CompressionCodec, nonsense: bytes) -> None:
    with pytest.raises(StorageError):
        unpacked(codec, nonsense + b"\0" * 16)


def test_a_bomb_comes_in_pieces() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    stream = decompressor(CompressionCodec.GZIP)
    sizes = [len(piece) for piece in stream.decompress(bomb)]
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= PIECE_BYTES


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\x06\x00\x00sNaPpX",  # another identifier
        b"\x01\x05\x00\x00\x00\x00\x00\x00x",  # no identifier
        b"\xff\x06\x00\x00sNaPpY\x02\x00\x00\x00",  # a type which must not be skipped
        b"\xff\x06\x00\x00sNaPpY\x01\x03\x00\x00abc",  # no sum
        b"\xff\x06\x00\x00sNaPpY\x01\xff\xff\xff",  # too long
        b"\xff\x06\x00\x00sNaPpY\x01\x05\x00\x00\x00\x00\x00\x00x",  # a wrong sum
    ],
)
def test_snappy_frames_are_checked(data: bytes) -> None:
    with pytest.raises(StorageError):
        unpacked(CompressionCodec.SNAPPY, data)


@pytest.mark.parametrize("kind", [0x80, 0xFE])
def test_snappy_chunks_which_may_be_skipped_are_refused(kind: int) -> None:
    """A data chunk whose type one changed byte has made skippable: its content would vanish unnoticed."""
    data = bytearray(packed(CompressionCodec.SNAPPY, b"content"))
    data[10] = kind
    with pytest.raises(StorageError, match="unknown type"):
        unpacked(CompressionCodec.SNAPPY, bytes(data))
