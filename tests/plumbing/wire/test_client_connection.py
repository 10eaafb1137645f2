"""The client's side of a connection by itself: what was handed to the transport, and what was not."""

import asyncio
from typing import cast

import pytest
from tests.plumbing.wire.harness import Stage, welcome_frame

from penstock.kernel.errors import ConnectionLost, Outcome, Unavailable
from penstock.plumbing.ports.ports import system_ports
from penstock.plumbing.wire import Statistics, WireLimits
from penstock.plumbing.wire.client_connection import ClientConnection

CLOCKS = system_ports().clock


class Paper(asyncio.Transport):
    """A transport which writes everything down."""

    def __init__(self, extra: dict[str, object] | None = None) -> None:
        super().__init__(extra)
        self.written = b""
        self.is_aborted = False

    def write(self, data: object) -> None:
        self.written += cast("bytes", data)

    def abort(self) -> None:
        self.is_aborted = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def unconnected() -> ClientConnection:
    def ignore(connection: ClientConnection) -> None:
        pass

    return ClientConnection(
        WireLimits(), Statistics(), CLOCKS, token=None, on_made=ignore, on_unusable=ignore, on_lost=ignore
    )


def connected() -> tuple[ClientConnection, Paper]:
    connection, paper = unconnected(), Paper()
    connection.connection_made(paper)
    data = welcome_frame(["echo"])
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))
    return connection, paper


async def test_what_was_not_handed_over_when_the_connection_broke_is_definite() -> None:
    connection, paper = connected()
    sent = connection.request("echo", b"sent", b"", 30.0)
    await asyncio.sleep(0)  # one turn of the loop: it is written
    assert paper.written.endswith(b"sent")
    unsent = connection.request("echo", b"unsent", b"", 30.0)
    stream = connection.open("echo", b"unsent too", b"", float("inf"))
    connection.connection_lost(OSError("the cable"))
    assert sent is not None
    assert unsent is not None
    with pytest.raises(ConnectionLost, match="the cable") as lost:
        await sent.reply
    assert lost.value.outcome is Outcome.INDETERMINATE
    with pytest.raises(Unavailable, match="not sent") as never:
        await unsent.reply
    assert (never.value.outcome, never.value.retryable) == (Outcome.DEFINITE, True)
    with pytest.raises(Unavailable, match="not sent"):
        await stream.receive()
    assert b"unsent" not in paper.written


async def test_what_one_turn_of_the_loop_sends_is_one_write_in_order(stage: Stage) -> None:
    _, channel = await stage.both()
    before = channel.statistics().writes
    small, large = [b"s" * 10, b"l" * 50_000]
    calls = [channel.call("echo", body) for body in (small, large, small, small)]
    assert [reply.body for reply in await asyncio.gather(*calls)] == [small, large, small, small]
    assert channel.statistics().writes - before <= 2


async def test_a_connection_which_came_back_to_its_caller_is_none() -> None:
    """On loopback the system may choose the port which is called as the one to call from."""
    connection = unconnected()
    paper = Paper({"sockname": ("127.0.0.1", 7201), "peername": ("127.0.0.1", 7201)})
    connection.connection_made(paper)
    assert paper.is_aborted
    connection.connection_lost(None)
    with pytest.raises(ConnectionLost, match="no process listens there"):
        await connection.ready
    assert paper.written == b""
