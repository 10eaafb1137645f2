"""Requests made to be read in two ways, or to hold a server up: each is refused by name, and none becomes a request.

A request is smuggled where a proxy and its server see different ends of one body. RFC 9112 leaves some forms to a
server's taste; this server refuses all of these, because a proxy may read them in another way.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.plumbing.http.harness import connect, serving

from penstock.plumbing.http.app import App, Site
from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.protocol.connection import FRAMING_BYTES_MAX
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response, text_response
from penstock.plumbing.http.router import Router
from penstock.plumbing.http.server import HttpServer

HIDDEN = b"GET /hello/hidden HTTP/1.1\r\nhost: x\r\n\r\n"
PUT = b"PUT /echo HTTP/1.1\r\nhost: x\r\n"


@pytest.mark.parametrize(
    "smuggled",
    [
        PUT + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        PUT + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n" + HIDDEN,
        PUT + b"content-length: 5\r\ncontent-length: 0\r\n\r\n" + HIDDEN,
        PUT + b"content-length: 0\r\ncontent-length: 0\r\n\r\n" + HIDDEN,
        PUT + b"content-length: 0, 5\r\n\r\n" + HIDDEN,
        PUT + b"content-length: +0\r\n\r\n" + HIDDEN,
        PUT + b"content-length: -1\r\n\r\n" + HIDDEN,
        PUT + b"content-length: 0x5\r\n\r\n" + HIDDEN,
        PUT + b"content-length: 99999999999999999999999\r\n\r\n" + HIDDEN,
        PUT + b"content-length : 5\r\n\r\n" + HIDDEN,
        PUT + b"transfer-encoding: identity\r\n\r\n" + HIDDEN,
        PUT + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        PUT + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n" + HIDDEN,
        PUT + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        PUT + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        PUT + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        PUT + b"transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        PUT + b"x: a\r\n content-length: 5\r\n\r\n" + HIDDEN,  # a folded line
        PUT + b"x: a\x00b\r\ncontent-length: 0\r\n\r\n" + HIDDEN,
        PUT + b"x\x00: a\r\ncontent-length: 0\r\n\r\n" + HIDDEN,
        PUT + b"x: a\rcontent-length: 5\r\n\r\n" + HIDDEN,
        PUT + b"content-length: 0\n\r\n" + HIDDEN,
        PUT + b"host: other\r\ncontent-length: 0\r\n\r\n" + HIDDEN,
        b"PUT /echo\x00 HTTP/1.1\r\ncontent-length: 0\r\n\r\n" + HIDDEN,
        b"PUT /echo HTTP/1.1 \r\ncontent-length: 0\r\n\r\n" + HIDDEN,
    ],
)
async def test_a_head_of_two_meanings_is_refused(smuggled: bytes) -> None:
    async with serving() as server, connect(server) as client:
        client.writer.write(smuggled)
        answer = await client.rest()
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert b"hello hidden" not in answer
    assert server.statistics.bad_requests == 1


@pytest.mark.parametrize(
    "body",
    [
        b"-1\r\n",
        b"0x1\r\na\r\n0\r\n\r\n",
        b" 1\r\na\r\n0\r\n\r\n",
        b"g\r\n",
        b"\r\na\r\n",
        b"fffffffffffffffff\r\n",
        b"1\r\nab\r\n0\r\n\r\n",  # longer than its size
        b"2\r\na\r\n0\r\n\r\n" + HIDDEN,  # shorter than its size
        b"1\na\n0\n\n",
        b"1;\x00\r\na\r\n0\r\n\r\n",
        b"0\r\nx: y\x00\r\n\r\n",
    ],
)
async def test_a_bad_chunk_ends_the_connection(body: bytes) -> None:
    async with serving() as server, connect(server) as client:
        client.writer.write(PUT + b"transfer-encoding: chunked\r\n\r\n" + body)
        assert b"hello hidden" not in await client.rest()
    assert server.statistics.bad_requests == 1
    assert server.statistics.answers_4xx + server.statistics.clients_gone == 1


async def test_chunks_may_have_extensions_and_any_case() -> None:
    async with serving() as server, connect(server) as client:
        answer = await client.ask(PUT + b"Transfer-Encoding: CHUNKED\r\n\r\nA;a=b\r\n0123456789\r\n0\r\n\r\n")
    assert answer.body == b"0123456789"


@pytest.mark.parametrize("frame", [b"1;" + b"x" * 60_000 + b"\r\na\r\n", b"0\r\n" + b"x: y\r\n" * 60_000])
async def test_bytes_between_chunks_are_bounded(frame: bytes) -> None:
    """A body of a few bytes may not cost gigabytes of frames."""
    async with serving() as server, connect(server) as client:
        client.writer.write(PUT + b"transfer-encoding: chunked\r\n\r\n")
        for _ in range(2 * FRAMING_BYTES_MAX // len(frame)):
            client.writer.write(frame)
        assert await client.rest() == b""
    assert server.statistics.bad_requests == 1


async def test_trailers_are_no_larger_than_a_head() -> None:
    async with serving(limits=HttpLimits(head_bytes_max=1000)) as server, connect(server) as client:
        client.writer.write(PUT + b"transfer-encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * 200)
        assert await client.rest() == b""
    assert server.statistics.bad_requests == 1


async def test_one_byte_in_a_chunk_is_no_attack() -> None:
    body = b"1\r\na\r\n" * 300_000
    async with serving() as server, connect(server) as client:
        client.writer.write(PUT + b"transfer-encoding: chunked\r\n\r\n")
        reading = asyncio.ensure_future(client.answer())
        client.writer.write(body + b"0\r\n\r\n")
        assert (await reading).body == b"a" * 300_000


async def test_a_slow_head_is_ended_however_steadily_it_comes() -> None:
    """Each byte in time, and the head never: the time is that of the whole head."""
    async with serving(limits=HttpLimits(head_ms=50)) as server, connect(server) as client:
        answer = asyncio.ensure_future(client.answer())
        while not answer.done():
            client.writer.write(b"\r\n" if server.statistics.requests_read else b"G")
            await asyncio.wait([answer], timeout=0.005)
        assert (await answer).status in (400, 408)
    async with serving(limits=HttpLimits(head_ms=50)) as server, connect(server) as client:
        client.writer.write(b"GET /hello/a HTTP/1.1\r\nx: ")
        answer = asyncio.ensure_future(client.answer())
        while not answer.done():
            client.writer.write(b"a")
            await asyncio.wait([answer], timeout=0.005)
        assert (await answer).status == 408
        assert server.statistics.clients_slow == 1


async def test_the_head_behind_an_answered_request_has_its_time_too() -> None:
    limits = HttpLimits(head_ms=30, keep_alive_ms=60_000)
    async with serving(limits=limits) as server, connect(server) as client:
        client.writer.write(b"GET /hello/a HTTP/1.1\r\n\r\nGET /hello/b HTT")
        assert (await client.answer()).body == b"hello a"
        assert (await client.answer()).status == 408


async def test_a_client_that_still_sends_reads_why_it_was_refused() -> None:
    """Closing at once would reset the connection, and the reset would overtake the answer."""

    async def refuse(_: Request) -> Response:
        return text_response("too large", 413)

    router = Router()
    router.put("/x", refuse)
    async with serving(Site("test", router)) as server, connect(server) as client:
        client.writer.write(b"PUT /x HTTP/1.1\r\ncontent-length: 200000\r\nconnection: close\r\n\r\n" + bytes(100_000))
        answer = await client.answer()
        client.writer.write(bytes(50_000))
        await client.writer.drain()
        client.writer.write(bytes(50_000))
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert await client.reader.read() == b"", "the connection was reset"


@pytest.mark.parametrize(
    ("request_", "kept"),
    [
        (b"GET /hello/a HTTP/1.1\r\n\r\n", True),
        (b"GET /hello/a HTTP/1.1\r\nconnection: close\r\n\r\n", False),
        (b"GET /hello/a HTTP/1.0\r\n\r\n", False),
        (b"GET /hello/a HTTP/1.0\r\nconnection: keep-alive\r\n\r\n", True),
    ],
)
async def test_a_connection_is_kept_as_its_client_says(request_: bytes, *, kept: bool) -> None:
    async with serving() as server, connect(server) as client:
        answer = await client.ask(request_)
        assert answer.body == b"hello a"
        assert (answer.headers.get("connection", "") != "close") is kept
        if kept:
            assert (await client.ask(request_)).body == b"hello a"
        else:
            assert await client.rest() == b""


async def test_an_old_client_gets_no_chunks() -> None:
    async def numbers() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async def handler(_: Request) -> Response:
        return Response(body=numbers())

    router = Router()
    router.get("/x", handler)
    async with serving(Site("test", router)) as server, connect(server) as client:
        client.writer.write(b"GET /x HTTP/1.0\r\n\r\n")
        head, _, body = (await client.rest()).partition(b"\r\n\r\n")
    assert body == b"onetwo"
    assert b"transfer-encoding" not in head


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/hello/a", 200),
        (b"http://elsewhere/hello/a", 200),
        (b"/hello/a?x=1#y", 200),
        (b"*", 404),
        (b"//hello/a", 404),
        (b"hello/a", 400),
        (b"?x", 400),
    ],
)
async def test_every_form_of_a_target(target: bytes, status: int) -> None:
    async with serving() as server, connect(server) as client:
        answer = await client.ask(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % target)
    assert answer.status == status


async def test_a_slow_handler_holds_up_a_fast_sender() -> None:
    """While a handler takes nothing, the server reads little more than the body may hold."""
    entered, go_on = asyncio.Event(), asyncio.Event()
    sizes: list[int] = []

    async def slow(request: Request) -> Response:
        entered.set()
        await go_on.wait()
        sizes.extend([len(chunk) async for chunk in request.body()])
        return Response()

    router = Router()
    router.put("/x", slow)
    server = await HttpServer.start(App([Site("test", router)]))
    async with server, connect(server) as client:
        size = 32 << 20
        client.writer.write(b"PUT /x HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % size)
        await entered.wait()
        sending = asyncio.ensure_future(_send(client.writer, size))
        done, _ = await asyncio.wait([sending], timeout=0.2)
        assert not done, "32 MiB went into a server that takes none of it"
        go_on.set()
        assert (await client.answer()).status == 200
        await sending
    assert sum(sizes) == size


async def _send(writer: asyncio.StreamWriter, size: int) -> None:
    for _ in range(size >> 16):
        writer.write(bytes(1 << 16))
        await writer.drain()


async def test_answers_wait_for_their_reader() -> None:
    """Many small answers to a client that reads none are not piled up in memory: the next request waits."""
    answer = bytes(60_000)
    served = 0

    async def handler(_: Request) -> Response:
        nonlocal served
        served += 1
        return Response(body=answer)

    router = Router()
    router.get("/x", handler)
    server = await HttpServer.start(App([Site("test", router)], HttpLimits(pipelined_max=1000, write_stall_ms=100)))
    async with server, connect(server) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(b"GET /x HTTP/1.1\r\n\r\n" * 900)
        while not server.statistics.clients_slow:
            await asyncio.wait([asyncio.ensure_future(client.writer.drain())])
    assert served < 900
