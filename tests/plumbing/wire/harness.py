"""What the tests of the wire share: servers, channels, and raw peers which may say anything."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

import msgspec

from penstock.kernel.errors import PenstockError, error_from_record
from penstock.plumbing.wire import Channel, Server, ServerStream, Service, WireCall, WireLimits, WireMessage
from penstock.plumbing.wire.message import ERROR_CODEC
from penstock.plumbing.wire.protocol.frames import Frame, FrameKind, FrameParser, encode_frame
from penstock.plumbing.wire.protocol.hello import HELLO_CODEC, WELCOME_CODEC, Welcome, WireHello

WAIT_SECONDS = 30.0  # a test which waits longer has failed


class Handlers:
    """A service with one method of each kind, and events which say what its handlers see."""

    def __init__(self) -> None:
        self.service = Service()
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.release = asyncio.Event()
        self.running = 0
        self.streams: list[ServerStream] = []
        self.service.unary("echo")(self._echo)
        self.service.inline("inline")(self._inline)
        self.service.unary("wait")(self._wait)
        self.service.unary("stubborn")(self._stubborn)
        self.service.stream("mirror")(self._mirror)
        self.service.stream("pour")(self._pour)
        self.service.stream("swallow")(self._swallow)

    async def _echo(self, call: WireCall) -> WireMessage:
        return WireMessage(call.body, call.bulk)

    def _inline(self, call: WireCall) -> WireMessage:
        """Answers with as many bytes of bulk as the body says."""
        return WireMessage(call.body, bytes(int(call.body or b"0")))

    async def _wait(self, call: WireCall) -> bytes:
        self.running += 1
        self.started.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            self.running -= 1
        return b"released"

    async def _stubborn(self, call: WireCall) -> bytes:
        """Does not end when it is cancelled, but when it is released."""
        try:
            await self.release.wait()
        finally:
            await self.release.wait()
        return b""

    async def _mirror(self, stream: ServerStream) -> None:
        """Sends back every message."""
        self.streams.append(stream)
        self.started.set()
        try:
            async for message in stream:
                await stream.send(message.body, message.bulk)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def _pour(self, stream: ServerStream) -> None:
        """Sends numbered messages, as many as the body says; `started` is set when it has to wait."""
        self.streams.append(stream)
        for number in range(int(stream.body)):
            if not stream.can_send(1000):
                self.started.set()
            await stream.send(str(number).encode(), bytes(1000 - len(str(number))))

    async def _swallow(self, stream: ServerStream) -> None:
        """Reads nothing until released, then everything; answers with the number of messages."""
        self.streams.append(stream)
        self.started.set()
        await self.release.wait()
        count = 0
        async for _ in stream:
            count += 1
        await stream.send(str(count).encode())


class RawPeer:
    """A connection on which anything can be said. `frame` reads what comes back."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._parser = FrameParser(16 << 20)
        self._frames: list[Frame] = []

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()

    async def hello(self, token: str = "", **changes: Any) -> Welcome:
        hello = msgspec.structs.replace(WireHello.of(WireLimits(), token), **changes)
        await self.send(encode_frame(FrameKind.HELLO, body=HELLO_CODEC.encode(hello)))
        frame = await self.frame()
        assert frame[0] == FrameKind.WELCOME, frame
        return WELCOME_CODEC.decode(frame[4])

    async def frame(self) -> Frame:
        """The next frame; EOFError when there is none any more."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not self._frames:
                try:
                    data = await self._reader.read(65536)
                except ConnectionError:
                    data = b""
                if not data:
                    raise EOFError
                self._feed(data)
        return self._frames.pop(0)

    def _feed(self, data: bytes) -> None:
        while data:
            space = self._parser.space()
            count = min(len(space), len(data))
            space[:count] = data[:count]
            data = data[count:]
            self._frames += self._parser.received(count)
        assert self._parser.failure is None, self._parser.failure

    async def until_closed(self) -> PenstockError | None:
        """Wait for the other side to close; what its CLOSE frame said, if there was one."""
        error = None
        with contextlib.suppress(EOFError):
            while True:
                kind, _, _, _, body, _ = await self.frame()
                if kind == FrameKind.CLOSE:
                    error = error_from_record(ERROR_CODEC.decode(body))
        return error


class Stage:
    """Starts what a test needs, and closes it all."""

    def __init__(self) -> None:
        self.handlers = Handlers()
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> "Stage":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.handlers.release.set()
        await self._stack.aclose()

    async def server(self, service: Service | None = None, **options: Any) -> Server:
        server = await Server.start(service or self.handlers.service, **options)
        self._stack.push_async_callback(server.close, 0.0)
        return server

    async def channel(self, address: str, **options: Any) -> Channel:
        return await self._stack.enter_async_context(Channel(address, **options))

    async def both(self, **limits: int) -> tuple[Server, Channel]:
        """A server and a channel which is connected to it, with the same limits."""
        server = await self.server(limits=WireLimits(**limits))
        channel = await self.channel(server.address, limits=WireLimits(**limits))
        await channel.connect()
        return server, channel

    async def raw(self, address: str, receive_bytes: int | None = None) -> RawPeer:
        """A raw peer of a server. `receive_bytes`: how much its system takes in before it reads."""
        host, port = address.rsplit(":", 1)
        connected = socket.socket()
        if receive_bytes is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, (host, int(port)))
        peer = RawPeer(*await asyncio.open_connection(sock=connected))
        self._stack.callback(peer.writer.close)
        return peer

    async def raw_server(self, serve: Callable[[RawPeer], Awaitable[None]]) -> str:
        """A server of which each connection is served by `serve`; its address."""
        tasks: set[asyncio.Task[None]] = set()

        async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            with contextlib.suppress(EOFError, ConnectionError, asyncio.CancelledError):
                await serve(RawPeer(reader, writer))
            writer.close()

        async def close() -> None:
            listener.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        listener = await asyncio.start_server(on_connection, "127.0.0.1", 0)
        self._stack.push_async_callback(close)
        host, port = listener.sockets[0].getsockname()[:2]
        return f"{host}:{port}"


def welcome_frame(methods: list[str], **changes: Any) -> bytes:
    """What a server says first."""
    welcome = msgspec.structs.replace(Welcome.of(WireLimits(), 1, methods), **changes)
    return encode_frame(FrameKind.WELCOME, body=WELCOME_CODEC.encode(welcome))


async def soon(event: asyncio.Event) -> None:
    """Wait for an event, but not for ever."""
    async with asyncio.timeout(WAIT_SECONDS):
        await event.wait()


async def until(claim: Callable[[], bool]) -> None:
    """Let the loop run until the claim holds, but not for ever."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not claim():  # noqa: ASYNC110  what is claimed is a count inside the part under test, not an event
            await asyncio.sleep(0.001)
