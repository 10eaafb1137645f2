"""The network of a world: byte streams between machines, as TCP gives them.

Faults, each of which RFC 9293 allows: latency; bytes cut anywhere; a link cut one or both ways (segments are sent again
when it heals); a reset; a half-open connection (a machine without power answers nothing, and the next life resets);
a window of 256 KiB that fills while the reader is paused or frozen. A kernel accepts connections for a frozen process.

What always holds: bytes of one direction arrive in order, once; all deliveries are calls of the receiver's loop.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from penstock_lab.world.ports.answers import Awaited
from penstock_lab.world.ports.transport import Transport

if TYPE_CHECKING:
    from penstock_lab.world.process import Life
    from penstock_lab.world.world import World

__all__ = ["Address", "Links", "Listener"]

Address = tuple[str, int]
LATENCY_NS: Final = (20_000, 300_000)
NS_PER_BYTE: Final = 1  # a gigabyte a second
AGAIN_NS: Final = (1_000_000, 400_000_000)  # how late a lost segment is sent again
FIRST_PORT: Final = 20_000


class Listener:
    """A listening socket, as asyncio's servers show it."""

    def __init__(self, links: "Links", process: "Life", factory: Callable[[], Any], address: Address) -> None:
        self.process = process
        self.factory = factory
        self.address = address
        self.sockets = [self]
        self._links = links

    def getsockname(self) -> Address:
        return self.address

    def is_serving(self) -> bool:
        return self._links.listener(self.address) is self

    def close(self) -> None:
        self._links.unlisten(self)

    async def wait_closed(self) -> None:
        return


class Links:
    """All connections of a world."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.latency_ns = LATENCY_NS
        self._rng = world.random("links")
        self._listeners: dict[Address, Listener] = {}
        self._cuts: dict[tuple[str, str], list[Callable[[], None]]] = {}  # held calls, by source and target
        self._down: Callable[[str], bool] = lambda _: False
        self._last_port = FIRST_PORT

    def machines(self, is_down: Callable[[str], bool]) -> None:
        """Say which machines have no power."""
        self._down = is_down

    # Faults

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass from one machine to another."""
        if (source, target) not in self._cuts:
            self.world.note(source, "links", f"cut to {target}")
            self._cuts[(source, target)] = []

    def heal(self, source: str, target: str) -> None:
        """Let calls pass again. The held ones are sent again a little later, before all new ones."""
        if (source, target) in self._cuts:
            self.world.note(source, "links", f"healed to {target}")
            self.world.after(self._rng.randint(*AGAIN_NS), self._flush, source, target)

    def _flush(self, source: str, target: str) -> None:
        for call in self._cuts.pop((source, target), []):
            call()

    def heal_all(self) -> None:
        for source, target in list(self._cuts):
            self.heal(source, target)

    def reset_some(self, process: "Life", chance: float) -> None:
        """Break some of the connections of a process, as a middlebox does: both ends learn of it."""
        for transport in list(process.open_links):
            if self._rng.random() < chance:
                transport.reset()
                transport.peer.reset()

    # Carrying

    def delay_ns(self, size: int = 0) -> int:
        return self._rng.randint(*self.latency_ns) + size * NS_PER_BYTE

    def pieces(self, data: bytes) -> list[bytes]:
        """Cut bytes anywhere."""
        if len(data) > 1 and self._rng.random() < 0.15:
            at = self._rng.randrange(1, len(data))
            return [data[:at], data[at:]]
        return [data]

    def carry(self, source: str, target: str, call: Callable[[], None]) -> None:
        """Something arrives now, unless its way is cut: then when that heals, in the same order."""
        held = self._cuts.get((source, target))
        if held is not None:
            held.append(call)
        else:
            call()

    # Connecting

    def listen(self, process: "Life", factory: Callable[[], Any], host: str, port: int) -> Listener:
        if not port:
            self._last_port += 1
            port = self._last_port
        address = (host, port)
        there = self._listeners.get(address)
        if there is not None and not there.process.is_dead:
            raise OSError(98, "Address already in use")
        listener = self._listeners[address] = Listener(self, process, factory, address)
        process.note("links", f"listens on {host}:{port}")
        return listener

    def listener(self, address: Address) -> Listener | None:
        return self._listeners.get(address)

    def unlisten(self, listener: Listener) -> None:
        if self._listeners.get(listener.address) is listener:
            del self._listeners[listener.address]

    def drop(self, process: "Life", *, speaks: bool) -> None:
        """A process has died. Its kernel tells the peers, if the machine still runs."""
        for address, listener in list(self._listeners.items()):
            if listener.process is process:
                del self._listeners[address]
        for transport in list(process.open_links):
            transport.die(speaks=speaks)
        process.open_links.clear()

    async def connect(self, process: "Life", factory: Callable[[], Any], address: Address) -> tuple[Any, Any]:
        """Dial an address for a process."""
        process.note("links", f"dials {address[0]}:{address[1]}")
        answer = Awaited(process)
        self.world.after(self.delay_ns(), self.carry, process.name, address[0], lambda: self._dialled(address, answer))
        try:
            transport: Transport = await answer.future
        except asyncio.CancelledError:
            future = answer.future
            if future.done() and not future.cancelled() and future.exception() is None:
                future.result().abort()
            raise
        protocol = factory()
        transport.begin(protocol)
        return transport, protocol

    def _dialled(self, address: Address, answer: Awaited) -> None:
        """A request to connect has arrived at a machine."""
        if self._down(address[0]):
            return  # nothing answers: the caller's time-out ends it
        process, listener = answer.process, self._listeners.get(address)
        mine: Transport | None = None
        refusal = ConnectionRefusedError(111, f"Connect call failed {address}")
        if listener is not None:
            self._last_port += 1
            here = (process.name, self._last_port)
            mine, theirs = Transport.pair(self, process, listener.process, here, address)
            theirs.accept(listener.factory)

        def back() -> None:
            if mine is not None and answer.future.done():
                mine.abort()  # the caller gave up
            answer.arrive(mine, None if mine is not None else refusal)

        self.world.after(self.delay_ns(), self.carry, address[0], process.name, back)
