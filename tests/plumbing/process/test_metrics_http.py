import asyncio
import contextlib
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.errors import ConfigError
from penstock.plumbing.config import Address
from penstock.plumbing.process import metrics_http
from penstock.plumbing.process.health import Finding, Health, HealthState
from penstock.plumbing.process.metrics_http import REQUEST_BYTES_MAX, MetricsServer, respond

ANY_PORT = Address("127.0.0.1", 0)
HEALTH = b"GET /healthz HTTP/1.1\r\n\r\n"
ALIVE = b"GET /livez HTTP/1.1\r\n\r\n"


async def ask(server: MetricsServer, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_prometheus_gets_metrics() -> None:
    async with MetricsServer(ANY_PORT) as server:
        answer = await ask(server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Type: text/plain; version=0.0.4" in head
    assert f"Content-Length: {len(body)}\r\n".encode() in head
    assert b"penstock_build_info{version=" in body


async def test_health_is_asked_each_time() -> None:
    wrong: list[Finding] = []
    health = Health(lambda: 7.0)
    health.add("wal", "node", lambda: wrong[0] if wrong else None)
    async with MetricsServer(ANY_PORT, health, "secret") as server:
        assert await ask(server, HEALTH) == (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n"
            b"Cache-Control: no-store\r\nConnection: close\r\n\r\nok\n"
        )
        wrong.append(Finding("the WAL is poisoned", "penstock fsck", HealthState.FAILED))
        answer = await ask(server, HEALTH)
        whole = await ask(server, b"GET /healthz HTTP/1.1\r\nAuthorization: Bearer secret\r\n\r\n")
        ready = await ask(server, b"GET /readyz?role=node HTTP/1.1\r\nAuthorization: Bearer secret\r\n\r\n")
        alive = await ask(server, b"GET /livez HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert answer.endswith(b"\r\n\r\nfailed\n")
    assert whole.endswith(
        b'{"state":"failed","checks":[{"check":"wal","role":"node","state":"failed","since":7.0,'
        b'"why":"the WAL is poisoned","next":"penstock fsck"}]}\n'
    )
    assert ready.startswith(b"HTTP/1.1 503 ")
    assert ready.endswith(b"wal: the WAL is poisoned\n")
    assert alive.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /metrics?name=x HTTP/1.1\r\n\r\n", 200),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"\r\n\r\n", 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"GET http://x/metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/2\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nAccept\r\n:\r\n\r\n", 200),
    ],
    ids=["unknown path", "query", "post", "empty", "http/0.9", "absolute", "http/2", "tls", "odd headers"],
)
def test_a_request_and_its_status(request_: bytes, status: int) -> None:
    assert respond(request_, Health()).startswith(f"HTTP/1.1 {status} ".encode())


def test_head_is_get_without_the_body() -> None:
    get = respond(ALIVE, Health())
    head = respond(b"HEAD /livez HTTP/1.1\r\n\r\n", Health())
    assert get == head + b"ok\n"


@settings(deadline=None)
@given(st.binary() | st.text().map(lambda path: f"GET /{path} HTTP/1.1\r\nAccept: {path}\r\n\r\n".encode()))
def test_any_bytes_have_an_answer(head: bytes) -> None:
    answer = respond(head, Health())
    start, _, body = answer.partition(b"\r\n\r\n")
    assert start.startswith(b"HTTP/1.1 ")
    assert f"Content-Length: {len(body)}".encode() in start


@pytest.mark.parametrize("sent", [b"GET /metr", b"x" * (REQUEST_BYTES_MAX * 4)], ids=["cut short", "without end"])
async def test_a_request_without_an_end_is_refused_and_harms_no_other(sent: bytes) -> None:
    async with MetricsServer(ANY_PORT) as server:
        reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
        writer.write(sent)
        writer.write_eof()
        with contextlib.suppress(ConnectionError):  # closing on unread bytes may reset before the answer is read
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()
        assert (await ask(server, ALIVE)).endswith(b"ok\n")


async def test_a_sleeping_client_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_http, "CONNECTION_SECONDS_MAX", 0.01)
    async with MetricsServer(ANY_PORT) as server:
        assert await ask(server, b"GET /metrics HTTP/1.1\r\n") == b""


async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_http, "CONNECTIONS_MAX", 1)
    async with MetricsServer(ANY_PORT) as server:
        reader, held = await asyncio.open_connection(server.address.host, server.address.port)
        with pytest.raises(ConnectionError):
            await ask(server, ALIVE)
        held.write(ALIVE)
        assert (await reader.read()).endswith(b"ok\n")
        held.close()
        assert (await ask(server, ALIVE)).endswith(b"ok\n")


async def test_closing_does_not_wait_for_an_open_connection() -> None:
    async with MetricsServer(ANY_PORT) as server:
        reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
        writer.write(b"GET /metrics HTTP/1.1\r\n")
        await writer.drain()
        await ask(server, ALIVE)  # by now the first connection is served, too
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()


async def test_a_taken_port_is_refused_with_the_key_to_change() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(ConfigError) as caught:
            async with MetricsServer(address):
                pass
    assert str(address) in caught.value.describe()
    assert "metrics.listen" in caught.value.next_step
