"""The head keeper: one transaction at a time, and a certification of unknown outcome is fenced off (301)."""

from penstock.journals.core.certify import head_key
from penstock.journals.core.effects import Transact, Transacted, TransactionEnd
from penstock.journals.core.head_keeper import HeadKeeper, Purpose
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.head import EMPTY_TABLE, EpochStart, HeadRecord
from penstock.journals.records.registers import NO_REGISTERS
from penstock.journals.records.route import Assignment, Topology
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.effects import Effect
from penstock.kernel.ids import NodeId, Offset, Revision
from penstock.keyspace.core.transaction import PutKey, is_at

ME, PEER = NodeId("b0"), NodeId("b1")
KEY = head_key("/r", "a/journal")
EPOCH = PipelineEpoch(Revision(9), 1)
HEAD = HeadRecord(
    create_revision=Revision(2),
    epoch=EPOCH,
    start=Offset(0),
    members=(),
    primary=ME,
    registers=NO_REGISTERS,
    limit=Offset(100),
    table=EMPTY_TABLE.with_entry(EpochStart(EPOCH, Offset(0))),
)


def topology(own: int = 5) -> Topology:
    assignments = [
        Assignment("k0", ME, 0, Revision(3), Revision(own)),
        Assignment("k1", PEER, 1, Revision(4), Revision(4)),
    ]
    return Topology.of(Revision(9), Revision(2), JournalSpec(name="a/journal"), assignments, None, Revision(0))


def keeper() -> tuple[HeadKeeper, list[Effect]]:
    out: list[Effect] = []
    return HeadKeeper(KEY, ME, out), out


def test_a_certification_compares_the_head_and_every_assignment() -> None:
    made, out = keeper()
    made.certify(topology(), HEAD, Revision(0))
    [transact] = out
    assert isinstance(transact, Transact)
    assert transact.transaction.compares == (
        is_at(KEY, Revision(0)),
        is_at("k0", Revision(5)),
        is_at("k1", Revision(4)),
    )
    assert [put.key for put in transact.transaction.then] == [KEY, "k0", "k1"]
    assert not made.is_sure(topology()), "one is on its way"
    ended = made.ended(Transacted(1, TransactionEnd.DONE, Revision(12)))
    assert ended is not None
    assert (made.head, made.head_revision) == (HEAD, 12)
    assert made.is_sure(topology())


def test_what_nobody_heard_of_is_fenced_off_by_our_own_assignment() -> None:
    made, out = keeper()
    made.certify(topology(), HEAD, Revision(0))
    made.ended(Transacted(1, TransactionEnd.UNKNOWN))
    out.clear()
    assert not made.is_sure(topology())
    [fence] = out
    assert isinstance(fence, Transact)
    assert fence.transaction.compares == (is_at("k0", Revision(5)),)
    assert fence.transaction.then == (PutKey("k0", b""),)
    made.ended(Transacted(2, TransactionEnd.DONE, Revision(15)))
    assert made.is_sure(topology(own=15)), "the mirror shows the put, so it shows the head before it"


def test_a_lost_fence_waits_for_the_mirror() -> None:
    made, out = keeper()
    made.certify(topology(), HEAD, Revision(0))
    made.ended(Transacted(1, TransactionEnd.UNKNOWN))
    assert not made.is_sure(topology())
    made.ended(Transacted(2, TransactionEnd.LOST))
    out.clear()
    assert not made.is_sure(topology())
    assert out == [], "the same again would lose again"
    assert made.is_sure(topology(own=12))


def test_a_lost_certification_waits_for_what_moved() -> None:
    made, _ = keeper()
    made.certify(topology(), HEAD, Revision(0))
    ended = made.ended(Transacted(1, TransactionEnd.LOST))
    assert ended is not None
    assert ended.purpose is Purpose.CERTIFY
    assert not made.is_sure(topology())
    made.see(HEAD, Revision(11))
    assert made.is_sure(topology())


def test_answers_to_nothing_are_ignored() -> None:
    made, _ = keeper()
    assert made.ended(Transacted(7, TransactionEnd.DONE, Revision(9))) is None
    assert not made.see(None, Revision(0))


def test_a_mirror_which_lags_behind_our_own_certification_changes_nothing() -> None:
    made, _ = keeper()
    made.see(HEAD, Revision(11))
    assert not made.see(None, Revision(0), as_of=Revision(10))
    assert made.head == HEAD


def test_a_tombstone_which_was_removed_is_gone() -> None:
    made, _ = keeper()
    made.see(HEAD, Revision(11))
    assert made.see(None, Revision(0), as_of=Revision(20))
    assert (made.head, made.head_revision) == (None, 0)
