"""The sides of the wire benchmark: our wire, grpcio.aio and a bare socket. Each function is the main of a process.

Every side echoes requests of 100 bytes (handlers are coroutines), echoes messages on a stream, and swallows chunks of
64 KiB. All get the same: one connection on loopback, uvloop where there is a loop, bytes without serializers, and their
default settings.
"""

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any, Final

import structlog
import uvloop

from penstock.kernel.errors import PenstockError
from penstock.plumbing.wire import Channel, Server, ServerStream, Service, WireCall, WireMessage
from penstock_lab.bench.wire_driver import Figure, Order, WireWork, answer

__all__ = [
    "BODY_BYTES",
    "CHUNK_BYTES",
    "grpc_client",
    "grpc_missing",
    "grpc_server",
    "penstock_client",
    "penstock_server",
    "socket_client",
    "socket_server",
]

BODY_BYTES: Final = 100
CHUNK_BYTES: Final = 64 * 1024
_BODY: Final = b"x" * BODY_BYTES
_CHUNK: Final = b"y" * CHUNK_BYTES


def _run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet, logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    uvloop.run(main())


# Our wire.


class _Echo:
    """Sends back every message."""

    def __init__(self, stream: ServerStream) -> None:
        self._stream = stream

    def on_messages(self, messages: list[WireMessage]) -> None:
        for message in messages:
            self._stream.send_nowait(message.body)

    def on_end(self) -> None:
        self._stream.end()

    def on_writable(self) -> None:
        pass

    def on_closed(self, error: PenstockError | None) -> None:
        pass


def penstock_server(pipe: Connection) -> None:
    service = Service()
    service.pipelined("messages")(_Echo)

    @service.unary("echo")
    async def echo(call: WireCall) -> bytes:
        return call.body

    @service.stream("sink")
    async def sink(stream: ServerStream) -> None:
        count = 0
        async for message in stream:
            count += len(message.bulk)
        await stream.send(str(count).encode())

    async def main() -> None:
        async with await Server.start(service) as server:
            pipe.send(server.address)
            await asyncio.Event().wait()

    _run(main)


def penstock_client(pipe: Connection) -> None:
    address: str = pipe.recv()

    async def main() -> None:
        async with Channel(address) as channel:

            async def messages(order: Order) -> int:
                count, end = 0, time.perf_counter() + order.seconds
                async with channel.stream("messages") as stream:
                    for _ in range(order.in_flight):
                        stream.send_nowait(_BODY)
                    while batch := await stream.receive_batch():
                        count += len(batch)
                        if time.perf_counter() > end:
                            break
                        for message in batch:
                            stream.send_nowait(message.body)
                return count

            async def bulk(order: Order) -> int:
                count, end = 0, time.perf_counter() + order.seconds
                async with channel.stream("sink") as stream:
                    while count == 0 or time.perf_counter() < end:
                        await stream.send(bulk=_CHUNK)
                        count += CHUNK_BYTES
                    last = await stream.finish()
                assert last is not None
                assert int(last.body) == count
                return count

            await answer(pipe, WireWork(lambda: channel.call("echo", _BODY), PenstockError, messages, bulk))

    _run(main)


# grpcio.aio, with generic handlers: no protobuf, bytes in and bytes out.


def grpc_missing() -> str | None:
    """Why there is no grpcio to compare with, if there is none."""
    return None if find_spec("grpc") is not None else "grpcio is not installed: pip install 'penstock-lab'"


def grpc_server(pipe: Connection) -> None:
    import grpc
    import grpc.aio

    async def echo(request: bytes, context: object) -> bytes:
        return request

    async def messages(requests: Any, context: Any) -> None:
        async for request in requests:
            await context.write(request)

    async def sink(requests: Any, context: object) -> bytes:
        count = 0
        async for chunk in requests:
            count += len(chunk)
        return str(count).encode()

    async def main() -> None:
        handlers = {
            "echo": grpc.unary_unary_rpc_method_handler(echo),
            "messages": grpc.stream_stream_rpc_method_handler(messages),
            "sink": grpc.stream_unary_rpc_method_handler(sink),
        }
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        pipe.send(f"127.0.0.1:{port}")
        await server.wait_for_termination()

    _run(main)


def grpc_client(pipe: Connection) -> None:
    import grpc.aio

    address: str = pipe.recv()

    async def main() -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            echo = channel.unary_unary("/bench/echo")

            async def messages(order: Order) -> int:
                count, end = 0, time.perf_counter() + order.seconds
                call = channel.stream_stream("/bench/messages")()

                async def send_first() -> None:
                    for _ in range(order.in_flight):
                        await call.write(_BODY)

                first = asyncio.create_task(send_first())  # while we read: gRPC, too, has flow control
                while count == 0 or time.perf_counter() < end:
                    message = await call.read()
                    count += 1
                    await first
                    await call.write(message)
                call.cancel()
                return count

            async def bulk(order: Order) -> int:
                count, end = 0, time.perf_counter() + order.seconds
                call = channel.stream_unary("/bench/sink")()
                while count == 0 or time.perf_counter() < end:
                    await call.write(_CHUNK)
                    count += CHUNK_BYTES
                await call.done_writing()
                assert int(await call) == count
                return count

            await answer(pipe, WireWork(lambda: echo(_BODY), grpc.aio.AioRpcError, messages, bulk))

    _run(main)


# A bare blocking socket: what the machine gives for chunks of this size. It answers orders of bulk only.


def socket_server(pipe: Connection) -> None:
    buffer = bytearray(CHUNK_BYTES)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pipe.send(listener.getsockname())
        while True:
            peer, _ = listener.accept()
            with peer:
                count = 0
                while received := peer.recv_into(buffer):
                    count += received
                peer.sendall(count.to_bytes(8, "big"))


def socket_client(pipe: Connection) -> None:
    address: tuple[str, int] = pipe.recv()
    while True:
        try:
            order = pipe.recv()
        except EOFError:
            return
        with socket.create_connection(address) as server:
            count, begin = 0, time.perf_counter()
            while count == 0 or time.perf_counter() - begin < order.seconds:
                server.sendall(_CHUNK)
                count += CHUNK_BYTES
            server.shutdown(socket.SHUT_WR)
            assert int.from_bytes(server.recv(8), "big") == count
            pipe.send(Figure(count / (time.perf_counter() - begin) / 1e6))
