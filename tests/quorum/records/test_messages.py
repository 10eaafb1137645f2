import typing

import pytest

from penstock.kernel.codec import Codec
from penstock.kernel.ids import EntryId, Epoch, Incarnation, NodeId, Offset
from penstock.quorum.records import messages
from penstock.quorum.records.entry import Barrier, ClientId, Txn
from penstock.quorum.records.member import Member
from penstock.quorum.records.messages import Message, Reason, Request, Response, Role
from penstock.quorum.records.state import SnapshotMeta

E, I = Epoch(7), Incarnation("i")  # noqa: E741
HEAD = EntryId(E, Offset(9))
A, B = Member(NodeId("A"), I), Member(NodeId("B"), I)
CHANGE = messages.Change(messages.ChangeOp.SWAP, A, B)
SNAPSHOT = SnapshotMeta(HEAD, ((E, Offset(3)),), ((Offset(4), Offset(6)),), Offset(2))

EXAMPLES: list[Message] = [
    messages.FenceRequest(E, I, is_forming=True),
    messages.FenceResponse(E, I, HEAD),
    messages.BecomeLeaderRequest(E, I, (A, B), ((B, HEAD),)),
    messages.BecomeLeaderResponse(E, I),
    messages.AddFollowerRequest(E, I, B, HEAD),
    messages.AddFollowerRequest(E, I, B, None),
    messages.AddFollowerResponse(E, I, B),
    messages.TruncateRequest(E, I, HEAD, HEAD),
    messages.TruncateResponse(E, I, HEAD),
    messages.SnapshotRequest(E, I, SNAPSHOT, 5, b"data", is_last=True),
    messages.SnapshotResponse(E, I, HEAD, 9, HEAD),
    messages.AddEntryRequest(E, I, HEAD, (Barrier(E), Txn(E, ClientId("c"), 1, b"x")), Offset(3), 4, 5),
    messages.AddEntryResponse(E, I, HEAD, 4, 5, is_behind=True),
    messages.PrepareReconfigurationRequest(E, I, CHANGE),
    messages.PrepareReconfigurationResponse(E, I),
    messages.CommitReconfigurationRequest(E, I, CHANGE),
    messages.CommitReconfigurationResponse(E, I),
    messages.HeartbeatRequest(E, I, 3),
    messages.HeartbeatResponse(E, I, 3, Role.LEADER, HEAD, Offset(8), (B,)),
    messages.DrainRequest(E, I, A.node),
    messages.DrainResponse(E, I, B),
    messages.Refusal(E, I, "FenceRequest", Reason.HIGHER_EPOCH, E),
]


@pytest.mark.parametrize("message", EXAMPLES, ids=[f"{at}-{type(each).__name__}" for at, each in enumerate(EXAMPLES)])
def test_a_message_is_its_bytes(message: Message) -> None:
    codec: Codec[Message] = Codec(Message)
    assert codec.decode(codec.encode(message)) == message


def test_every_message_is_in_the_union_and_has_an_example() -> None:
    union = set(typing.get_args(Message))
    assert {type(example) for example in EXAMPLES} == union
    classes = [value for value in vars(messages).values() if isinstance(value, type)]
    named = {each for each in classes if issubclass(each, Request | Response)}
    assert named - {Request, Response} == union


def test_requests_name_their_target_and_responses_their_sender() -> None:
    for example in EXAMPLES:
        assert example.epoch == E
        assert (example.target if isinstance(example, Request) else example.sender) == I
