"""How a role listens: on a server of its own, or on the one that all roles of its process share."""

from contextlib import AsyncExitStack

from penstock.plumbing.wire.server import Server
from penstock.plumbing.wire.service import Service
from penstock.plumbing.wiring.wiring import Wiring

__all__ = ["listening"]

DRAIN_S = 0.5


async def listening(stack: AsyncExitStack, service: Service, wiring: Wiring) -> Server:
    """Return the server that answers for a role from now on; the stack ends that, in order."""
    board = wiring.board
    if board is not None:
        assert board.server is not None, "the shared server starts first"
        board.connect(service)
        stack.push_async_callback(board.disconnect, service)
        return board.server
    server = await Server.start(
        service, wiring.host, wiring.port, limits=wiring.limits, token=wiring.token, tls=wiring.server_tls
    )
    stack.push_async_callback(server.close, drain_s=DRAIN_S)
    return server
