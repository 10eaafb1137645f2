import asyncio
import signal
import ssl
from pathlib import Path

import pytest
import uvloop
from tests.plumbing.http.harness import Client, connect, echo_site, serving
from tests.plumbing.wire.test_tls import Authority

from penstock.kernel.errors import ConfigError
from penstock.plumbing.http.app import App, Site
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response, text_response
from penstock.plumbing.http.router import Router
from penstock.plumbing.http.server import HttpServer
from penstock.plumbing.wire.tls import Tls

GET = b"GET /hello/you HTTP/1.1\r\n\r\n"


async def test_it_takes_a_free_port_and_says_which() -> None:
    async with serving() as server:
        host, port = server.address
        assert server.url == f"http://{host}:{port}"
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            await HttpServer.start(App([echo_site()]), host, port)


async def test_it_leaves_signals_alone() -> None:
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    async with serving():
        assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before


async def test_it_drains_what_is_in_flight_and_closes_what_is_idle() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    async def handler(_: Request) -> Response:
        entered.set()
        await release.wait()
        return text_response("done")

    router = Router()
    router.get("/x", handler)
    server = await HttpServer.start(App([Site("test", router)]))
    async with connect(server) as busy, connect(server) as idle:
        busy.writer.write(b"GET /x HTTP/1.1\r\n\r\n")
        await entered.wait()
        closing = asyncio.ensure_future(server.close(drain_s=60))
        assert await idle.rest() == b""
        release.set()
        answer = await busy.answer()
        assert (answer.body, answer.headers["connection"]) == (b"done", "close")
        await closing
    assert server.statistics.connections_now == 0


async def test_what_does_not_end_in_time_is_cancelled() -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def handler(_: Request) -> Response:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Response()

    router = Router()
    router.put("/x", handler)
    server = await HttpServer.start(App([Site("test", router)]))
    async with connect(server) as client:
        client.writer.write(b"PUT /x HTTP/1.1\r\n\r\n")
        await entered.wait()
        await server.close(drain_s=0)
        assert await client.rest() == b""
    assert cancelled.is_set()


async def test_it_speaks_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    server = await HttpServer.start(App([echo_site()]), tls=Tls(**authority.sign("server")))
    context = ssl.create_default_context(cafile=str(authority.certificate))
    async with server:
        assert server.url.startswith("https://")
        reader, writer = await asyncio.open_connection(*server.address, ssl=context)
        answer = await Client(reader, writer).ask(GET)
        writer.close()
    assert answer.body == b"hello you"


def test_it_runs_on_uvloop() -> None:
    async def main() -> bytes:
        async with serving() as server, connect(server) as client:
            return (await client.ask(GET)).body

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == b"hello you"
