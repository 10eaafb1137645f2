"""A switchboard: one server for the roles of a process, which come, fail and come again.

The server offers the methods of all roles from its start. A method whose role is not connected is `Unavailable`, and
says why. When a role leaves, the connections end in order, so that no stream outlives its role.
"""

from collections.abc import Mapping
from typing import Any

from penstock.kernel.errors import Unavailable
from penstock.plumbing.wire.message import WireCall, WireMessage
from penstock.plumbing.wire.server import Server
from penstock.plumbing.wire.server_stream import ServerStream
from penstock.plumbing.wire.service import Method, MethodKind, Service
from penstock.plumbing.wire.stream import Receiver

__all__ = ["Switchboard"]


class Switchboard:
    """The methods of several roles, each connected to its handler while the role runs."""

    def __init__(self, roles: Mapping[str, Service]) -> None:
        self.service = Service()
        self.server: Server | None = None
        self._handlers: dict[str, Any] = {}
        self._reasons: dict[str, str] = {}  # by role
        self._roles = {method.name: role for role, service in roles.items() for method in service.methods}
        for service in roles.values():
            self.service.include(self._switched(service))

    def connect(self, service: Service) -> None:
        """Have a role answer its methods from now on."""
        for method in service.methods:
            assert method.name in self._roles, f"no role of this process has {method.name}"
            self._handlers[method.name] = method.handler

    async def disconnect(self, service: Service, reason: str = "it has ended") -> None:
        """Let a role answer no more. Connections end when their requests have ended."""
        for method in service.methods:
            self._handlers.pop(method.name, None)
            self._reasons[self._roles[method.name]] = reason
        if self.server is not None:
            self.server.renew_connections()

    def _switched(self, service: Service) -> Service:
        switched = Service()
        for method in service.methods:
            switched.add(Method(method.name, method.kind, self._proxy(method.name, method.kind)))
        return switched

    def _proxy(self, name: str, kind: MethodKind) -> Any:
        handlers = self._handlers

        async def unary(call: WireCall) -> WireMessage | bytes:
            answer: WireMessage | bytes = await (handlers.get(name) or self._absent(name))(call)
            return answer

        def inline(call: WireCall) -> WireMessage | bytes:
            answer: WireMessage | bytes = (handlers.get(name) or self._absent(name))(call)
            return answer

        async def stream(opened: ServerStream) -> None:
            await (handlers.get(name) or self._absent(name))(opened)

        def pipelined(opened: ServerStream) -> Receiver:
            receiver: Receiver = (handlers.get(name) or self._absent(name))(opened)
            return receiver

        return {
            MethodKind.UNARY: unary,
            MethodKind.INLINE: inline,
            MethodKind.STREAM: stream,
            MethodKind.PIPELINED: pipelined,
        }[kind]

    def _absent(self, name: str) -> Any:
        role = self._roles[name]
        reason = self._reasons.get(role, "it has not started yet")
        raise Unavailable(f"the {role} of this process does not run: {reason}", next_step="penstock status", role=role)
