import pytest

from penstock.consumers.core.recoverylog.fsm import OperationVerdict, RecoveryFsm
from penstock.consumers.core.recoverylog.hints import FnodeHints, Hints, HintSegment, LogPoint
from penstock.consumers.core.recoverylog.recorded_op import (
    Op,
    RecordedCreate,
    RecordedLink,
    RecordedOp,
    RecordedWrite,
    Unlink,
)
from penstock.kernel.errors import MalformedFrame
from penstock.kernel.ids import Offset


class Chain:
    """An FSM, and operations for it which carry the right numbers unless told otherwise."""

    def __init__(self, hints: Hints | None = None) -> None:
        self.fsm = RecoveryFsm(hints or Hints("log"))

    def apply(
        self, op: Op, *, author: int = 1, seq_no: int | None = None, checksum: int | None = None
    ) -> OperationVerdict:
        point = self.fsm.next
        recorded = RecordedOp(
            point.seq_no if seq_no is None else seq_no, point.checksum if checksum is None else checksum, author, op
        )
        at = recorded.seq_no * 10
        verdict = self.fsm.apply(recorded, Offset(at), Offset(at + 10), recorded.seq_no * 100)
        self.fsm.check()
        return verdict


def test_only_the_exact_next_operation_counts() -> None:
    chain = Chain()
    assert chain.apply(RecordedCreate("a")) is OperationVerdict.APPLIED
    for seq_no in (1, 3):
        assert chain.apply(RecordedCreate("b"), seq_no=seq_no) is OperationVerdict.WRONG_SEQ_NO
    assert chain.apply(RecordedCreate("b"), checksum=5) is OperationVerdict.WRONG_CHECKSUM
    assert chain.apply(RecordedCreate("b"), author=2) is OperationVerdict.APPLIED, (
        "behind the hints any author may go on"
    )
    assert chain.fsm.paths == {"a": 1, "b": 2}


def test_a_file_is_gone_with_its_last_path() -> None:
    chain = Chain()
    chain.apply(RecordedCreate("a"))
    chain.apply(RecordedLink(1, "b"))
    chain.apply(Unlink(1, "a"))
    assert chain.fsm.paths == {"b": 1}
    chain.apply(Unlink(1, "b"))
    assert chain.fsm.fnodes == {}
    assert chain.apply(RecordedWrite(1, 0, 5)) is OperationVerdict.UNTRACKED


def test_operations_which_contradict_what_there_is_are_refused() -> None:
    chain = Chain()
    chain.apply(RecordedCreate("a"))
    with pytest.raises(MalformedFrame, match="a is linked already"):
        chain.apply(RecordedCreate("a"))
    chain = Chain()
    chain.apply(RecordedCreate("a"))
    with pytest.raises(MalformedFrame, match="b does not lead to file 1"):
        chain.apply(Unlink(1, "b"))


def test_segments_are_runs_of_one_author() -> None:
    chain = Chain()
    chain.apply(RecordedCreate("a"), author=1)
    chain.apply(RecordedCreate("b"), author=1)
    chain.apply(RecordedWrite(1, 0, 1), author=1)
    chain.apply(RecordedWrite(1, 0, 1), author=2)
    hints = chain.fsm.hints()
    assert [(each.author, each.first_seq_no, each.last_seq_no) for each in hints.live[0].segments] == [
        (1, 1, 3),
        (2, 4, 4),
    ]
    assert [(each.first_seq_no, each.last_seq_no) for each in hints.segments()] == [(1, 3), (4, 4)]
    assert hints.end == LogPoint(5, 400, Offset(50))


def test_hints_name_the_author_and_jump_to_where_they_end() -> None:
    segment = HintSegment(7, 5, Offset(50), 444, 6, Offset(70))
    chain = Chain(Hints("log", (FnodeHints(5, (segment,)),), LogPoint(20, 1999, Offset(200))))
    assert chain.fsm.next == LogPoint(5, 444, Offset(50))
    assert chain.apply(RecordedCreate("a"), author=8) is OperationVerdict.WRONG_AUTHOR
    assert chain.apply(RecordedCreate("a"), author=7) is OperationVerdict.APPLIED
    assert chain.apply(RecordedCreate("b"), author=7) is OperationVerdict.UNTRACKED, (
        "the hints do not know it: it is gone in the end"
    )
    assert chain.fsm.next == LogPoint(20, 1999, Offset(200))
    assert not chain.fsm.is_hinted
    assert chain.fsm.paths == {"a": 5}
