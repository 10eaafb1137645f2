"""Which letters no longer matter, rule by rule. That dropping them changes nothing is tested in test_world.py."""

import pytest

from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, Incarnation, NodeId, Offset
from penstock.quorum.records.messages import (
    AddEntryRequest,
    AddEntryResponse,
    AddFollowerResponse,
    BecomeLeaderResponse,
    FenceRequest,
    FenceResponse,
    HeartbeatResponse,
    Reason,
    Refusal,
    Role,
    TruncateRequest,
)
from penstock_lab.explorer.desks import member
from penstock_lab.explorer.letters import Letter, Standing, is_dead, lane_of

ME = Incarnation("i1")
ONE, TWO, THREE = Epoch(1), Epoch(2), Epoch(3)


def node(epoch: int, *, saved: int | None = None, leads: int = 0) -> Standing:
    return Standing(Epoch(epoch), Epoch(epoch if saved is None else saved), Epoch(leads))


def operator(epoch: int, *, is_electing: bool = False) -> Standing:
    return Standing(Epoch(epoch), Epoch(epoch), Epoch(0), is_electing, is_operator=True)


def refusal(epoch: int, request_epoch: int, reason: Reason = Reason.HIGHER_EPOCH) -> Refusal:
    return Refusal(Epoch(epoch), ME, "FenceRequest", reason, Epoch(request_epoch))


ENTRIES = AddEntryRequest(ONE, ME, NO_ENTRY, ())
ACK = AddEntryResponse(ONE, ME, NO_ENTRY)


@pytest.mark.parametrize(
    ("message", "sender", "to", "expected"),
    [
        (ACK, node(1), node(1, leads=1), False),
        (ACK, node(1), node(2, leads=2), True),  # it leads another epoch
        (ACK, node(1), node(1), True),  # it has restarted
        (ENTRIES, node(1, leads=1), node(2), False),  # the refusal will depose the sender
        (ENTRIES, node(2), node(2), True),
        (ENTRIES, node(2), node(2, saved=1), False),  # a crash may take it back
        (TruncateRequest(ONE, ME, NO_ENTRY, NO_ENTRY), node(2), node(2), True),
        (refusal(2, 1), node(2), node(1, leads=1), False),
        (refusal(2, 1), node(2), node(2), True),
        (FenceRequest(ONE, ME), operator(2), node(2), True),
        (FenceRequest(ONE, ME), operator(1), node(2), False),  # its refusal would be news to the operator
        (FenceResponse(ONE, ME, NO_ENTRY), node(1), operator(1), False),
        (FenceResponse(ONE, ME, NO_ENTRY), node(1), operator(2), True),
        (BecomeLeaderResponse(TWO, ME), node(2), operator(2, is_electing=True), False),
        (BecomeLeaderResponse(TWO, ME), node(2), operator(2), True),
        (AddFollowerResponse(TWO, ME, member("B")), node(2), operator(2), True),
        (HeartbeatResponse(ONE, ME, 1, Role.LEADER, NO_ENTRY, Offset(0)), node(1), operator(2), False),
        (refusal(3, 2), node(3), operator(2), False),  # tells of a higher epoch
        (refusal(2, 2, Reason.NOT_READY), node(2), operator(2), True),
        (refusal(2, 2, Reason.MAY_NOT_LEAD), node(2), operator(2), False),
        (refusal(2, 2, Reason.MAY_NOT_LEAD), node(2), operator(3), True),
    ],
)
def test_a_letter_is_dead_when_nobody_would_act_upon_it(
    message: object, sender: Standing, to: Standing, expected: bool
) -> None:
    assert is_dead(message, sender, to) is expected


def test_entries_and_acknowledgements_of_a_link_have_an_order() -> None:
    a, b = NodeId("A"), NodeId("B")
    first = lane_of(Letter(a, b, AddEntryRequest(ONE, ME, EntryId(ONE, Offset(1)), ())))
    later = lane_of(Letter(a, b, AddEntryRequest(ONE, ME, EntryId(ONE, Offset(2)), ())))
    back = lane_of(Letter(b, a, AddEntryResponse(ONE, ME, EntryId(ONE, Offset(1)))))
    assert first is not None
    assert later is not None
    assert back is not None
    assert first[0] == later[0]
    assert first[1] < later[1]
    assert back[0] != first[0]
    assert lane_of(Letter(a, b, FenceRequest(ONE, ME))) is None
