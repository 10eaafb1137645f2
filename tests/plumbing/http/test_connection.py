"""Hostile clients: whatever they send, or do not send, the server says what happened and serves the next one."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.plumbing.http.harness import Client, connect, serving

from penstock.plumbing.http.app import App, Site
from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response
from penstock.plumbing.http.router import Router
from penstock.plumbing.http.server import HttpServer

GET = b"GET /hello/you HTTP/1.1\r\n\r\n"


async def _send_for_ever(client: Client) -> None:
    while True:
        client.writer.write(bytes(1 << 16))
        await client.writer.drain()


async def _still_serves(server: HttpServer) -> bool:
    async with connect(server) as client:
        return (await client.ask(GET)).body == b"hello you"


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS to a plain port
        b"GET /hello HTTP/9.9\r\n\r\n",
        b"GET /a b HTTP/1.1\r\n\r\n",
        b"GET /x HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET /x HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        b"PUT /echo HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"CONNECT example.org:80 HTTP/1.1\r\n\r\n",
        b"GET /hello/you HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
        b"GET \xff\xfe HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_told_so(request_: bytes) -> None:
    async with serving() as server:
        with capture_logs() as logs:
            async with connect(server) as client:
                client.writer.write(request_)
                answer = await client.rest()
        assert await _still_serves(server)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n") or answer == b""  # a started answer is cut
    assert any(one["event"] == "http connection refused" and one["reason"] for one in logs)
    assert server.statistics.bad_requests == 1


async def test_a_body_does_not_count_as_a_head() -> None:
    body = bytes(300_000)
    request = b"PUT /echo HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body)
    async with serving(limits=HttpLimits(head_bytes_max=200)) as server, connect(server) as client:
        for _ in range(3):
            assert (await client.ask(request + body)).body == body


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 3000,
        b"GET / HTTP/1.1\r\nx-long: " + b"b" * 3000,
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 50,
        b"GET / HTTP/1.1\r\nx-long: " + b"c" * 3000 + b"\r\n\r\n",
    ],
)
async def test_a_huge_head_is_refused(head: bytes) -> None:
    async with serving(limits=HttpLimits(head_bytes_max=2000, headers_max=40)) as server:
        async with connect(server) as client:
            client.writer.write(head)
            answer = await client.answer()
            assert await client.rest() == b""
        assert await _still_serves(server)
    assert answer.status == 431
    assert "at most 2000 bytes and 40 headers" in msgspec.json.decode(answer.body)["message"]


async def test_a_head_which_never_ends_times_out() -> None:
    async with serving(limits=HttpLimits(head_ms=20)) as server:
        async with connect(server) as silent, connect(server) as slow:
            slow.writer.write(b"GET /hel")
            assert (await slow.answer()).status == 408
            assert (await silent.answer()).status == 408
            assert await silent.rest() == b""
        assert server.statistics.clients_slow == 2


async def test_the_second_head_of_a_connection_times_out_too() -> None:
    async with serving(limits=HttpLimits(head_ms=1000)) as server, connect(server) as client:
        assert (await client.ask(GET)).status == 200
        client.writer.write(b"\r\nGET ")
        assert (await client.answer()).status == 408


async def test_an_idle_connection_is_closed() -> None:
    async with serving(limits=HttpLimits(keep_alive_ms=1)) as server, connect(server) as client:
        assert (await client.ask(GET)).status == 200
        assert await client.rest() == b""


@pytest.mark.parametrize("rest", [b"", b"more", b"more of it"])
async def test_a_body_nobody_wants_does_not_hold_the_connection(rest: bytes) -> None:
    async with serving(limits=HttpLimits(keep_alive_ms=100)) as server, connect(server) as client:
        answer = await client.ask(b"PUT /nowhere HTTP/1.1\r\ncontent-length: 10\r\n\r\n")
        assert answer.status == 404
        client.writer.write(rest)
        assert await client.rest() == b""


async def test_a_body_which_falls_silent_is_refused() -> None:
    async with serving(limits=HttpLimits(body_silence_ms=20)) as server, connect(server) as client:
        answer = await client.ask(b"PUT /echo HTTP/1.1\r\ncontent-length: 10\r\n\r\nhalf")
    assert (answer.status, msgspec.json.decode(answer.body)["written"]) == (408, "no")


async def test_a_client_which_does_not_read_is_cut_off() -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield bytes(1 << 20)
        finally:
            closed.set()

    async def handler(_: Request) -> Response:
        return Response(body=endless())

    router = Router()
    router.get("/x", handler)
    server = await HttpServer.start(App([Site("test", router)], HttpLimits(write_stall_ms=20)))
    async with server, connect(server) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(b"GET /x HTTP/1.1\r\n\r\n")
        await closed.wait()
        assert server.statistics.clients_slow == 1


async def test_more_connections_than_the_limit_are_refused() -> None:
    async with serving(limits=HttpLimits(connections_max=1)) as server, connect(server) as one:
        assert (await one.ask(GET)).status == 200
        async with connect(server) as two:
            assert (await two.answer()).status == 503
        assert (await one.ask(GET)).status == 200
    assert server.statistics.connections_refused == 1


async def test_pipelined_requests_are_answered_in_order_and_bounded() -> None:
    async with serving(limits=HttpLimits(pipelined_max=3)) as server:
        async with connect(server) as client:
            client.writer.write(b"GET /hello/a HTTP/1.1\r\n\r\nGET /hello/b HTTP/1.1\r\n\r\n")
            assert [(await client.answer()).body for _ in "ab"] == [b"hello a", b"hello b"]
        async with connect(server) as greedy:
            greedy.writer.write(GET * 1000)
            assert (await greedy.rest()).count(b"hello you") < 10
        assert await _still_serves(server)


async def test_trailers_are_no_headers() -> None:
    seen: list[str] = []

    async def handler(request: Request) -> Response:
        await request.read()
        seen.append(request.header("x-admin", "nobody"))
        return Response()

    router = Router()
    router.put("/x", handler)
    async with serving(Site("test", router)) as server, connect(server) as client:
        await client.ask(b"PUT /x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx-admin: yes\r\n\r\n")
    assert seen == ["nobody"]


async def test_a_large_body_nobody_wants_ends_the_connection() -> None:
    async with serving(limits=HttpLimits(unread_bytes_max=100_000)) as server:
        async with connect(server) as client:
            client.writer.write(b"PUT /nowhere HTTP/1.1\r\ncontent-length: 100000000\r\n\r\n")
            assert (await client.answer()).status == 404
            with pytest.raises(ConnectionError):
                await _send_for_ever(client)
        assert await _still_serves(server)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from([GET, b"\r\n", b"PUT /echo HTTP/1.1\r\n", b"content-length: 4\r\n", b"\x00", b"0\r\n"])
        | st.binary(max_size=30),
        max_size=8,
    )
)
def test_any_bytes_leave_the_server_serving(pieces: list[bytes]) -> None:
    async def main() -> None:
        async with serving() as server:
            async with connect(server) as client:
                for piece in pieces:
                    client.writer.write(piece)
                client.writer.write_eof()
            assert await _still_serves(server)

    asyncio.run(main())
