import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
from structlog.testing import capture_logs
from tests.plumbing.http.harness import connect, echo_site, serving

from penstock.kernel.errors import NotFound, ObjectStoreFailed
from penstock.plumbing.http.app import App, Site
from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response, json_response, text_response
from penstock.plumbing.http.router import Router
from penstock.plumbing.http.server import HttpServer

GET = b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n"
PUT = b"PUT %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"


def site(handler: object, method: str = "GET", answer_ms: int | None = None) -> Site:
    router = Router()
    router.add(method, "/x", handler, answer_ms=answer_ms)  # type: ignore[arg-type]
    router.add("HEAD", "/x", handler, answer_ms=answer_ms)  # type: ignore[arg-type]
    return Site("test", router)


async def test_a_request_is_answered_and_the_connection_kept() -> None:
    async with serving() as server, connect(server) as client:
        first = await client.ask(GET % b"/hello/w%C3%B6rld")
        second = await client.ask(PUT % (b"/echo", 3) + b"abc")
    assert (first.status, first.body) == (200, "hello wörld".encode())
    assert second.body == b"abc"
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert {"date", "content-length"} <= set(first.headers)


async def test_head_has_the_headers_and_no_body() -> None:
    async with serving() as server, connect(server) as client:
        answer = await client.ask(b"HEAD /hello/you HTTP/1.1\r\n\r\n", head_only=True)
        assert (answer.status, answer.headers["content-length"]) == (200, "9")
        assert (await client.ask(GET % b"/hello/me")).body == b"hello me"


async def test_errors_are_rendered_with_their_next_step() -> None:
    async def handler(_: Request) -> Response:
        raise NotFound("no such branch", next_step="penstock lake branch ls")

    async with serving(site(handler)) as server, connect(server) as client:
        answer = await client.ask(GET % b"/x")
        wrong_method = await client.ask(b"PATCH /x HTTP/1.1\r\n\r\n")
        nowhere = await client.ask(GET % b"/y")
    assert (answer.status, nowhere.status) == (404, 404)
    assert msgspec.json.decode(answer.body) == {
        "error": "not-found",
        "message": "no such branch",
        "written": "no",
        "retryable": False,
        "request_id": answer.headers["x-request-id"],
        "next_step": "penstock lake branch ls",
    }
    assert (wrong_method.status, wrong_method.headers["allow"]) == (405, "GET, HEAD")


async def test_a_defect_is_logged_with_its_trace_and_not_shown() -> None:
    async def handler(_: Request) -> Response:
        raise RuntimeError("the secret is hunter2")

    with capture_logs() as logs:
        async with serving(site(handler)) as server, connect(server) as client:
            answer = await client.ask(GET % b"/x?signature=s3cret")
    assert answer.status == 500
    assert b"hunter2" not in answer.body
    assert any(one["event"] == "request ended by a defect" and "hunter2" in str(one["exc_info"]) for one in logs)
    (access,) = [one for one in logs if one["event"] == "http request"]
    assert (access["status"], access["error"], access["path"]) == (500, "internal", "/x")
    assert "s3cret" not in str(access)


async def test_sites_share_a_port() -> None:
    async def special(_: Request) -> Response:
        return text_response("special")

    claimed = Site("special", site(special).routes, claims=lambda request: "x-special" in request.headers)
    server = await HttpServer.start(App([claimed, echo_site()]))
    async with server, connect(server) as client:
        assert (await client.ask(GET % b"/hello/a")).body == b"hello a"
        assert (await client.ask(b"GET /x HTTP/1.1\r\nx-special: 1\r\n\r\n")).body == b"special"


async def test_a_handler_which_takes_too_long_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def handler(_: Request) -> Response:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Response()

    async with serving(site(handler, answer_ms=5)) as server, connect(server) as client:
        answer = await client.ask(GET % b"/x")
    assert (answer.status, msgspec.json.decode(answer.body)["written"]) == (504, "unknown")
    assert cancelled.is_set()


async def test_more_requests_than_the_limit_are_refused() -> None:
    limits = HttpLimits(requests_max=1)
    async with _Blocked(limits) as (server, gate), connect(server) as one, connect(server) as two:
        one.writer.write(GET % b"/x")
        await gate.entered.wait()
        refused = await two.ask(GET % b"/x")
        gate.set()
        assert (await one.answer()).status == 200
        assert (await two.ask(GET % b"/x")).status == 200
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")


