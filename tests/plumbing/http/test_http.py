"""The small HTTP client against a small server: bodies of every form, connections used again, and broken ones."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from penstock.kernel.errors import ConnectFailed, ConnectionLost, InvalidArgument, Written
from penstock.plumbing.http.client import HttpClient

ANSWERS = {
    "/length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "/chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
    "/none": b"HTTP/1.1 204 No Content\r\n\r\n",
    "/short": b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
    "/nonsense": b"what?\r\n\r\n",
    "/close": b"",
}


class Server:
    """Answers by path, and remembers what it was asked."""

    def __init__(self) -> None:
        self.connections = 0
        self.bodies: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                path = head.split(" ")[1]
                if "transfer-encoding" in head:
                    self.bodies.append(await reader.readuntil(b"0\r\n\r\n"))
                elif "content-length" in head:
                    length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
                    self.bodies.append(await reader.readexactly(length))
                writer.write(ANSWERS[path])
                await writer.drain()
                if path in ("/close", "/short"):
                    return
        except (OSError, EOFError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def served() -> AsyncIterator[tuple[Server, HttpClient]]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with HttpClient(f"http://127.0.0.1:{port}") as http:
        yield server, http
    listening.close()


async def ask(http: HttpClient, path: str, method: str = "GET") -> bytes:
    async with http.request(method, path) as answer:
        return await answer.read()


async def test_bodies_of_every_form_on_one_connection(served: tuple[Server, HttpClient]) -> None:
    server, http = served
    assert [await ask(http, path) for path in ("/length", "/chunked", "/none", "/length")] == [
        b"hello",
        b"hello",
        b"",
        b"hello",
    ]
    assert server.connections == 1

    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        yield b""
        yield b"two"

    async with http.request("POST", "/none", body=chunks()):
        pass
    async with http.request("POST", "/none", body=b"whole"):
        pass
    assert server.bodies == [b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", b"whole"]
    assert server.connections == 1


async def test_an_answer_which_is_left_unread_costs_its_connection(served: tuple[Server, HttpClient]) -> None:
    server, http = served
    async with http.request("GET", "/length"):
        pass
    assert await ask(http, "/length") == b"hello"
    assert server.connections == 2


async def test_what_breaks_off_is_an_error_and_says_what_was_written(served: tuple[Server, HttpClient]) -> None:
    _, http = served
    for path, method, written in (
        ("/short", "GET", Written.NO),
        ("/nonsense", "GET", Written.NO),
        ("/close", "GET", Written.NO),
        ("/close", "POST", Written.UNKNOWN),
    ):
        with pytest.raises(ConnectionLost) as lost:
            await ask(http, path, method)
        assert lost.value.written is written


async def test_nobody_there_and_nonsense_to_send() -> None:
    async with HttpClient("http://127.0.0.1:1") as http:
        with pytest.raises(ConnectFailed):
            await ask(http, "/")
        with pytest.raises(InvalidArgument):
            await ask(http, "/\r\nx: y")
    with pytest.raises(InvalidArgument):
        HttpClient("ftp://here")


async def test_a_server_that_lost_its_power_is_given_up(served: tuple[Server, HttpClient]) -> None:
    """The kernel asks a silent peer, so a request to a machine that is gone ends. It waited for ever."""
    _, http = served
    assert await ask(http, "/length") == b"hello"
    (own,) = (connection.writer.get_extra_info("socket") for connection in http._idle)
    kept = {
        name: own.getsockopt(level, getattr(socket, name))
        for level, name in (
            (socket.SOL_SOCKET, "SO_KEEPALIVE"),
            (socket.IPPROTO_TCP, "TCP_KEEPIDLE"),
            (socket.IPPROTO_TCP, "TCP_KEEPINTVL"),
            (socket.IPPROTO_TCP, "TCP_KEEPCNT"),
            (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT"),
        )
    }
    assert kept == {
        "SO_KEEPALIVE": 1, "TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 25_000,
    }  # fmt: skip
