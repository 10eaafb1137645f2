"""Hostile clients: each loses its connection, for a reason which is logged, and nobody else notices.

Every test has a second, well-behaved channel beside the hostile peer, and asks it at the end.
"""

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest
from structlog.testing import capture_logs
from tests.plumbing.wire.harness import RawPeer, Stage, soon, until

from penstock.kernel.errors import (
    FrameTooLarge,
    MalformedFrame,
    NotFound,
    PenstockError,
    ProtocolViolation,
    VersionMismatch,
)
from penstock.plumbing.wire import Channel, Server, WireLimits
from penstock.plumbing.wire.connection import FLUSH_BYTES
from penstock.plumbing.wire.message import encode_error
from penstock.plumbing.wire.protocol.flow import MESSAGE_COST
from penstock.plumbing.wire.protocol.frames import HEADER_BYTES, FrameKind, encode_frame
from penstock.plumbing.wire.protocol.hello import HELLO_CODEC, WireHello

ECHO, INLINE, WAIT, STUBBORN, MIRROR, POUR, SWALLOW = range(7)
HELLO = encode_frame(FrameKind.HELLO, body=HELLO_CODEC.encode(WireHello.of(WireLimits(), None)))
LIMITS = WireLimits(
    frame_bytes_max=100_000,
    stream_window_bytes=20_000,
    streams_max=4,
    requests_max=8,
    request_bytes_max=200_000,
    write_bytes_max=100_000,
    hello_ms=300,
    frame_ms=100,
    silence_ms=30_000,
    write_stall_ms=200,
    linger_ms=200,
)


class Scene:
    """A server with one good client, and logs."""

    def __init__(self, stage: Stage, server: Server, channel: Channel, logs: list[dict[str, object]]) -> None:
        self.stage = stage
        self.server = server
        self.channel = channel
        self.logs = logs

    async def peer(self) -> RawPeer:
        """A hostile one, which has begun well."""
        peer = await self.stage.raw(self.server.address)
        await peer.hello()
        return peer

    def reasons(self) -> list[object]:
        return [line["reason"] for line in self.logs if line["event"] == "connection broken"]


@pytest.fixture
async def scene(stage: Stage) -> AsyncIterator[Scene]:
    server = await stage.server(limits=LIMITS)
    channel = await stage.channel(server.address)
    await channel.connect()
    with capture_logs() as logs:
        yield Scene(stage, server, channel, logs)  # type: ignore[arg-type]
        assert (await channel.call("echo", b"untouched")).body == b"untouched"
        assert channel.statistics().connections_opened == 1


async def broken(scene: Scene, peer: RawPeer, expected: type[PenstockError], said: str) -> None:
    """The server closes this peer's connection, tells it why, and logs it."""
    error = await peer.until_closed()
    assert type(error) is expected, error
    assert said in error.message
    await until(lambda: scene.server.statistics().connections_broken == 1)
    assert scene.reasons() == [error.message]
    assert scene.server.statistics().connections_now == 1


# Before the hello.


@pytest.mark.parametrize(
    "begin", [b"", HELLO[:7], HELLO[:HEADER_BYTES], HELLO[:-1]], ids=["nothing", "header", "body", "almost"]
)
async def test_a_hello_which_does_not_come_in_time(scene: Scene, begin: bytes) -> None:
    peer = await scene.stage.raw(scene.server.address)
    await peer.send(begin)
    error = await peer.until_closed()
    assert type(error) is ProtocolViolation
    assert "hello" in error.message or "not complete" in error.message


@pytest.mark.parametrize(
    ("data", "expected", "said"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", FrameTooLarge, "limit"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(30), FrameTooLarge, "limit"),
        (bytes(HEADER_BYTES), ProtocolViolation, "not allowed here"),
        (encode_frame(FrameKind.REQUEST, id=1), ProtocolViolation, "not allowed here"),
        (encode_frame(FrameKind.HELLO, body=b"\xc1"), MalformedFrame, "not a record"),
        (encode_frame(FrameKind.HELLO, body=bytes(5000)), FrameTooLarge, "limit"),
        (HELLO.replace(b"penstock-wire", b"another-proto"), MalformedFrame, "another protocol"),
        (
            encode_frame(FrameKind.HELLO, body=HELLO_CODEC.encode(WireHello("penstock-wire", 7, 9, 5000, 5000))),
            VersionMismatch,
            "7 to 9",
        ),
    ],
)
async def test_something_else_than_a_hello(scene: Scene, data: bytes, expected: type[PenstockError], said: str) -> None:
    peer = await scene.stage.raw(scene.server.address)
    await peer.send(data)
    await broken(scene, peer, expected, said)