async def test_a_read_nobody_waits_for_is_cancelled() -> None:
    async with _Blocked(HttpLimits()) as (server, gate):
        async with connect(server) as client:
            client.writer.write(GET % b"/x")
            await gate.entered.wait()
        await gate.cancelled.wait()
    assert server.statistics.clients_gone == 1


async def test_a_stream_is_sent_and_closed() -> None:
    closed = asyncio.Event()

    async def numbers() -> AsyncIterator[bytes]:
        try:
            for number in range(3):
                yield b"%d," % number
        finally:
            closed.set()

    async def handler(request: Request) -> Response:
        return Response(body=numbers(), length=6 if request.has_query("length") else None)

    async with serving(site(handler)) as server, connect(server) as client:
        chunked = await client.ask(GET % b"/x")
        assert (chunked.body, chunked.headers["transfer-encoding"]) == (b"0,1,2,", "chunked")
        sized = await client.ask(GET % b"/x?length=1")
        assert (sized.body, sized.headers["content-length"]) == (b"0,1,2,", "6")
        closed.clear()
        head = await client.ask(b"HEAD /x?length=1 HTTP/1.1\r\n\r\n", head_only=True)
        assert head.headers["content-length"] == "6"
        assert (await client.ask(GET % b"/x")).status == 200
    assert closed.is_set()


@pytest.mark.parametrize("length", [3, 100])
async def test_an_answer_which_cannot_be_finished_breaks_the_connection(length: int) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"ab"
        yield b"cd"
        raise ObjectStoreFailed("the disk is gone")

    async def handler(_: Request) -> Response:
        return Response(body=failing(), length=length)

    with capture_logs() as logs:
        async with serving(site(handler)) as server, connect(server) as client:
            client.writer.write(GET % b"/x")
            assert len((await client.rest()).partition(b"\r\n\r\n")[2]) < length
    (access,) = [one for one in logs if one["event"] == "http request"]
    assert (access["log_level"], "the answer was cut" in access["reason"]) == ("warning", True)


async def test_a_client_which_goes_away_ends_the_stream() -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield bytes(1 << 16)
        finally:
            closed.set()

    async def handler(_: Request) -> Response:
        return Response(body=endless())

    async with serving(site(handler)) as server:
        async with connect(server) as client:
            client.writer.write(GET % b"/x")
            await client.reader.readexactly(1 << 20)
        await closed.wait()


async def test_a_body_nobody_read_does_not_end_up_in_the_next_request() -> None:
    async def handler(_: Request) -> Response:
        return json_response({"no": "thanks"}, 403)

    async with serving(site(handler, "PUT")) as server:
        async with connect(server) as client:
            first = await client.ask(PUT % (b"/x", 5) + b"GET /")
            second = await client.ask(PUT % (b"/x", 0))
        async with connect(server) as waiting:
            refused = await waiting.ask(b"PUT /x HTTP/1.1\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n")
            assert refused.headers["connection"] == "close"
            assert await waiting.rest() == b""
    assert (first.status, second.status, refused.status) == (403, 403, 403)


async def test_a_client_may_wait_before_it_sends_its_body() -> None:
    async with serving() as server, connect(server) as client:
        head = b"PUT /echo HTTP/1.1\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n"
        assert (await client.ask(head, head_only=True)).status == 100
        assert (await client.ask(b"ok")).body == b"ok"


async def test_a_header_cannot_be_injected() -> None:
    async def handler(_: Request) -> Response:
        return Response(headers={"x-name": "a\r\nset-cookie: b\x00€"})

    async with serving(site(handler)) as server, connect(server) as client:
        answer = await client.ask(GET % b"/x")
    assert answer.headers["x-name"] == "aset-cookie: b?"
    assert "set-cookie" not in answer.headers


class _Gate(asyncio.Event):
    def __init__(self) -> None:
        super().__init__()
        self.entered = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def handler(self, _: Request) -> Response:
        self.entered.set()
        try:
            await self.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return Response()


class _Blocked:
    """A server whose one handler waits at a gate."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits

    async def __aenter__(self) -> tuple[HttpServer, _Gate]:
        gate = _Gate()
        self._server = await HttpServer.start(App([site(gate.handler)], self._limits))
        return self._server, gate

    async def __aexit__(self, *_: object) -> None:
        await self._server.close(drain_s=0)
