import pytest

from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, Incarnation, NodeId, Offset
from penstock.quorum.records.entry import Barrier, ClientId, Confirm, Entry, Rollback, Txn
from penstock.quorum.records.messages import (
    AddEntryRequest,
    AddEntryResponse,
    AddFollowerRequest,
    BecomeLeaderRequest,
    ChangeOp,
    FenceRequest,
    Reason,
    Refusal,
    TruncateRequest,
)
from penstock_lab.explorer.desks import member
from penstock_lab.explorer.happenings import (
    AnswerHappened,
    Asked,
    Crashed,
    DeliveryHappened,
    Happening,
    Restarted,
    Spoke,
    Submitted,
    Ticked,
    TimedOut,
    WriteHappened,
)
from penstock_lab.explorer.letters import Letter
from penstock_lab.explorer.wording import entry_text, happening_text, message_text

ME, TWO = Incarnation("i1"), Epoch(2)
HEAD = EntryId(TWO, Offset(3))


def test_entries() -> None:
    entries: list[Entry] = [
        Barrier(TWO), Txn(TWO, ClientId("c"), 7, b""), Txn(TWO, ClientId("c"), 8, b"", is_sync=False),
        Confirm(TWO, Offset(4)), Rollback(TWO, Offset(3)),
    ]  # fmt: skip
    assert [entry_text(entry) for entry in entries] == ["2B", "2T7", "2a8", "2C(4)", "2R(3)"]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (FenceRequest(TWO, ME), "Fence 2"),
        (BecomeLeaderRequest(TWO, ME, (), ((member("B"), HEAD),)), "BecomeLeader 2 with B@2/3"),
        (AddFollowerRequest(TWO, ME, member("C"), HEAD), "AddFollower 2 C@2/3"),
        (AddEntryRequest(TWO, ME, HEAD, (Barrier(TWO),)), "AddEntry 2 behind 2/3: 2B"),
        (AddEntryRequest(TWO, ME, NO_ENTRY, ()), "AddEntry 2 behind 0/0: nothing"),
        (AddEntryResponse(TWO, ME, HEAD, is_behind=True), "AddEntryResponse 2 2/3 (behind)"),
        (TruncateRequest(TWO, ME, HEAD, HEAD), "Truncate 2 to 2/3"),
        (
            Refusal(Epoch(3), ME, "FenceRequest", Reason.HIGHER_EPOCH, TWO),
            "Refusal 3 of FenceRequest 2: this node is in a higher epoch",
        ),
    ],
)
def test_messages(message: object, text: str) -> None:
    assert message_text(message) == text


@pytest.mark.parametrize(
    ("happening", "text"),
    [
        (DeliveryHappened(Letter(NodeId("A"), NodeId("B"), FenceRequest(TWO, ME))), "gets Fence 2 from A"),
        (WriteHappened(), "has its oldest write on the disk"),
        (Crashed(0), "crashes and restarts on disk 0 of those it may find"),
        (Submitted(0), "is handed txn 1"),
        (TimedOut(0), "lets clients give up, to deadline 1"),
        (Spoke(), "sends heartbeats"),
        (Ticked(is_late=True), "loses patience"),
        (Ticked(is_late=False), "asks again"),
        (Restarted(), "crashes and restarts"),
        (Asked(ChangeOp.SWAP, "B", "D"), "is asked to swap B +D"),
        (Asked(ChangeOp.CONTRACT, "B", ""), "is asked to contract B"),
        (AnswerHappened(), "has its write to the metadata answered"),
    ],
)
def test_happenings(happening: Happening, text: str) -> None:
    assert happening_text(happening) == text
