import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.consumers.core.recoverylog.recorded_op import (
    Handoff,
    Op,
    OpReader,
    RecordedCreate,
    RecordedLink,
    RecordedOp,
    RecordedWrite,
    Unlink,
    encode,
)
from penstock.kernel.errors import MalformedFrame
from penstock.kernel.ids import Offset


def chained() -> tuple[bytes, list[RecordedOp]]:
    checksum, frames, ops = 0, [], []
    chain: list[Op] = [RecordedCreate("a"), RecordedWrite(1, 5, 9), RecordedLink(1, "b"), Unlink(1, "a"), Handoff()]
    for number, op in enumerate(chain, start=1):
        recorded = RecordedOp(number, checksum, 7, op)
        frame, checksum = encode(recorded, b"x" * 9 if isinstance(op, RecordedWrite) else b"")
        frames.append(frame)
        ops.append(recorded)
    return b"".join(frames), ops


@given(st.integers(1, 40))
def test_operations_are_read_wherever_chunks_end_and_form_a_chain(chunk: int) -> None:
    data, ops = chained()
    reader = OpReader(Offset(100))
    found = [read for at in range(0, len(data), chunk) for read in reader.feed(Offset(100 + at), data[at : at + chunk])]
    assert [read.recorded for read in found] == ops
    assert [read.content for read in found] == [b"", b"x" * 9, b"", b"", b""]
    assert [read.next_checksum for read in found[:-1]] == [op.checksum for op in ops[1:]]
    assert (found[0].begin, found[-1].end) == (100, 100 + len(data))


def test_content_is_under_the_checksum_too() -> None:
    recorded = RecordedOp(1, 0, 7, RecordedWrite(1, 0, 1))
    assert encode(recorded, b"a")[1] != encode(recorded, b"b")[1]


@pytest.mark.parametrize(
    "damage", [b"none at all", b"\x66\x33\x93\x36\xff\xff\xff\xff", b"\x66\x33\x93\x36\x01\0\0\0\xc0"]
)
def test_what_is_no_operation_is_refused(damage: bytes) -> None:
    with pytest.raises(MalformedFrame):
        OpReader(Offset(0)).feed(Offset(0), damage)