# Frames which are none, and frames which may not stand where they do.


@pytest.mark.parametrize(
    ("frames", "expected", "said"),
    [
        ([b"\xff" * 100], FrameTooLarge, "limit is 100000"),
        ([encode_frame(FrameKind.REQUEST, id=1, body=bytes(100_001))], FrameTooLarge, "100001"),
        ([b"\0\0\0\0\x0f\0" + bytes(18)], MalformedFrame, "kind 15"),
        ([b"\0\0\0\0\0\0" + bytes(18)], ProtocolViolation, "not allowed here"),
        ([b"\x01\0\0\0\x03\0" + bytes(10) + b"\x02\0\0\0" + bytes(5)], MalformedFrame, "a body of 2 bytes"),
        ([HELLO], ProtocolViolation, "not allowed here"),
        ([encode_frame(FrameKind.RESPONSE, id=1)], ProtocolViolation, "not allowed here"),
        ([encode_frame(FrameKind.GOAWAY)], ProtocolViolation, "not allowed here"),
        ([encode_frame(FrameKind.REQUEST, id=0)], ProtocolViolation, "must rise"),
        (
            [encode_frame(FrameKind.REQUEST, id=5), encode_frame(FrameKind.REQUEST, id=5)],
            ProtocolViolation,
            "must rise",
        ),
        ([encode_frame(FrameKind.REQUEST, id=5), encode_frame(FrameKind.OPEN, id=4)], ProtocolViolation, "must rise"),
        ([encode_frame(FrameKind.MESSAGE, id=9)], ProtocolViolation, "never opened"),
        ([encode_frame(FrameKind.END, id=9)], ProtocolViolation, "never opened"),
        ([encode_frame(FrameKind.CREDIT, id=9, argument=1)], ProtocolViolation, "never opened"),
        ([encode_frame(FrameKind.CANCEL, id=9)], ProtocolViolation, "without a request"),
        (
            [encode_frame(FrameKind.OPEN, method=MIRROR, id=1), encode_frame(FrameKind.END, id=1) * 2],
            ProtocolViolation,
            "second end",
        ),
        (
            [
                encode_frame(FrameKind.OPEN, method=SWALLOW, id=1),
                encode_frame(FrameKind.END, id=1),
                encode_frame(FrameKind.MESSAGE, id=1),
            ],
            ProtocolViolation,
            "after the end",
        ),
        (
            [
                encode_frame(FrameKind.OPEN, method=MIRROR, id=1),
                encode_frame(FrameKind.CREDIT, id=1, argument=2**32 - 1),
            ],
            ProtocolViolation,
            "without end",
        ),
        (
            [encode_frame(FrameKind.OPEN, method=MIRROR, id=1), encode_frame(FrameKind.CREDIT, id=1, argument=0)],
            ProtocolViolation,
            "without end",
        ),
        ([encode_frame(FrameKind.CLOSE, body=b"\xc1")], MalformedFrame, "not a record"),
    ],
)
async def test_a_frame_which_may_not_be(
    scene: Scene, frames: list[bytes], expected: type[PenstockError], said: str
) -> None:
    peer = await scene.peer()
    await peer.send(b"".join(frames))
    await broken(scene, peer, expected, said)


async def test_what_came_before_a_bad_frame_is_still_done(scene: Scene) -> None:
    peer = await scene.peer()
    await peer.send(encode_frame(FrameKind.REQUEST, method=INLINE, id=1, body=b"3") + b"\xff" * 50)
    kind, _, id, _, _, bulk = await peer.frame()
    assert (kind, id, bytes(bulk)) == (FrameKind.RESPONSE, 1, bytes(3))
    await broken(scene, peer, FrameTooLarge, "limit")


async def test_nothing_is_taken_behind_a_close(scene: Scene) -> None:
    peer = await scene.peer()
    close = encode_frame(FrameKind.CLOSE, body=encode_error(NotFound("enough")))
    await peer.send(close + encode_frame(FrameKind.REQUEST, method=INLINE, id=1, body=b"1"))
    with pytest.raises(EOFError):
        await peer.frame()
    assert scene.server.statistics().requests == 0
    assert scene.reasons() == []


