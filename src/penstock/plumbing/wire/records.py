"""Typed methods: unary requests whose bodies are records, on top of `Channel.call` and `Service.unary`.

APPEND = RecordMethod("append", Codec[Append](Append), Codec[Appended | Refused](Appended | Refused))

@APPEND.serve(service)
async def append(request: Append, call: Call) -> Appended | Refused: ...

reply = await APPEND.call(channel, Append(...))
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeAlias, TypeVar

from penstock.kernel.codec import Codec
from penstock.plumbing.wire.client import Channel
from penstock.plumbing.wire.message import WireCall
from penstock.plumbing.wire.service import Service

__all__ = ["RecordMethod"]

Request = TypeVar("Request")
Reply = TypeVar("Reply")
Handler: TypeAlias = Callable[[Request, WireCall], Awaitable[Reply]]


class RecordMethod(Generic[Request, Reply]):
    """A method which takes one kind of record and answers with another. Both sides share one of these."""

    def __init__(self, name: str, request: Codec[Request], reply: Codec[Reply]) -> None:
        self.name = name
        self._request = request
        self._reply = reply

    async def call(self, channel: Channel, request: Request, *, deadline_s: float | None = None) -> Reply:
        message = await channel.call(self.name, self._request.encode(request), deadline_s=deadline_s)
        return self._reply.decode(message.body)

    def serve(self, service: Service) -> Callable[[Handler[Request, Reply]], Handler[Request, Reply]]:
        """Offer this method on a service; a body which is no such record is answered with `MalformedFrame`."""

        def add(handler: Handler[Request, Reply]) -> Handler[Request, Reply]:
            @service.unary(self.name)
            async def serve_one(call: WireCall) -> bytes:
                return self._reply.encode(await handler(self._request.decode(call.body), call))

            return handler

        return add
