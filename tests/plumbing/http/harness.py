"""A raw HTTP client for tests: it sends exactly these bytes, and reads one answer, or until the server closes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from penstock.plumbing.http.app import App, Site
from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response, text_response
from penstock.plumbing.http.router import Router
from penstock.plumbing.http.server import HttpServer


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, request: bytes, *, head_only: bool = False) -> Answer:
        self.writer.write(request)
        return await self.answer(head_only=head_only)

    async def answer(self, *, head_only: bool = False) -> Answer:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = head[:-4].split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
        status = int(line.split(" ")[1])
        return Answer(status, headers, b"" if head_only else await self._body(headers))

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readexactly(2)
            return body
        return await self.reader.readexactly(int(headers.get("content-length", "0")))

    async def rest(self) -> bytes:
        """What still comes before the server closes; nothing, if it broke the connection."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


@asynccontextmanager
async def connect(server: HttpServer) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(*server.address)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


def echo_site() -> Site:
    """Answers with what it was asked."""
    router = Router()

    async def hello(request: Request) -> Response:
        return text_response(f"hello {request.parameters['name']}")

    async def echo(request: Request) -> Response:
        return Response(body=b"".join([chunk async for chunk in request.body()]))

    router.get("/hello/{name}", hello)
    router.put("/echo", echo)
    return Site("echo", router)


@asynccontextmanager
async def serving(site: Site | None = None, limits: HttpLimits | None = None) -> AsyncIterator[HttpServer]:
    server = await HttpServer.start(App([site or echo_site()], limits))
    try:
        yield server
    finally:
        await server.close(drain_s=0)
        assert (server.statistics.connections_now, server.statistics.requests_now) == (0, 0), "something was left open"