@pytest.mark.parametrize("size", [10, HEADER_BYTES, HEADER_BYTES + 5, 30_000])
async def test_a_connection_which_ends_inside_a_frame(scene: Scene, size: int) -> None:
    peer = await scene.peer()
    await peer.send(encode_frame(FrameKind.REQUEST, id=1, bulk=bytes(50_000))[:size])
    peer.writer.write_eof()
    assert await peer.until_closed() is None
    await until(lambda: scene.server.statistics().connections_broken == 1)
    assert scene.reasons() == ["the connection ended inside a frame"]


async def test_frames_of_a_stream_which_has_ended_are_no_violation(scene: Scene) -> None:
    peer = await scene.peer()
    await peer.send(encode_frame(FrameKind.OPEN, method=ECHO, id=1))  # no stream: fails at once
    assert (await peer.frame())[0] == FrameKind.ERROR
    for kind in (FrameKind.MESSAGE, FrameKind.CREDIT, FrameKind.END, FrameKind.CANCEL):
        await peer.send(encode_frame(kind, id=1, argument=1))
    await peer.send(encode_frame(FrameKind.PING, argument=77))
    assert (await peer.frame())[:4] == (FrameKind.PONG, 0, 0, 77)


async def test_a_method_nobody_has_is_an_answer_not_a_crime(scene: Scene) -> None:
    peer = await scene.peer()
    await peer.send(
        encode_frame(FrameKind.REQUEST, method=0xFFFF, id=1) + encode_frame(FrameKind.OPEN, method=0xFFFF, id=2)
    )
    assert [(await peer.frame())[:3], (await peer.frame())[:3]] == [(FrameKind.ERROR, 0, 1), (FrameKind.ERROR, 0, 2)]


# Too slow, too much, too fast.


async def test_a_frame_which_drips_in_byte_by_byte(scene: Scene) -> None:
    peer = await scene.peer()
    closed = asyncio.create_task(peer.until_closed())
    for byte in encode_frame(FrameKind.REQUEST, method=ECHO, id=1, body=bytes(10_000)):
        if closed.done():
            break
        await peer.send(bytes([byte]))
        await asyncio.sleep(0.002)  # it is slow, and so never silent
    error = await closed
    assert type(error) is ProtocolViolation
    assert "not complete after 100 ms" in error.message


async def test_a_client_which_says_nothing_any_more(stage: Stage) -> None:
    server = await stage.server(limits=WireLimits(silence_ms=60))
    peer = await stage.raw(server.address)
    await peer.hello()
    await peer.send(encode_frame(FrameKind.REQUEST, method=WAIT, id=1))
    with capture_logs() as logs:
        await peer.until_closed()
        await soon(stage.handlers.cancelled)
    assert "the client was silent for 60 ms" in [line.get("reason") for line in logs]


async def test_more_streams_than_agreed(scene: Scene) -> None:
    peer = await scene.peer()
    await peer.send(b"".join(encode_frame(FrameKind.OPEN, method=SWALLOW, id=id) for id in range(1, 50)))
    await broken(scene, peer, ProtocolViolation, "more open streams than agreed")
    assert len(scene.stage.handlers.streams) <= LIMITS.streams_max


async def test_more_requests_than_agreed(scene: Scene) -> None:
    peer = await scene.peer()
    await peer.send(b"".join(encode_frame(FrameKind.REQUEST, method=WAIT, id=id) for id in range(1, 50)))
    await broken(scene, peer, ProtocolViolation, "more requests in flight")
    await until(lambda: scene.stage.handlers.running == 0)


async def test_more_request_bytes_than_agreed(scene: Scene) -> None:
    peer = await scene.peer()
    for id in (1, 2, 3):
        await peer.send(encode_frame(FrameKind.REQUEST, method=WAIT, id=id, bulk=bytes(90_000)))
    await broken(scene, peer, ProtocolViolation, "more requests in flight")


async def test_cancelling_does_not_make_room_for_more_than_was_agreed(scene: Scene) -> None:
    """A request counts until its handler has ended, so that resets in a row buy nothing."""
    peer = await scene.peer()
    for id in range(1, LIMITS.requests_max + 1):
        await peer.send(encode_frame(FrameKind.REQUEST, method=STUBBORN, id=id) + encode_frame(FrameKind.PING))
        assert (await peer.frame())[0] == FrameKind.PONG  # the handler has begun
        await peer.send(encode_frame(FrameKind.CANCEL, id=id))
    await peer.send(encode_frame(FrameKind.REQUEST, method=ECHO, id=id + 1))
    await broken(scene, peer, ProtocolViolation, "more requests in flight")


