"""Replicate streams: when gathered messages leave, and which peers get marks."""

import asyncio
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tests.journals.broker.replicates import EPOCH, content, plain

from penstock.journals.broker.links.replicate_link import AT_ONCE_BYTES
from penstock.journals.broker.links.replicate_links import MARK_WAIT_S, MARKS_UNHEARD_MAX, ReplicateLinks
from penstock.journals.broker.links.replicate_messages import Watched, decode_messages, encode_messages
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.messages import ContentRequest, MarkRequest, ProposeRequest, ProposeResponse
from penstock.journals.records.point import Point
from penstock.journals.records.protocol import ReplicateHello
from penstock.kernel.effects import Event
from penstock.kernel.ids import NodeId, Offset, Revision
from penstock.plumbing.process.tasks import Tasks
from penstock.plumbing.wire.message import WireMessage


class Wire:
    """A stream that keeps its messages, and how many had left when it was flushed."""

    def __init__(self) -> None:
        self.sent: list[list[Any]] = []
        self.has_sent = asyncio.Event()
        self.flushed: list[int] = []

    def can_send(self, payload_bytes: int) -> bool:
        return payload_bytes >= 0

    def send_nowait(self, body: bytes, bulk: Any) -> None:
        self.sent.append(plain(decode_messages(body, bulk)))
        self.has_sent.set()

    def try_send(self, body: bytes, bulk: Any) -> bool:
        self.send_nowait(body, bulk)
        return True

    def send_at_once(self, body: bytes, bulk: Any) -> bool:
        self.send_nowait(body, bulk)
        self.flush()
        return True

    def flush(self) -> None:
        self.flushed.append(len(self.sent))


class Silent:
    """A host to which nothing happens."""

    def post(self, event: Event) -> None:
        raise AssertionError(event)

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def on_proposal(self, peer: NodeId, message: ProposeRequest) -> None:
        raise AssertionError(message)

    def on_content(self, peer: NodeId, message: ContentRequest) -> None:
        raise AssertionError(message)

    def on_links_drained(self) -> None:
        raise AssertionError("nothing was full")


def linked() -> tuple[ReplicateLinks, Wire]:
    links = ReplicateLinks("shop/orders", NodeId("b1"), Silent(), lambda _: None, Tasks(lambda _: None))
    wire = Wire()
    links.accept(ReplicateHello("shop/orders", NodeId("b2"), EPOCH), wire)  # type: ignore[arg-type]
    return links, wire


def mark(offset: int) -> MarkRequest:
    return MarkRequest(Revision(3), EPOCH, Offset(offset))


def proposal(mark: int = 0) -> ProposeRequest:
    return ProposeRequest(Revision(3), EPOCH, 1, Point(Offset(0), Offset(3)), Offset(mark))


async def test_what_gathers_between_two_flushes_is_one_message() -> None:
    links, wire = linked()
    for message in (content(b"abc"), proposal()):
        links.send(NodeId("b2"), message)
    assert wire.sent == []
    links.flush()
    assert wire.sent == [[content(b"abc"), proposal()]]
    assert wire.flushed == []  # it leaves with the rest of this turn


async def test_large_content_leaves_at_once() -> None:
    links, wire = linked()
    links.send(NodeId("b2"), content(b"x" * AT_ONCE_BYTES))
    links.flush()
    assert wire.flushed == [1]


async def test_a_mark_waits_for_company_and_leaves_alone_if_none_comes() -> None:
    links, wire = linked()
    links.send(NodeId("b2"), mark(1))
    links.send(NodeId("b2"), mark(2))
    links.flush()
    assert wire.sent == []
    await wire.has_sent.wait()
    assert wire.sent == [[mark(2)]]


async def test_a_mark_goes_with_content_unless_a_proposal_carries_a_newer_one() -> None:
    links, wire = linked()
    links.send(NodeId("b2"), mark(3))
    links.send(NodeId("b2"), content(b"abc"))
    links.flush()
    assert wire.sent == [[mark(3), content(b"abc")]]
    links.send(NodeId("b2"), mark(4))
    links.send(NodeId("b2"), proposal(mark=4))
    links.flush()
    links.flush_marks()
    assert wire.sent[1:] == [[proposal(mark=4)]]


