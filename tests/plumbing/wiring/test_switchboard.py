"""Roles that share one server: their methods are offered from the start, and answer while the role runs."""

from collections.abc import AsyncIterator

import pytest

from penstock.kernel.errors import Unavailable
from penstock.plumbing.wire.client import Channel
from penstock.plumbing.wire.message import WireCall, WireMessage
from penstock.plumbing.wire.server import Server
from penstock.plumbing.wire.server_stream import ServerStream
from penstock.plumbing.wire.service import Service
from penstock.plumbing.wire.stream import Receiver
from penstock.plumbing.wiring.switchboard import Switchboard


def role(name: str, life: bytes = b"1") -> Service:
    service = Service()

    async def unary(call: WireCall) -> bytes:
        return life + call.body

    def inline(call: WireCall) -> bytes:
        return life

    async def stream(opened: ServerStream) -> None:
        async for message in opened:
            await opened.send(life + message.body)

    service.unary(f"{name}.unary")(unary)
    service.inline(f"{name}.inline")(inline)
    service.stream(f"{name}.stream")(stream)
    return service


@pytest.fixture
async def board() -> AsyncIterator[Switchboard]:
    board = Switchboard({"node": role("node"), "broker": role("broker")})
    board.server = await Server.start(board.service)
    yield board
    await board.server.close()


async def test_roles_answer_while_they_are_connected(board: Switchboard) -> None:
    assert board.server is not None
    first, second = role("broker"), role("broker", b"2")
    async with Channel(board.server.address) as channel:
        with pytest.raises(Unavailable, match="the broker of this process does not run: it has not started yet"):
            await channel.call("broker.unary")
        board.connect(first)
        assert (await channel.call("broker.unary", b"x")).body == b"1x"
        assert (await channel.call("broker.inline")).body == b"1"
        with pytest.raises(Unavailable, match="the node of this process"):
            await channel.call("node.inline")
        await board.disconnect(first, "the disk is full")
        with pytest.raises(Unavailable, match="the broker of this process does not run: the disk is full"):
            await channel.call("broker.inline")
        board.connect(second)
        assert (await channel.call("broker.unary", b"x")).body == b"2x"


async def test_streams_are_of_the_role_that_runs(board: Switchboard) -> None:
    assert board.server is not None
    async with Channel(board.server.address) as channel:
        with pytest.raises(Unavailable, match="does not run"):
            async with channel.stream("node.stream", is_read_only=True) as stream:
                await anext(aiter(stream))
        board.connect(role("node", b"7"))
        async with channel.stream("node.stream") as stream:
            await stream.send(b"x")
            assert (await anext(aiter(stream))).body == b"7x"


def test_every_kind_of_method_has_its_proxy() -> None:
    service = Service()

    @service.pipelined("p")
    def pipelined(opened: ServerStream) -> Receiver:
        raise Unavailable("reached")

    board = Switchboard({"broker": service})
    (method,) = board.service.methods
    with pytest.raises(Unavailable, match="does not run"):
        method.handler(None)
    board.connect(service)
    with pytest.raises(Unavailable, match="reached"):
        method.handler(None)


async def test_messages_pass_as_they_are(board: Switchboard) -> None:
    assert board.server is not None
    service = role("node")
    board.connect(service)
    async with Channel(board.server.address) as channel:
        assert isinstance(await channel.call("node.unary", b"body"), WireMessage)
