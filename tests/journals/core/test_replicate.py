"""The peer's side: promises which wait, are refused, or preempt; proposals which do not follow end the stream."""

import msgspec
import pytest

from penstock.journals.core.effects import AwaitRevision, CloseStream, ProposalReceived, StreamClosed, TopologyChanged
from penstock.journals.core.replica import Replica
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.messages import (
    ContentRequest,
    MarkRequest,
    Message,
    PromiseRequest,
    PromiseResponse,
    ProposeRequest,
    Refusal,
    RefuseResponse,
)
from penstock.journals.records.route import Route
from penstock.kernel.effects import Received, Send
from penstock.kernel.ids import Instant, NodeId, Offset, Revision
from penstock.kernel.probes import recording
from penstock_lab.explorer_journal.world import JournalWorld, broker

B0, B1, B2 = map(broker, range(3))
NOW = Instant(0)


def peer() -> tuple[JournalWorld, Replica, PromiseRequest]:
    """b1 of a synchronized journal, and a promise request which it would grant."""
    world = JournalWorld().start(synchronized=True)
    topology = world.sites[B1].replica.topology
    epoch = PipelineEpoch(topology.revision, 5)
    return world, world.sites[B1].replica, PromiseRequest(topology.create_revision, epoch, topology.route)


def refusal(effects: list[object]) -> Refusal:
    [send, close] = effects
    assert isinstance(send, Send)
    assert isinstance(send.message, RefuseResponse)
    assert isinstance(close, CloseStream)
    return send.message.refusal


def test_a_promise_preempts_the_older_stream_and_reports() -> None:
    _, replica, request = peer()
    old = replica.replicate.epoch
    close, send = replica.step(Received(B0, request), NOW)
    assert close == CloseStream(B0, old)
    assert isinstance(send, Send)
    assert isinstance(send.message, PromiseResponse)
    assert replica.spool.promised == request.epoch


def test_what_is_not_granted_is_refused_with_the_reason() -> None:
    _, replica, request = peer()
    for changes, expected in (
        ({"epoch": replica.spool.promised}, Refusal.PROMISED),
        ({"route": Route((B1, B2), B2)}, Refusal.WRONG_ROUTE),
        ({"create_revision": Revision(1)}, Refusal.OTHER_LIFE),
    ):
        asked = msgspec.structs.replace(request, **changes)
        assert refusal(list(replica.step(Received(B0, asked), NOW))) is expected


def test_a_promise_waits_for_the_mirror_and_is_never_forgotten() -> None:
    """I15: the sender waits for this answer; whatever this broker does meanwhile, it must come."""
    world, replica, request = peer()
    later = PipelineEpoch(Revision(replica.topology.revision + 1), 1)
    ahead = msgspec.structs.replace(request, epoch=later)
    assert replica.step(Received(B0, ahead), NOW) == [AwaitRevision(later.revision)]
    replica.replicate.end()
    moved = msgspec.structs.replace(replica.topology, revision=later.revision)
    effects = replica.step(TopologyChanged(moved), NOW)
    assert [type(effect.message) for effect in effects if isinstance(effect, Send)] == [PromiseResponse]
    assert world.sites[B1].replica is replica


def test_of_two_promises_which_wait_the_older_is_refused() -> None:
    _, replica, request = peer()
    revision = Revision(replica.topology.revision + 5)
    newer = msgspec.structs.replace(request, epoch=PipelineEpoch(revision, 2))
    older = msgspec.structs.replace(request, epoch=PipelineEpoch(revision, 1))
    replica.step(Received(B0, newer), NOW)
    send, close, _ = replica.step(Received(B2, older), NOW)
    assert isinstance(send, Send)
    assert (send.to, close) == (B2, CloseStream(B2, older.epoch))
    assert replica.replicate.held == (B0, newer)
    replica.step(StreamClosed(B0, newer.epoch), NOW)
    assert replica.replicate.held is None


def test_a_proposal_which_brings_the_last_content_is_as_good_as_both() -> None:
    _, apart, request = peer()
    _, together, _ = peer()
    life, epoch, spool = request.create_revision, apart.spool.epoch, apart.spool
    point = spool.head.extended(Offset(3), b"a" * 20, spool.registers)
    first = ContentRequest(life, epoch, 0, b"xy")
    for replica in (apart, together):
        replica.step(Received(B0, first), NOW)
    effects = apart.step(Received(B0, ContentRequest(life, epoch, 2, b"z")), NOW)
    effects += apart.step(ProposalReceived(B0, ProposeRequest(life, epoch, 1, point, Offset(0)), point.sum), NOW)
    both = ProposeRequest(life, epoch, 1, point, Offset(0), content=b"z")
    assert together.step(ProposalReceived(B0, both, point.sum), NOW) == effects
    assert together.spool.state == apart.spool.state
    assert together.spool.pending == 0


@pytest.mark.parametrize(
    "what",
    ["content out of place", "another sum", "another sum of what it brings", "too little", "a mark above the end"],
)
def test_what_does_not_follow_ends_the_stream(what: str) -> None:
    _, replica, request = peer()
    life, epoch, spool = request.create_revision, replica.spool.epoch, replica.spool
    proposal = ProposeRequest(life, epoch, 1, spool.head.extended(Offset(1), b"a" * 20, spool.registers), Offset(0))
    reached: list[str] = []
    message: Message
    with recording(reached.append):
        if what == "content out of place":
            effects = replica.step(Received(B0, ContentRequest(life, epoch, 7, b"x")), NOW)
        elif what == "another sum":
            replica.step(Received(B0, ContentRequest(life, epoch, 0, b"x")), NOW)
            effects = replica.step(ProposalReceived(B0, proposal, b"b" * 20), NOW)[:2]
        elif what == "another sum of what it brings":
            message = msgspec.structs.replace(proposal, content=b"x")
            effects = replica.step(ProposalReceived(B0, message, b"b" * 20), NOW)[1:3]
        elif what == "too little":
            message = msgspec.structs.replace(proposal, content=b"xy")
            effects = replica.step(ProposalReceived(B0, message, b"a" * 20), NOW)[1:3]
        else:
            message = MarkRequest(life, epoch, Offset(9))
            effects = replica.step(Received(B0, message), NOW)
    assert refusal(list(effects)) is Refusal.PROPOSAL_MISMATCH
    assert reached == ["journal.proposal_mismatch"]
    assert spool.pending == 0
    replica.check()


def test_messages_of_other_streams_are_passed_over() -> None:
    _, replica, request = peer()
    life, epoch = request.create_revision, replica.spool.epoch
    for sender, other in ((B2, epoch), (B0, PipelineEpoch(Revision(1), 1))):
        assert replica.step(Received(NodeId(sender), ContentRequest(life, other, 0, b"x")), NOW) == []
    assert replica.spool.pending == 0


def test_when_the_primary_goes_away_its_pending_content_never_was() -> None:
    _, replica, request = peer()
    epoch = replica.spool.epoch
    replica.step(Received(B0, ContentRequest(request.create_revision, epoch, 0, b"x")), NOW)
    assert replica.spool.pending == 1
    replica.step(StreamClosed(B0, epoch), NOW)
    assert (replica.spool.pending, replica.replicate.primary) == (0, None)
