"""Channels: calls and streams against a real server, and what the errors say when things go wrong."""

import asyncio
import contextlib
import math
import socket
from random import Random

import pytest
from structlog.testing import capture_logs
from tests.plumbing.wire.harness import RawPeer, Stage, soon, until, welcome_frame

from penstock.kernel.errors import (
    AlreadyClosed,
    ConnectFailed,
    ConnectionLost,
    DeadlineExceeded,
    InternalError,
    InvalidArgument,
    LimitExceeded,
    NotFound,
    Outcome,
    Overloaded,
    PenstockError,
    PreconditionFailed,
    ShuttingDown,
    Unauthenticated,
    Unimplemented,
    VersionMismatch,
)
from penstock.plumbing.wire import Backoff, Channel, Server, Service, WireCall, WireLimits, WireMessage
from penstock.plumbing.wire.message import encode_error
from penstock.plumbing.wire.protocol.frames import FrameKind, encode_frame

QUICK = {"backoff": Backoff(Random(1), base_ms=1, pause_ms_max=4)}


def free_address() -> str:
    """An address on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


# Calls.


async def test_a_call_brings_back_body_and_bulk(stage: Stage) -> None:
    _, channel = await stage.both()
    assert await channel.call("echo") == WireMessage(b"", b"")
    assert await channel.call("echo", b"body") == WireMessage(b"body", b"")
    assert await channel.call("echo", b"body", b"bulk") == WireMessage(b"body", b"bulk")
    assert (await channel.call("inline", b"5")).bulk == bytes(5)


@pytest.mark.parametrize("size", [1, 16 * 1024 - 1, 16 * 1024, 200_000, 4 * 1024 * 1024])
async def test_calls_of_any_size_up_to_the_limit_arrive_whole(stage: Stage, size: int) -> None:
    _, channel = await stage.both()
    payload = Random(size).randbytes(size)
    assert (await channel.call("echo", payload)).body == payload
    reply = await channel.call("echo", b"", memoryview(bytearray(payload)))
    assert bytes(reply.bulk) == payload


async def test_many_calls_at_once_each_get_their_own_answer(stage: Stage) -> None:
    server, channel = await stage.both()
    bodies = [str(number).encode() * (1 + number % 300) for number in range(2000)]
    replies = await asyncio.gather(*(channel.call("echo", body) for body in bodies))
    assert [reply.body for reply in replies] == bodies
    assert server.statistics().requests == channel.statistics().requests == 2000
    assert server.statistics().connections_opened == 1
    assert channel.statistics().writes < 200, "what one turn of the loop sends leaves in one write"


async def test_more_calls_than_the_server_allows_wait_for_room(stage: Stage) -> None:
    _, channel = await stage.both(requests_max=3)
    calls = [asyncio.create_task(channel.call("wait")) for _ in range(10)]
    await until(lambda: stage.handlers.running == 3)
    stage.handlers.release.set()
    assert [reply.body for reply in await asyncio.gather(*calls)] == [b"released"] * 10


async def test_more_bytes_than_the_server_allows_wait_for_room(stage: Stage) -> None:
    _, channel = await stage.both(frame_bytes_max=50_000, request_bytes_max=100_000)
    calls = [asyncio.create_task(channel.call("wait", bytes(40_000))) for _ in range(5)]
    await until(lambda: stage.handlers.running == 2)
    stage.handlers.release.set()
    await asyncio.gather(*calls)


async def test_no_room_within_the_deadline_is_definite(stage: Stage) -> None:
    _, channel = await stage.both(requests_max=1)
    first = asyncio.create_task(channel.call("wait"))
    await soon(stage.handlers.started)
    with pytest.raises(Overloaded) as caught:
        await channel.call("echo", deadline_s=0.01)
    assert caught.value.outcome is Outcome.DEFINITE
    assert caught.value.retryable
    stage.handlers.release.set()
    await first


async def test_no_more_callers_wait_than_allowed(stage: Stage) -> None:
    _, channel = await stage.both(requests_max=1, waiting_max=2)
    calls = [asyncio.create_task(channel.call("wait")) for _ in range(3)]
    await soon(stage.handlers.started)
    with pytest.raises(Overloaded, match="wait for room"):
        await channel.call("echo")
    stage.handlers.release.set()
    await asyncio.gather(*calls)


async def test_what_the_server_raises_comes_back_as_it_was(stage: Stage) -> None:
    service = Service()

    @service.unary("refuse")
    async def refuse(call: WireCall) -> bytes:
        raise PreconditionFailed("register owner is b", next_step="read it again", actual="b")

    @service.inline("refuse-inline")
    def refuse_inline(call: WireCall) -> bytes:
        raise NotFound("no such journal")

    server = await stage.server(service)
    channel = await stage.channel(server.address)
    with pytest.raises(PreconditionFailed) as caught:
        await channel.call("refuse")
    assert (caught.value.details, caught.value.next_step) == ({"actual": "b"}, "read it again")
    with pytest.raises(NotFound, match="no such journal"):
        await channel.call("refuse-inline")


async def test_a_defect_in_a_handler_is_logged_there_and_says_nothing_of_the_inside_here(stage: Stage) -> None:
    service = Service()

    @service.unary("broken")
    async def broken(call: WireCall) -> bytes:
        raise ZeroDivisionError("a secret of the inside")

    @service.inline("broken-inline")
    def broken_inline(call: WireCall) -> bytes:
        raise ZeroDivisionError("a secret of the inside")

    @service.unary("no-message")
    async def no_message(call: WireCall) -> bytes:
        return 5  # type: ignore[return-value]

    @service.unary("odd-message")
    async def odd_message(call: WireCall) -> WireMessage:
        return WireMessage("text")  # type: ignore[arg-type]

    server = await stage.server(service)
    channel = await stage.channel(server.address)
    for method in ("broken", "broken-inline", "no-message", "odd-message"):
        with capture_logs() as logs, pytest.raises(InternalError) as caught:
            await channel.call(method)
        assert "secret" not in caught.value.message
        assert [line for line in logs if line["event"].startswith("handler ")]
    assert server.statistics().connections_opened == 1


async def test_wrong_use_is_refused_before_anything_is_sent(stage: Stage) -> None:
    _, channel = await stage.both(frame_bytes_max=10_000, request_bytes_max=10_000)
    await channel.call("echo")
    with pytest.raises(Unimplemented, match="nothing-like-it"):
        await channel.call("nothing-like-it")
    with pytest.raises(LimitExceeded, match="10000"):
        await channel.call("echo", bytes(10_001))
    with pytest.raises(InvalidArgument):
        await channel.call("echo", "text")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        await channel.call("echo", b"", "text")  # type: ignore[arg-type]
    with pytest.raises(DeadlineExceeded) as caught:
        await channel.call("echo", deadline_s=0)
    assert caught.value.outcome is Outcome.DEFINITE
    assert channel.statistics().requests == 1


async def test_a_stream_is_no_call_and_a_call_is_no_stream(stage: Stage) -> None:
    _, channel = await stage.both()
    with pytest.raises(InvalidArgument, match="mirror is a stream"):
        await channel.call("mirror")
    stream = await channel.open("echo")
    with pytest.raises(InvalidArgument, match="echo is no stream"):
        await stream.receive()


async def test_a_response_above_our_own_limit_is_an_error_and_the_connection_lives(stage: Stage) -> None:
    server = await stage.server()
    channel = await stage.channel(server.address, limits=WireLimits(frame_bytes_max=5000))
    with pytest.raises(LimitExceeded, match="5000"):
        await channel.call("inline", b"6000")
    assert len((await channel.call("inline", b"4000")).bulk) == 4000


# Deadlines and cancellation.


async def test_a_deadline_ends_the_call_here_and_the_handler_there(stage: Stage) -> None:
    _, channel = await stage.both()
    with pytest.raises(DeadlineExceeded) as caught:
        await channel.call("wait", deadline_s=0.2)
    assert caught.value.outcome is Outcome.INDETERMINATE
    await soon(stage.handlers.cancelled)
    assert (await channel.call("echo", b"after")).body == b"after"


async def test_calls_without_end_need_no_deadline(stage: Stage) -> None:
    _, channel = await stage.both()
    assert (await channel.call("echo", b"x", deadline_s=math.inf)).body == b"x"


async def test_cancelling_the_caller_cancels_the_handler(stage: Stage) -> None:
    _, channel = await stage.both()
    call = asyncio.create_task(channel.call("wait"))
    await soon(stage.handlers.started)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await soon(stage.handlers.cancelled)
    assert (await channel.call("echo", b"after")).body == b"after"


async def test_a_cancelled_call_keeps_its_place_until_the_server_has_ended_it(stage: Stage) -> None:
    service, in_cleanup, let_go = Service(), asyncio.Event(), asyncio.Event()

    @service.unary("slow-to-end")
    async def slow_to_end(call: WireCall) -> bytes:
        try:
            await asyncio.Event().wait()
        finally:
            in_cleanup.set()
            await let_go.wait()
        return b""

    @service.unary("echo")
    async def echo(call: WireCall) -> bytes:
        return call.body

    server = await stage.server(service, limits=WireLimits(requests_max=1))
    channel = await stage.channel(server.address)
    await channel.connect()
    with contextlib.suppress(DeadlineExceeded):
        await channel.call("slow-to-end", deadline_s=0.2)
    await soon(in_cleanup)
    with pytest.raises(Overloaded):
        await channel.call("echo", deadline_s=0.02)
    let_go.set()
    assert (await channel.call("echo", b"now")).body == b"now"
    assert server.statistics().connections_broken == 0


# Connections.


async def test_nobody_there_is_definite_and_told_at_once() -> None:
    async with Channel(free_address(), **QUICK) as channel:  # type: ignore[arg-type]
        with pytest.raises(ConnectFailed) as caught:
            await channel.call("echo")
    assert caught.value.outcome is Outcome.DEFINITE
    assert caught.value.retryable


async def test_a_patient_channel_waits_for_a_server_to_come(stage: Stage) -> None:
    address = free_address()
    channel = await stage.channel(address, patience_s=20.0, **QUICK)
    call = asyncio.create_task(channel.call("echo", b"patience"))
    with capture_logs() as logs:
        await until(lambda: any(line["event"] == "connect failed" for line in logs))
    host, port = address.rsplit(":", 1)
    await stage.server(host=host, port=int(port))
    assert (await call).body == b"patience"


async def test_patience_ends(stage: Stage) -> None:
    channel = await stage.channel(free_address(), patience_s=0.02, **QUICK)
    with pytest.raises(ConnectFailed):
        await channel.call("echo")


async def test_no_connection_within_the_deadline_is_definite(stage: Stage) -> None:
    async def say_nothing(peer: RawPeer) -> None:
        await peer.until_closed()

    channel = await stage.channel(await stage.raw_server(say_nothing))
    with pytest.raises(ConnectFailed, match="within the deadline"):
        await channel.call("echo", deadline_s=0.02)


async def test_a_server_which_does_not_say_welcome_is_given_up(stage: Stage) -> None:
    async def say_nothing(peer: RawPeer) -> None:
        await peer.until_closed()

    channel = await stage.channel(await stage.raw_server(say_nothing), limits=WireLimits(hello_ms=30))
    with pytest.raises(ConnectFailed, match="no welcome within 30 ms"):
        await channel.call("echo")


async def test_a_wrong_token_is_refused_and_not_tried_again_by_itself(stage: Stage) -> None:
    server = await stage.server(token="right")
    channel = await stage.channel(server.address, token="wrong", patience_s=30.0)
    with capture_logs() as logs, pytest.raises(Unauthenticated):
        await channel.call("echo")
    assert "wrong" not in str([line.values() for line in logs if "token is wrong" not in str(line)])
    right = await stage.channel(server.address, token="right")
    assert (await right.call("echo", b"in")).body == b"in"


async def test_a_lost_connection_is_indeterminate_for_what_was_sent_and_the_channel_comes_back(stage: Stage) -> None:
    server, channel = await stage.both()
    call = asyncio.create_task(channel.call("wait"))
    await soon(stage.handlers.started)
    host, port = server.address.rsplit(":", 1)
    await server.close(0.0)
    with pytest.raises(ConnectionLost) as caught:
        await call
    assert caught.value.outcome is Outcome.INDETERMINATE
    await stage.server(host=host, port=int(port))
    assert (await channel.call("echo", b"again")).body == b"again"
    assert channel.statistics().connections_opened == 2


async def test_a_closing_server_finishes_what_it_has_taken(stage: Stage) -> None:
    server, channel = await stage.both()
    call = asyncio.create_task(channel.call("wait"))
    await soon(stage.handlers.started)
    closing = asyncio.create_task(server.close(30.0))
    await until(lambda: channel._dialler.connection is None)  # it was told to go away
    with pytest.raises(ConnectFailed):
        await channel.call("echo")
    assert not call.done()
    stage.handlers.release.set()
    assert (await call).body == b"released"
    async with asyncio.timeout(5):
        await closing


async def test_what_a_server_going_away_has_not_taken_is_sent_again(stage: Stage) -> None:
    connections = []

    async def take_one_each(peer: RawPeer) -> None:
        connections.append(peer)
        await peer.frame()
        await peer.send(welcome_frame(["echo"]))
        _, _, id, _, body, _ = await peer.frame()
        await peer.send(encode_frame(FrameKind.GOAWAY, id=id))
        await peer.send(encode_frame(FrameKind.RESPONSE, id=id, body=body))
        assert await peer.until_closed() is None

    channel = await stage.channel(await stage.raw_server(take_one_each))
    calls = [channel.call("echo", str(number).encode()) for number in range(3)]
    assert [reply.body for reply in await asyncio.gather(*calls)] == [b"0", b"1", b"2"]
    assert len(connections) == 3


async def test_a_server_which_never_takes_anything_is_not_asked_for_ever(stage: Stage) -> None:
    async def take_nothing(peer: RawPeer) -> None:
        await peer.frame()
        await peer.send(welcome_frame(["echo"]))
        await peer.frame()
        await peer.send(encode_frame(FrameKind.GOAWAY, id=0))
        await peer.until_closed()

    channel = await stage.channel(await stage.raw_server(take_nothing))
    with pytest.raises(ShuttingDown) as caught:
        await channel.call("echo")
    assert caught.value.outcome is Outcome.DEFINITE
    assert channel.statistics().connections_opened <= 4


async def test_a_server_which_has_died_silently_is_noticed(stage: Stage) -> None:
    async def die_silently(peer: RawPeer) -> None:
        await peer.frame()
        await peer.send(welcome_frame(["echo"]))
        while True:
            await peer.frame()

    limits = WireLimits(keepalive_ms=20, pong_ms=20)
    channel = await stage.channel(await stage.raw_server(die_silently), limits=limits)
    with pytest.raises(ConnectionLost, match="silent"):
        await channel.call("echo")


async def test_pings_keep_an_unused_connection_alive_on_both_sides(stage: Stage) -> None:
    server, channel = await stage.both(silence_ms=400, keepalive_ms=10_000)  # so it pings three times in 400 ms
    await channel.call("echo")
    await until(lambda: server.statistics().frames_received >= 6)
    await channel.call("echo")
    assert server.statistics().connections_opened == 1


async def test_pings_go_on_while_the_server_is_the_only_one_who_talks(stage: Stage) -> None:
    async def talk(peer: RawPeer) -> None:
        await peer.frame()
        await peer.send(welcome_frame(["tail"], silence_ms=150))
        _, _, id, _, _, _ = await peer.frame()

        async def chatter() -> None:
            while True:
                await peer.send(encode_frame(FrameKind.MESSAGE, id=id, body=b"news"))
                await asyncio.sleep(0.005)  # so that the client is never without news

        chattering = asyncio.create_task(chatter())
        for _ in range(3):
            assert (await peer.frame())[0] == FrameKind.PING
        chattering.cancel()
        await peer.send(encode_frame(FrameKind.END, id=id))
        await peer.until_closed()

    channel = await stage.channel(await stage.raw_server(talk))
    async with channel.stream("tail") as stream:
        assert {message.body async for message in stream} == {b"news"}


async def test_an_idle_connection_is_ended_by_the_server_and_made_again_on_demand(stage: Stage) -> None:
    server, channel = await stage.both(idle_ms=20)
    await channel.call("echo")
    await until(lambda: server.statistics().connections_now == 0)
    assert (await channel.call("echo", b"again")).body == b"again"
    assert server.statistics().connections_broken == 0


async def test_a_closed_channel_says_so(stage: Stage) -> None:
    _, channel = await stage.both()
    call = asyncio.create_task(channel.call("wait"))
    await soon(stage.handlers.started)
    await channel.close()
    with pytest.raises(ConnectionLost):
        await call
    with pytest.raises(AlreadyClosed):
        await channel.call("echo")
    await channel.close()
    await soon(stage.handlers.cancelled)


async def test_closing_while_dialling_ends_those_who_wait(stage: Stage) -> None:
    channel = await stage.channel(free_address(), patience_s=30.0)
    call = asyncio.create_task(channel.call("echo"))
    await asyncio.sleep(0)
    await channel.close()
    with pytest.raises((AlreadyClosed, ConnectFailed)):
        await call


async def test_connect_waits_for_the_connection_or_says_why_there_is_none(stage: Stage) -> None:
    server = await stage.server()
    channel = await stage.channel(server.address)
    assert "not connected" in repr(channel)
    await channel.connect()
    assert repr(channel).endswith(", connected)")
    with pytest.raises(ConnectFailed):
        await (await stage.channel(free_address())).connect(deadline_s=10)


# Servers which break the protocol.


async def hostile(stage: Stage, *frames: bytes) -> PenstockError:
    """What a call says when the server answers it with these frames."""

    async def serve(peer: RawPeer) -> None:
        await peer.frame()
        await peer.send(welcome_frame(["echo"]))
        await peer.frame()
        await peer.send(b"".join(frames))
        await peer.until_closed()

    channel = await stage.channel(await stage.raw_server(serve))
    with pytest.raises(PenstockError) as caught:
        await channel.call("echo")
    return caught.value


@pytest.mark.parametrize(
    "frame",
    [
        encode_frame(FrameKind.RESPONSE, id=99),
        encode_frame(FrameKind.ERROR, id=99, body=encode_error(NotFound("no"))),
        encode_frame(FrameKind.ERROR, id=1, body=b"\xc1"),
        encode_frame(FrameKind.MESSAGE, id=1, body=b"for a call"),
        encode_frame(FrameKind.END, id=1),
        encode_frame(FrameKind.CREDIT, id=1, argument=1),
        encode_frame(FrameKind.REQUEST, id=1),
        encode_frame(FrameKind.WELCOME),
        encode_frame(FrameKind.CLOSE, body=b"\xc1"),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        bytes(100),
    ],
)
async def test_a_server_which_breaks_the_protocol_is_left_and_the_call_is_indeterminate(
    stage: Stage, frame: bytes
) -> None:
    with capture_logs() as logs:
        error = await hostile(stage, frame)
    assert type(error) is ConnectionLost
    assert error.outcome is Outcome.INDETERMINATE
    assert [line["role"] for line in logs if line["event"] == "connection broken"] == ["client"]


async def test_a_server_which_closes_says_why(stage: Stage) -> None:
    error = await hostile(stage, encode_frame(FrameKind.CLOSE, body=encode_error(Overloaded("too many"))))
    assert type(error) is ConnectionLost
    assert (error.message, error.details["reason"]) == ("too many", "overloaded")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n" + bytes(10), PenstockError),
        (encode_frame(FrameKind.WELCOME, body=b"\xc1"), PenstockError),
        (welcome_frame(["echo"], version=2), VersionMismatch),
        (welcome_frame(["echo"], requests_max=0), PenstockError),
        (encode_frame(FrameKind.CLOSE, body=encode_error(Unauthenticated("no token"))), Unauthenticated),
        (b"", ConnectFailed),
        (welcome_frame(["echo"])[:30], PenstockError),
    ],
)
async def test_what_is_no_welcome_is_definite(stage: Stage, answer: bytes, expected: type[PenstockError]) -> None:
    async def serve(peer: RawPeer) -> None:
        await peer.frame()
        await peer.send(answer)

    channel = await stage.channel(await stage.raw_server(serve))
    with pytest.raises(expected) as caught:
        await channel.call("echo")
    assert caught.value.outcome is Outcome.DEFINITE


async def test_cancelled_while_waiting_for_room_leaves_no_trace(stage: Stage) -> None:
    _, channel = await stage.both(requests_max=1)
    first = asyncio.create_task(channel.call("wait"))
    await soon(stage.handlers.started)
    second = asyncio.create_task(channel.call("echo", b"second"))
    third = asyncio.create_task(channel.call("echo", b"third"))
    await asyncio.sleep(0)
    second.cancel()
    stage.handlers.release.set()
    assert (await third).body == b"third"
    await first
    assert second.cancelled()


async def test_a_server_object_and_its_address(stage: Stage) -> None:
    async with await Server.start(stage.handlers.service) as server:
        assert server.address.startswith("127.0.0.1:")
        async with Channel(server.address) as channel:
            await channel.call("echo")
