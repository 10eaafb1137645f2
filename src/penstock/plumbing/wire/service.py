"""Service: the methods a server offers, by name, and what runs for each.

unary      `async def (call) -> WireMessage | bytes`: runs in a task, which a cancelled request cancels
inline     `def (call) -> WireMessage | bytes`: runs at once, between two reads: for answers which need no waiting
stream     `async def (stream) -> None`: runs in a task; when it returns, the stream has ended
pipelined  `def (stream) -> Receiver`: no task; the receiver is called with batches of messages
"""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, TypeAlias, TypeVar

import msgspec

from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.wire.message import WireCall, WireMessage
from penstock.plumbing.wire.server_stream import ServerStream
from penstock.plumbing.wire.stream import Receiver

__all__ = ["Method", "MethodKind", "Service"]

UnaryHandler: TypeAlias = Callable[[WireCall], Awaitable[WireMessage | bytes]]
InlineHandler: TypeAlias = Callable[[WireCall], WireMessage | bytes]
StreamHandler: TypeAlias = Callable[[ServerStream], Awaitable[None]]
PipelinedHandler: TypeAlias = Callable[[ServerStream], Receiver]

Unary = TypeVar("Unary", bound=UnaryHandler)
Inline = TypeVar("Inline", bound=InlineHandler)
Streaming = TypeVar("Streaming", bound=StreamHandler)
Pipelined = TypeVar("Pipelined", bound=PipelinedHandler)

METHOD_CHARACTERS_MAX = 64


class MethodKind(Enum):
    """How a handler runs."""

    UNARY = "unary"
    INLINE = "inline"
    STREAM = "stream"
    PIPELINED = "pipelined"


class Method(msgspec.Struct, frozen=True):
    """One method of a service."""

    name: str
    kind: MethodKind
    handler: Any


class Service:
    """Methods under names. A handler is registered by decorating it.

    >>> service = Service()
    >>> @service.unary("echo")
    ... async def echo(call: Call) -> bytes:
    ...     return call.body
    >>> [method.name for method in service.methods]
    ['echo']
    """

    def __init__(self) -> None:
        self._methods: dict[str, Method] = {}

    @property
    def methods(self) -> list[Method]:
        return list(self._methods.values())

    def unary(self, name: str) -> Callable[[Unary], Unary]:
        return self._adder(name, MethodKind.UNARY)

    def inline(self, name: str) -> Callable[[Inline], Inline]:
        return self._adder(name, MethodKind.INLINE)

    def stream(self, name: str) -> Callable[[Streaming], Streaming]:
        return self._adder(name, MethodKind.STREAM)

    def pipelined(self, name: str) -> Callable[[Pipelined], Pipelined]:
        return self._adder(name, MethodKind.PIPELINED)

    def include(self, other: "Service") -> None:
        """Offer the other service's methods as well."""
        for method in other.methods:
            self.add(method)

    def _adder(self, name: str, kind: MethodKind) -> Callable[[Any], Any]:
        def add(handler: Any) -> Any:
            self.add(Method(name, kind, handler))
            return handler

        return add

    def add(self, method: Method) -> None:
        """Offer one method."""
        if method.name in self._methods:
            raise InvalidArgument(f"method {method.name} exists already")
        if not 0 < len(method.name) <= METHOD_CHARACTERS_MAX:
            raise InvalidArgument(f"a method's name has 1 to {METHOD_CHARACTERS_MAX} characters")
        self._methods[method.name] = method