async def test_marks_which_follow_each_other_move_the_time_at_which_one_leaves_alone() -> None:
    """While appends follow each other, no peer is woken for a mark."""
    links, wire = linked()
    loop = asyncio.get_running_loop()
    for number in range(1, 4):
        links.send(NodeId("b2"), mark(number))
        links.send(NodeId("b2"), proposal(mark=number))
        links.flush()
    wire.has_sent.clear()
    links.send(NodeId("b2"), mark(4))
    latest = loop.time()
    await wire.has_sent.wait()
    assert loop.time() - latest >= MARK_WAIT_S
    assert wire.sent[3:] == [[mark(4)]]


async def test_a_mark_for_which_somebody_waits_leaves_with_this_turn_and_alone() -> None:
    links, first = linked()
    second = Wire()
    links.accept(ReplicateHello("shop/orders", NodeId("b3"), EPOCH), second)  # type: ignore[arg-type]
    watched = links._links[NodeId("b2"), EPOCH]
    for peer in ("b2", "b3"):
        links.send(NodeId(peer), mark(1))
    assert first.sent == []
    watched.on_messages(wire_messages(Watched(EPOCH, is_watched=True)))
    assert (first.sent, second.sent) == ([[mark(1)]], [])  # it had just begun to wait
    for peer in ("b2", "b3"):
        links.send(NodeId(peer), mark(2))
    assert first.sent[1:] == []  # the client's answer goes before it
    await asyncio.sleep(0)
    assert (first.sent[1:], second.sent) == ([[mark(2)]], [])
    watched.on_messages(wire_messages(Watched(EPOCH, is_watched=False)))
    links.send(NodeId("b2"), mark(3))
    await asyncio.sleep(0)
    assert first.sent[2:] == []


async def test_primaries_are_told_when_somebody_waits_here_and_when_nobody_does_any_more() -> None:
    heard: list[Event] = []
    links, first = linked()
    links.host.post = heard.append  # type: ignore[method-assign, assignment]
    links.watch()
    links.watch()
    assert first.sent == [[Watched(EPOCH, is_watched=True)]]
    later, second = PipelineEpoch(Revision(7), 2), Wire()
    link = links.accept(ReplicateHello("shop/orders", NodeId("b3"), later), second)  # type: ignore[arg-type]
    assert second.sent == [[Watched(later, is_watched=True)]]
    for number in range(MARKS_UNHEARD_MAX):
        link.on_messages(wire_messages(MarkRequest(Revision(3), later, Offset(number))))
    links.watch()  # no second message, and no message to the contrary
    for number in range(MARKS_UNHEARD_MAX):
        link.on_messages(wire_messages(MarkRequest(Revision(3), later, Offset(number))))
    assert second.sent[1:] == []
    link.on_messages(wire_messages(MarkRequest(Revision(3), later, Offset(99))))
    assert second.sent[1:] == [[Watched(later, is_watched=False)]]
    assert len(heard) == 2 * MARKS_UNHEARD_MAX + 1  # every mark was the core's as well


def wire_messages(*messages: Any) -> list[WireMessage]:
    return [WireMessage(body, bulk) for body, bulk in encode_messages(list(messages))]


async def test_who_says_that_content_is_here_is_known_and_nothing_of_it_leaves_if_that_is_not_so() -> None:
    links, wire = linked()
    links.send(NodeId("b2"), proposal())
    assert not links.has_answers
    links.send(NodeId("b2"), ProposeResponse(Revision(3), EPOCH, 1))
    links.send(NodeId("b2"), mark(3))
    assert links.has_answers
    links.abandon()
    links.flush()
    links.flush_marks()
    links.close_all()
    assert wire.sent == []


async def test_a_mark_which_waits_leaves_before_its_stream_ends_and_hinders_no_other() -> None:
    """Found by the soak: it was sent on the closed stream, and the error kept the marks of all others back."""
    links, first = linked()
    second = Wire()
    links.accept(ReplicateHello("shop/orders", NodeId("b3"), EPOCH), second)  # type: ignore[arg-type]
    for peer in ("b2", "b3"):
        links.send(NodeId(peer), mark(1))
    links.close(NodeId("b2"), EPOCH)
    links.flush_marks()
    assert (first.sent, second.sent) == ([[mark(1)]], [[mark(1)]])
