"""Neighbours: each member asks others whether they run, and says in the KeySpace whom it cannot reach.

Members in the order of their names are a ring, and each asks the next few. A member that one suspects is asked by all
others at once: so one that is gone has the voices that the allocator wants (`suspicion.py`) within one silence more.

Questions go over one stream for each neighbour, so the end of a connection is noticed without a question. An answer
names the lease of the member that answers: one of a process that waits until its former life is over does not count.

Invariants: a voice is under the lease of the member that gives it; it is withdrawn when the neighbour is trusted again,
or is gone.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from penstock.kernel.errors import PenstockError, ShuttingDown, Unimplemented
from penstock.kernel.probes import reached
from penstock.keyspace.core.allocator import Layout, MemberId, suspicion_key
from penstock.keyspace.core.mirror import MirrorChange, MirrorEntry
from penstock.keyspace.core.neighbour import HOLD_S, Neighbour
from penstock.keyspace.core.records import LeaseId
from penstock.keyspace.core.transaction import DeleteKey, Operation, PutKey
from penstock.keyspace.shell.membership import Membership
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.tasks import Tasks
from penstock.plumbing.wire.client import Channel
from penstock.plumbing.wire.client_stream import ClientStream
from penstock.plumbing.wire.message import WireMessage
from penstock.plumbing.wire.server_stream import ServerStream
from penstock.plumbing.wire.service import Service

__all__ = ["ASK", "LifeAnswers", "Neighbourhood", "watched"]

ASK: Final = "member.ask"
RING: Final = 4  # neighbours that a member asks without a reason
QUICK_S: Final = 0.2  # between two questions while there is work;
CALM_S: Final = 1.0  # and while there is none
UNREST_S: Final = 20.0  # members ask often for so long after one came, went, or was suspected
TICK_S: Final = 0.01
QUESTION: Final = b"?"

log = get_logger()


class LifeAnswers:
    """The answering side of one member. `lease` returns its lease; None while it is not announced."""

    def __init__(self, lease: Callable[[], LeaseId | None]) -> None:
        self.lease = lease
        self.streams: dict[AnswerStream, None] = {}  # in the order in which they were opened
        self._is_closed = False

    def offer(self, service: Service) -> None:
        service.pipelined(ASK)(self._accept)

    def _accept(self, stream: ServerStream) -> "AnswerStream":
        if self._is_closed:
            raise ShuttingDown("this member ends")
        return AnswerStream(stream, self)

    def close(self) -> None:
        """End all streams: the server then waits for none of them."""
        self._is_closed = True
        for each in list(self.streams):
            each.end()


class AnswerStream:
    """One stream of questions, answered: a `Receiver` of the wire."""

    def __init__(self, stream: ServerStream, answers: LifeAnswers) -> None:
        self._stream = stream
        self._answers = answers
        answers.streams[self] = None

    def end(self) -> None:
        self._answers.streams.pop(self, None)
        self._stream.end()

    def on_messages(self, messages: list[WireMessage]) -> None:
        answer = b"%d" % (self._answers.lease() or 0)
        if self in self._answers.streams and self._stream.can_send(len(answer)):
            self._stream.send_nowait(answer)  # one answer to several questions: it says the same

    def on_end(self) -> None:
        if self in self._answers.streams:
            self.end()

    def on_writable(self) -> None:
        pass

    def on_closed(self, error: PenstockError | None) -> None:
        self._answers.streams.pop(self, None)


def watched(names: Iterable[str], me: str, suspected: Iterable[str]) -> list[str]:
    """Return the members that this one asks: the next ones in the ring, and all that are suspected."""
    known = sorted(names)
    after = [*(name for name in known if name > me), *(name for name in known if name < me)]
    doubtful = set(suspected)
    return [*after[:RING], *(name for name in after[RING:] if name in doubtful)]


class _Asked:
    """The asking side of one neighbour: a `Receiver` of the wire."""

    def __init__(
        self, owner: "Neighbourhood", name: str, entry: MirrorEntry, address: str, limits: tuple[float, float]
    ) -> None:
        self.name = name
        self.address = address
        self.lease = entry.stored.lease
        self.neighbour = Neighbour(*limits)
        self.stream: ClientStream | None = None
        self.is_opening = False
        self.is_forgotten = False
        self._owner = owner
        self._asked_at = 0.0

    def ask(self, now: float, pause_s: float) -> None:
        """Ask, if it is time."""
        if self.stream is None:
            self.neighbour.asked(now)
            self._owner.open(self)
        elif now >= self._asked_at + pause_s and self.stream.can_send(len(QUESTION)):
            self._asked_at = now
            self.neighbour.asked(now)
            self.stream.send_nowait(QUESTION)

    def due_in(self, now: float, pause_s: float) -> float:
        """Return after how long it is to be asked or judged."""
        return min(max(0.0, self._asked_at + pause_s - now), self.neighbour.silent_in(now), pause_s)

    def attach(self, stream: ClientStream) -> None:
        if self.is_forgotten:
            stream.cancel()
            return
        self.stream = stream
        stream.send_nowait(QUESTION)

    def on_messages(self, messages: list[WireMessage]) -> None:
        if messages[-1].body == b"%d" % self.lease:
            self.neighbour.answered(self._owner.now)

    def on_end(self) -> None:
        pass

    def on_writable(self) -> None:
        pass

    def on_closed(self, error: PenstockError | None) -> None:
        self.stream = None
        self._owner.on_closed(self)


class Neighbourhood:
    """The neighbours of one member. Make it with `start`, and `close` it before the mirror."""

    def __init__(
        self,
        keyspace: KeySpace,
        mirror: KeySpaceMirror,
        layout: Layout,
        me: MemberId,
        membership: Membership,
        address_of: Callable[[MirrorEntry], str],
        channel: Callable[[str], Channel],
        tasks: Tasks,
        *,
        silent_s: float,
        hold_s: float = HOLD_S,
        work: Callable[[], int],
    ) -> None:
        self._keyspace = keyspace
        self._mirror = mirror
        self._layout = layout
        self._me = str(me)
        self._membership = membership
        self._address_of = address_of
        self._channel = channel
        self._tasks = tasks
        self._limits = (silent_s, hold_s)
        self._work = work  # what this member has done: while that rises, it asks more often
        self._work_seen = 0
        self._loop = asyncio.get_running_loop()
        self._asked: dict[str, _Asked] = {}
        self._voices: set[str] = set()  # of this member, as the KeySpace has them
        self._is_telling = False
        self._timer: asyncio.TimerHandle | None = None
        self._due_at = self.now
        self._unrest_until = 0.0
        self._is_closed = False
        self._stop_observing: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Begin to ask. The member is announced."""
        self._stop_observing = self._mirror.observe(self._observe)
        self._tick()

    def close(self) -> None:
        self._is_closed = True
        self._stop_observing()
        if self._timer is not None:
            self._timer.cancel()
        for name in list(self._asked):
            self._forget(name)

    def _observe(self, applied: MirrorChange) -> None:
        """Look at once whether a member that others suspect answers this one."""
        if any(change.key.startswith((self._layout.suspects, self._layout.members)) for change in applied.changes):
            self._unrest_until = self.now + UNREST_S
            self._again_in(0)

    @property
    def now(self) -> float:
        return self._loop.time()

    @property
    def suspected(self) -> list[str]:
        """Return the members that this one cannot reach."""
        return sorted(name for name, asked in self._asked.items() if asked.neighbour.is_suspected)

    # asking

    def _tick(self) -> None:
        now, work = self.now, self._work()
        is_busy, self._work_seen = work != self._work_seen, work
        late_s = now - self._due_at
        self._look_around()
        pause_s = QUICK_S if is_busy or now < self._unrest_until else CALM_S
        next_s = pause_s
        for asked in self._asked.values():
            if late_s > 0:
                asked.neighbour.paused(late_s)
            asked.neighbour.judge(now)
            asked.ask(now, pause_s)
            next_s = min(next_s, max(asked.due_in(now, pause_s), TICK_S))
        self._tell()
        self._again_in(next_s)

    def _again_in(self, pause_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_closed:
            self._due_at = self.now + pause_s
            self._timer = self._loop.call_later(pause_s, self._tick)

    def _look_around(self) -> None:
        """Note who is a member, and who is suspected by others."""
        members = {entry.key[len(self._layout.members) :]: entry for entry in self._mirror.range(self._layout.members)}
        prefix = self._layout.suspects
        doubtful = {_member_of(entry.key[len(prefix) :]) for entry in self._mirror.range(prefix)}
        chosen = watched(members, self._me, doubtful)
        for name in [name for name in self._asked if name not in chosen]:
            self._forget(name)
        for name in chosen:
            entry, asked = members[name], self._asked.get(name)
            address = self._address_of(entry)
            if asked is not None and (asked.lease, asked.address) != (entry.stored.lease, address):
                self._forget(name)  # another life of it
                asked = None
            if asked is None and address:
                self._asked[name] = _Asked(self, name, entry, address, self._limits)

    def _forget(self, name: str) -> None:
        asked = self._asked.pop(name)
        asked.is_forgotten = True
        if asked.stream is not None:
            asked.stream.cancel()

    def open(self, asked: _Asked) -> None:
        """Open the stream to a neighbour."""
        if not asked.is_opening and not self._is_closed:
            asked.is_opening = True
            self._tasks.start(self._open(asked), f"asks {asked.name}")

    async def _open(self, asked: _Asked) -> None:
        try:
            stream = await self._channel(asked.address).open(ASK, receiver=asked)
        except Unimplemented:
            asked.neighbour.answered(self.now)  # a member of an older release: it runs
        except PenstockError:
            asked.neighbour.lost()
            if not asked.is_forgotten and not asked.neighbour.is_suspected:
                self._again_in(0)
        else:
            asked.attach(stream)
        finally:
            asked.is_opening = False

    def on_closed(self, asked: _Asked) -> None:
        """Open the stream again: a neighbour that runs takes it at once."""
        if not asked.is_forgotten:
            asked.neighbour.asked(self.now)
            self.open(asked)

    # telling

    def _tell(self) -> None:
        if not self._is_telling and not self._is_closed and set(self.suspected) != self._voices:
            self._is_telling = True
            self._tasks.start(self._say(), "says whom it cannot reach")

    async def _say(self) -> None:
        """Bring the KeySpace to what this member sees; what fails is tried again with the next tick."""
        wanted = set(self.suspected)
        new, over = sorted(wanted - self._voices), sorted(self._voices - wanted)
        operations: list[Operation] = [PutKey(self._key(name), b"", self._membership.lease) for name in new]
        operations += [DeleteKey(self._key(name)) for name in over]
        try:
            await self._keyspace.transact(then=operations)
            self._voices = wanted
            for name in new:
                reached("neighbours.suspected")
                log.warning("member suspected", member=name, by=self._me)
            for name in over:
                reached("neighbours.trusted")
                log.info("member trusted again", member=name, by=self._me)
        except PenstockError as error:
            log.info("suspicion not told", reason=str(error))
        finally:
            self._is_telling = False

    def _key(self, name: str) -> str:
        return suspicion_key(self._layout, name, self._me)


def _member_of(name: str) -> str:
    """Return the suspected member of the last part of a suspicion's key."""
    zone, _, rest = name.partition("#")
    return f"{zone}#{rest.partition('#')[0]}"
