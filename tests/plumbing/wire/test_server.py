"""Servers: starting, limits on connections, draining, and what the log says."""

import asyncio

import pytest
from structlog.testing import capture_logs
from tests.plumbing.wire.harness import RawPeer, Stage, soon, until

from penstock.kernel.errors import (
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    InvalidArgument,
    Outcome,
    Overloaded,
    ShuttingDown,
)
from penstock.plumbing.wire import Channel, Server, Service, WireCall
from penstock.plumbing.wire.message import ERROR_CODEC
from penstock.plumbing.wire.protocol.frames import FrameKind, encode_frame
from penstock.plumbing.wire.protocol.hello import METHODS_MAX


async def test_one_client_too_many_is_told_so_and_the_others_stay(stage: Stage) -> None:
    server, channel = await stage.both(connections_max=1)
    await channel.call("echo")
    second = await stage.channel(server.address)
    with pytest.raises(Overloaded) as caught:
        await second.call("echo")
    assert (caught.value.outcome, caught.value.retryable) == (Outcome.DEFINITE, True)
    assert (await channel.call("echo", b"here")).body == b"here"
    assert server.statistics().connections_refused == 1
    await channel.close()
    await until(lambda: server.statistics().connections_now == 0)
    third = await stage.channel(server.address)
    assert (await third.call("echo", b"room again")).body == b"room again"


async def test_an_address_which_is_taken_is_a_clear_refusal(stage: Stage) -> None:
    server, _ = await stage.both()
    host, _, port = server.address.rpartition(":")
    with pytest.raises(ConfigError, match=f"cannot listen on {host}:{port}") as caught:
        await Server.start(Service(), host, int(port))
    assert "choose another address" in str(caught.value.next_step)


async def test_closing_drains_up_to_its_deadline_and_then_cancels(stage: Stage) -> None:
    server, channel = await stage.both()
    call = asyncio.create_task(channel.call("wait"))
    await soon(stage.handlers.started)
    await server.close(drain_s=0.05)
    assert stage.handlers.cancelled.is_set(), "no handler runs when close returns"
    with pytest.raises(ConnectionLost) as caught:
        await call
    assert caught.value.details["reason"] == "shutting-down"


async def test_closing_an_unused_server_takes_no_time(stage: Stage) -> None:
    server, channel = await stage.both()
    await channel.call("echo")
    peer = await stage.raw(server.address)
    await peer.hello()
    async with asyncio.timeout(5):
        await server.close(drain_s=60.0)
    frame = await peer.frame()
    assert frame[:3] == (FrameKind.GOAWAY, 0, 0)
    assert await peer.until_closed() is None
    with pytest.raises(ConnectFailed):
        await channel.call("echo")


async def test_who_was_not_welcomed_yet_is_not_told_to_go_away(stage: Stage) -> None:
    """A client which hears anything before its welcome takes the server for a stranger, and does not try again."""
    server = await stage.server()
    peer = await stage.raw(server.address)
    await until(lambda: server.statistics().connections_now == 1)
    await server.close()
    with pytest.raises(EOFError):
        await peer.frame()


async def test_what_comes_behind_a_goaway_is_not_taken(stage: Stage) -> None:
    server = await stage.server()
    peer = await stage.raw(server.address)
    await peer.hello()
    echo, wait, mirror = 0, 2, 4
    await peer.send(encode_frame(FrameKind.REQUEST, method=wait, id=1))
    await soon(stage.handlers.started)
    closing = asyncio.create_task(server.close(30.0))
    kind, _, last_id, _, _, _ = await peer.frame()
    assert (kind, last_id) == (FrameKind.GOAWAY, 1)
    await peer.send(encode_frame(FrameKind.REQUEST, method=echo, id=2, body=b"too late"))
    await peer.send(encode_frame(FrameKind.OPEN, method=mirror, id=3))
    await peer.send(encode_frame(FrameKind.MESSAGE, id=3, body=b"too late") + encode_frame(FrameKind.CANCEL, id=3))
    await peer.send(encode_frame(FrameKind.PING, argument=5))
    assert (await peer.frame())[:4] == (FrameKind.PONG, 0, 0, 5)
    stage.handlers.release.set()
    assert (await peer.frame())[:3] == (FrameKind.RESPONSE, 0, 1)
    assert await peer.until_closed() is None
    await closing


@pytest.mark.parametrize(("kind", "method"), [(FrameKind.REQUEST, 2), (FrameKind.OPEN, 4)])
async def test_a_server_keeps_the_deadline_whatever_its_client_does(stage: Stage, kind: FrameKind, method: int) -> None:
    server = await stage.server()
    peer = await stage.raw(server.address)
    await peer.hello()
    await peer.send(encode_frame(kind, method=method, id=1, argument=200))
    answer, _, id, _, body, _ = await peer.frame()
    assert (answer, id) == (FrameKind.ERROR, 1)
    assert ERROR_CODEC.decode(body).code == "deadline-exceeded"
    assert stage.handlers.cancelled.is_set()
    assert server.statistics().deadlines_exceeded == 1


async def test_a_client_which_comes_while_the_server_closes_is_turned_away(stage: Stage) -> None:
    server, channel = await stage.both()
    call = asyncio.create_task(channel.call("wait"))
    await soon(stage.handlers.started)
    late = Channel(server.address)
    connecting = asyncio.create_task(late.connect())
    closing = asyncio.create_task(server.close(30.0))
    with pytest.raises((ConnectFailed, ShuttingDown)):
        await asyncio.gather(connecting, late.call("echo"))
    stage.handlers.release.set()
    await call
    await closing
    await late.close()


async def test_a_server_asks_for_its_token_and_logs_none(stage: Stage) -> None:
    with capture_logs() as logs:
        server = await stage.server(token="sesame-7")
        for token in ("", "sesame-8", "sesame-7"):
            peer = await stage.raw(server.address)
            if token == "sesame-7":
                assert (await peer.hello(token)).methods[0] == "echo"
            else:
                await _refused(peer, token)
    assert "sesame" not in str(logs)
    reasons = [line["reason"] for line in logs if line["event"] == "connection closed" and line["role"] == "server"]
    assert reasons == ["a token is required", "the token is wrong"]


async def _refused(peer: RawPeer, token: str) -> None:
    with pytest.raises(AssertionError):  # no welcome
        await peer.hello(token)
    await peer.until_closed()


@pytest.mark.parametrize("wrong", ["token", "methods"])
async def test_a_server_which_makes_no_sense_does_not_start(wrong: str) -> None:
    service = Service()

    async def echo(call: WireCall) -> bytes:
        return call.body

    for number in range(METHODS_MAX + 1 if wrong == "methods" else 1):
        service.unary(str(number))(echo)
    with pytest.raises(InvalidArgument):
        await Server.start(service, token="" if wrong == "token" else None)


async def test_counters_say_what_happened(stage: Stage) -> None:
    server, channel = await stage.both()
    await channel.call("echo", bytes(100), bytes(100_000))
    async with channel.stream("mirror") as stream:
        await stream.send(b"x")
        await stream.receive()
    theirs, ours = server.statistics(), channel.statistics()
    assert (theirs.connections_now, theirs.requests, theirs.streams) == (1, 1, 1)
    assert (ours.connections_now, ours.requests, ours.streams) == (1, 1, 1)
    assert theirs.bytes_received == ours.bytes_sent > 100_000
    assert ours.bytes_received == theirs.bytes_sent > 100_000
    assert theirs.frames_received >= 5