async def test_requests_which_are_cancelled_at_once_are_each_answered_once(scene: Scene) -> None:
    peer = await scene.peer()
    ids = range(1, 1000)
    ask = [encode_frame(FrameKind.REQUEST, method=ECHO, id=id) + encode_frame(FrameKind.CANCEL, id=id) for id in ids]
    await peer.send(b"".join(ask))
    answers = [(await peer.frame())[:3] for _ in ids]
    assert [id for _, _, id in answers] == list(ids)
    assert {kind for kind, _, _ in answers} <= {FrameKind.ERROR, FrameKind.RESPONSE}


async def test_messages_beyond_the_credit(scene: Scene) -> None:
    peer = await scene.peer()
    await peer.send(encode_frame(FrameKind.OPEN, method=SWALLOW, id=1))
    fits = LIMITS.stream_window_bytes // (1000 + MESSAGE_COST)
    await peer.send(encode_frame(FrameKind.MESSAGE, id=1, body=bytes(1000)) * fits)
    await soon(scene.stage.handlers.started)
    [stream] = scene.stage.handlers.streams
    await until(lambda: len(stream._inbox) == fits)
    await peer.send(encode_frame(FrameKind.MESSAGE, id=1, body=bytes(1000)))
    await broken(scene, peer, ProtocolViolation, "beyond the stream's credit")


async def test_empty_messages_beyond_the_credit(scene: Scene) -> None:
    peer = await scene.peer()
    await peer.send(encode_frame(FrameKind.OPEN, method=SWALLOW, id=1))
    await peer.send(encode_frame(FrameKind.MESSAGE, id=1) * (LIMITS.stream_window_bytes // MESSAGE_COST + 1))
    await broken(scene, peer, ProtocolViolation, "beyond the stream's credit")


async def test_a_client_which_never_reads_its_answers(scene: Scene) -> None:
    """It is not read either, so that its answers stay few; and in the end it is dropped."""
    peer = await scene.peer()
    good = next(iter({*scene.server._connections} - {max(scene.server._connections, key=lambda each: each._began_at)}))
    [connection] = {*scene.server._connections} - {good}
    unsent = [0]

    def is_broken() -> bool:
        if connection._transport is not None and not connection.is_closing:
            unsent.append(connection._transport.get_write_buffer_size())
        return scene.server.statistics().connections_broken == 1

    peer.writer.write(
        b"".join(encode_frame(FrameKind.REQUEST, method=INLINE, id=id, body=b"50000") for id in range(1, 20_000))
    )
    await until(is_broken)
    assert scene.reasons() == [f"the peer did not read for {LIMITS.write_stall_ms} ms"]
    assert LIMITS.write_bytes_max < max(unsent) < LIMITS.write_bytes_max + 2 * FLUSH_BYTES
    assert scene.server.statistics().requests < 2_000, "far from all that was asked was done"


async def test_a_client_which_never_reads_a_stream(scene: Scene) -> None:
    peer = await scene.stage.raw(scene.server.address)
    await peer.hello(stream_window_bytes=2**31 - 1)  # a credit without end, and no intention to read
    await peer.send(encode_frame(FrameKind.OPEN, method=POUR, id=1, body=b"1000000"))
    await until(lambda: scene.server.statistics().connections_broken == 1)
    assert scene.reasons() == [f"the peer did not read for {LIMITS.write_stall_ms} ms"]


async def test_pings_without_end_and_without_reading(scene: Scene) -> None:
    peer = await scene.stage.raw(scene.server.address, receive_bytes=4096)
    await peer.hello()
    peer.writer.write(encode_frame(FrameKind.PING) * 300_000)
    await until(lambda: scene.server.statistics().connections_broken == 1)
    assert scene.reasons() == [f"the peer did not read for {LIMITS.write_stall_ms} ms"]


async def test_a_crowd_of_hostile_peers_at_once(scene: Scene) -> None:
    random = Random(3)
    peers = [await scene.peer() for _ in range(30)]
    for peer in peers:
        await peer.send(random.randbytes(random.randrange(HEADER_BYTES, 5000)))
        peer.writer.write_eof()
    assert (await scene.channel.call("echo", b"among them")).body == b"among them"
    for peer in peers:
        await peer.until_closed()
    await until(lambda: scene.server.statistics().connections_now == 1)
