import asyncio
import socket
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.plumbing.wire.harness import Stage, soon, until

from penstock.kernel.errors import ConnectFailed, InvalidArgument, Overloaded, Unauthenticated
from penstock.plumbing.wire import Backoff, WireLimits
from penstock.plumbing.wire.dialler import parse_address


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1:7070", ("127.0.0.1", 7070)), ("[::1]:1", ("::1", 1)), ("host.example:65535", ("host.example", 65535))],
)
def test_an_address_has_a_host_and_a_port(address: str, expected: tuple[str, int]) -> None:
    assert parse_address(address) == expected


@pytest.mark.parametrize("address", ["", "host", ":80", "host:", "host:x", "host:70000", "host:-1", "host:٣"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidArgument, match="host:port"):
        parse_address(address)


@given(st.text(max_size=20))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        host, port = parse_address(text)
    except InvalidArgument:
        return
    assert host
    assert 0 <= port <= 65535


def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


async def test_calls_during_a_pause_fail_with_what_the_last_attempt_said_and_cause_no_other(stage: Stage) -> None:
    channel = await stage.channel(nobody(), backoff=Backoff(Random(1), base_ms=60_000, pause_ms_max=60_000))
    with capture_logs() as logs:
        for _ in range(5):
            with pytest.raises(ConnectFailed, match="cannot connect"):
                await channel.call("echo")
    assert [line["event"] for line in logs].count("connect failed") == 1


async def test_attempts_go_on_while_somebody_waits_and_stop_when_nobody_does(stage: Stage) -> None:
    backoff = Backoff(Random(1), base_ms=1, pause_ms_max=2)
    channel = await stage.channel(nobody(), patience_s=60.0, backoff=backoff)
    call = asyncio.create_task(channel.call("echo"))
    await until(lambda: backoff.failures >= 3)
    call.cancel()
    await until(lambda: channel._dialler._task is None)
    failures = backoff.failures
    with pytest.raises(asyncio.CancelledError):
        await call
    assert backoff.failures == failures


async def test_a_refusal_is_told_to_everybody_who_waits(stage: Stage) -> None:
    server = await stage.server(token="right")
    channel = await stage.channel(server.address, patience_s=60.0)
    errors = await asyncio.gather(*(channel.call("echo") for _ in range(5)), return_exceptions=True)
    assert {type(error) for error in errors} == {Unauthenticated}
    assert len({id(error) for error in errors}) == 5, "each caller raises an error of its own"


async def test_no_more_callers_wait_for_a_connection_than_allowed(stage: Stage) -> None:
    channel = await stage.channel(nobody(), patience_s=60.0, limits=WireLimits(waiting_max=2))
    calls = [asyncio.create_task(channel.call("echo")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="wait for a connection"):
        await channel.call("echo")
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_connection_which_lived_long_forgives_earlier_failures(stage: Stage) -> None:
    server = await stage.server()
    forgiven = asyncio.Event()

    class Watched(Backoff):
        def reset(self) -> None:
            super().reset()
            forgiven.set()

    backoff = Watched(Random(1), base_ms=0.01, pause_ms_max=0.02)
    backoff.failures = 9
    channel = await stage.channel(server.address, backoff=backoff)
    await channel.call("echo")
    now = asyncio.get_running_loop().time
    connected_at = now()
    while now() <= connected_at:  # uvloop's clock ticks once a millisecond: until then nothing has lived at all
        await channel.call("echo")
    await server.close(0.0)
    await soon(forgiven)
