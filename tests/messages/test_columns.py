"""UUIDs of whole chunks: the same as frame by frame, whatever the chunk looks like."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Clock
from penstock.messages.columns import Columns, fixed_columns, json_columns
from penstock.messages.framing.fixed import Fixed
from penstock.messages.framing.framing import Framing
from penstock.messages.framing.json_lines import HEAD, JsonLines
from penstock.messages.uuid import ProducerId, Uuid

UUIDS = st.builds(Uuid, st.integers(0, 2**48 - 1), st.integers(1, 2**64 - 1), st.integers(0, 1023))
ONE = Uuid(ProducerId(7), Clock(1 << 60), 1)
GOOD_LINE = JsonLines().encode({"n": 1}, ONE)
ODD_LINES = [
    b"rubbish\n",
    b"\n",
    b"{}\n",
    b'{"n":1,"_meta":{"uuid":"%b"}}\n' % ONE.text.encode(),
    GOOD_LINE.upper().replace(b"META", b"meta").replace(b"UUID", b"uuid"),
    GOOD_LINE.replace(ONE.text.encode(), ONE.text.replace("-", "_").encode()),
    GOOD_LINE.replace(b"-1", b"-4"),  # another version
    GOOD_LINE[:40] + b"\n",
]


def one_by_one(data: bytes, framing: Framing) -> tuple[list[tuple[int, int, int, int, int]], set[tuple[int, int]], int]:
    split, begin = framing.split(data), 0
    found, bad = [], {(each.begin, each.end) for each in split.bad}
    ends = {each.begin: each.end for each in split.bad}
    for frame, end in zip(split.frames, split.ends, strict=True):
        begin = ends.get(begin, begin)
        try:
            uuid = framing.uuid(frame)
        except InvalidArgument:
            bad.add((begin, end))
        else:
            found.append((begin, end, uuid.producer, uuid.clock, uuid.flags) if uuid else (begin, end, 0, 0, 0))
        begin = end
    return found, bad, split.consumed


def as_tuples(columns: Columns) -> tuple[list[tuple[int, int, int, int, int]], set[tuple[int, int]], int]:
    arrays = (columns.begins, columns.ends, columns.producers, columns.clocks, columns.flags)
    rows = list(zip(*(array.tolist() for array in arrays), strict=True))
    return rows, {(bad.begin, bad.end) for bad in columns.bad}, columns.consumed


@given(
    st.lists(UUIDS.map(lambda uuid: JsonLines().encode({"n": 1}, uuid)) | st.sampled_from(ODD_LINES)),
    st.binary(max_size=60),
)
def test_lines(lines: list[bytes], rest: bytes) -> None:
    data = b"".join(lines) + rest
    assert as_tuples(json_columns(data, JsonLines())) == one_by_one(data, JsonLines())


@given(
    st.lists(
        UUIDS.map(lambda uuid: Fixed().encode(b"body", uuid)) | st.sampled_from([Fixed().encode(b"", None), b"rubbish"])
    )
)
def test_fixed_frames(frames: list[bytes]) -> None:
    data = b"".join(frames) + Fixed().encode(b"cut", ONE)[:-1]
    assert as_tuples(fixed_columns(data, Fixed())) == one_by_one(data, Fixed())


def test_any_byte_at_any_place_of_the_front() -> None:
    """Digits are found by their bits: no other byte must look like one."""
    places = range(len(HEAD) - 2, len(HEAD) + 37)
    lines = [GOOD_LINE[:at] + bytes([byte]) + GOOD_LINE[at + 1 :] for at in places for byte in range(256) if byte != 10]
    data = b"".join(lines)
    assert as_tuples(json_columns(data, JsonLines())) == one_by_one(data, JsonLines())
