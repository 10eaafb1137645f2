"""A client of one shard of the quorum log.

    async with QuorumLog(["127.0.0.1:7101", "127.0.0.1:7102"], "main") as log:
        appended = await log.append(b"...")          # committed by a majority, or an error with the outcome
        await log.append(b"...", sync=False)         # in order, durable on the leader; lost only with it
        value = await log.read(query)                # linearizable
        fate = await log.resolve(appended.entry)     # the outcome of an entry whose answer was lost

It finds the leader, follows it through elections, and repeats only safe requests.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from types import TracebackType
from typing import Any, Final, Literal

import msgspec

from penstock.kernel.backoff import Backoff
from penstock.kernel.codec import Codec
from penstock.kernel.errors import (
    Compacted,
    DeadlineExceeded,
    Indeterminate,
    InvalidArgument,
    NotFound,
    NotLeader,
    Overloaded,
    PenstockError,
    Refused,
    Unavailable,
)
from penstock.kernel.ids import NO_ENTRY, EntryId, Offset
from penstock.plumbing.ports.ports import Ports, system_ports
from penstock.plumbing.wire.client import Channel
from penstock.plumbing.wire.client_stream import ClientStream
from penstock.plumbing.wire.limits import WireLimits
from penstock.plumbing.wire.message import WireMessage
from penstock.plumbing.wire.tls import Tls
from penstock.quorum.client.appends import Appends
from penstock.quorum.client.finder import SILENT_S, LeaderFinder
from penstock.quorum.client.sending import Answer, Next, Sending
from penstock.quorum.records.answers import Cause, Fate
from penstock.quorum.records.api import (
    Committed,
    LeaderFound,
    LeaderQuery,
    ReadQuery,
    ReadResult,
    ResolveQuery,
    ResolveResult,
    SessionFound,
    SessionQuery,
    ShardStatus,
    Subscribe,
    WatchShard,
)
from penstock.quorum.records.effects import ALL, APPLIED, MAJORITY
from penstock.quorum.records.entry import ClientId, Txn
from penstock.quorum.records.resolution import Resolution

__all__ = ["OPS_BYTES_MAX", "Ack", "Appended", "QuorumLog"]

Ack = Literal["majority", "all", "applied"] | int
OPS_BYTES_MAX: Final = 3 << 19  # a transaction of a KeySpace has up to 1.25 MiB
RETRY_S: Final = 0.02
QUIET_S: Final = 2.0  # a subscription that gets nothing for this time asks whether there was anything to get
SILENT_ATTEMPT_S: Final = 0.5  # a read without an answer for so long looks for another leader, then waits longer
LIMITS: Final = WireLimits(
    frame_bytes_max=16 << 20, stream_window_bytes=16 << 20, hello_ms=1_000, keepalive_ms=500, pong_ms=2_000
)
FIRST: Final = Offset(1)
SEQ_GAP: Final = 1 << 20  # more than one process can have in flight
FRESH_MAX: Final = 65_536
_LEVELS: Final = {"majority": MAJORITY, "all": ALL, "applied": APPLIED}
_LEADER = Codec[LeaderFound](LeaderFound)
_SESSION = Codec[SessionFound](SessionFound)
_READ = Codec[ReadResult](ReadResult)
_RESOLVED = Codec[ResolveResult](ResolveResult)
_COMMITTED = Codec[Committed](Committed)
_STATUS = Codec[list[tuple[ShardStatus, str]]](list[tuple[ShardStatus, str]])
_encode = msgspec.msgpack.Encoder().encode


class Appended(msgspec.Struct, frozen=True):
    """A transaction in the log.

    `fate` tells committed, acknowledged (async) and committed below its ack level apart.
    """

    entry: EntryId
    fate: Fate
    result: Any = None  # of the state machine, with ack="applied"


class QuorumLog:
    """One shard, seen by one client. Use it as an async context manager."""

    def __init__(
        self,
        addresses: Sequence[str],
        shard: str = "main",
        *,
        client_id: str | None = None,
        token: str | None = None,
        tls: Tls | None = None,
        window_bytes: int = 8 << 20,
        limits: WireLimits | None = None,
        ports: Ports | None = None,
    ) -> None:
        if not addresses:
            raise InvalidArgument("give the address of at least one node, like 127.0.0.1:7101")
        self._ports = ports or system_ports()
        self._random = self._ports.chance.generator()
        self.shard = shard
        self.client_id = ClientId(client_id or self._ports.chance.token(8).hex())
        self._addresses = list(addresses)
        self._token = token
        self._tls = tls
        self._limits = limits or LIMITS
        self._window_bytes = window_bytes
        self._channels: dict[str, Channel] = {}
        self._finder = LeaderFinder(addresses, self._ask_leader)
        self._appends: Appends | None = None
        self._seq = None if client_id else 0  # a random name has used no number yet
        self._session = asyncio.Lock()
        self._fresh: set[int] = set()  # numbers given out and not used: their first copy is no repeat

    async def __aenter__(self) -> "QuorumLog":
        self._appends = Appends(
            self.shard, self.client_id, self._channel, self._finder, window_bytes=self._window_bytes
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._appends is not None:
            await self._appends.close()
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))
        self._channels.clear()

    # Writing

    async def append(
        self,
        ops: bytes,
        *,
        sync: bool = True,
        ack: Ack = "majority",
        timeout: float = 5.0,
        roll_back: bool = False,
        seq: int | None = None,
    ) -> Appended:
        """Append a transaction.

        Returns when it is committed (sync), or durable on the leader after every sync one before it (async). A time-out
        raises `Indeterminate`; with `roll_back`, the leader first tries to make that a definite `Refused`. To repeat a
        transaction whose fate is unknown, give its `seq` again: it takes effect once, and the answer is about the
        transaction, whichever copy of it the log took.
        """
        if len(ops) > OPS_BYTES_MAX:
            raise InvalidArgument(f"a transaction of {len(ops)} bytes is above the limit of {OPS_BYTES_MAX}")
        if timeout <= 0:
            raise InvalidArgument(f"timeout {timeout}: expected a time above 0 s")
        appends = self._opened()
        level = _level(ack)
        if seq is None:
            await self.begin_session(timeout=timeout)
            seq = self.next_seq()
        sending = Sending(seq, ops, sync, level, roll_back, may_be_written=seq not in self._fresh)
        self._fresh.discard(seq)
        grace_s = 1.0 + (5.0 if roll_back else 0.0)
        step, answer = await appends.append(sending, timeout, grace_s)
        return _judged(step, answer, sending)

    async def begin_session(self, *, timeout: float = 5.0) -> None:
        """Find out which numbers earlier processes of this `client_id` have used: this one begins above them.

        `append` does this itself where it must. One process at a time may use a `client_id`.
        """
        if self._seq is not None:
            return
        async with self._session:
            if self._seq is None:
                body = _encode(SessionQuery(self.shard, self.client_id))
                found = _SESSION.decode(await self._call_leader("quorum.session", body, timeout))
                # Copies of the process before may still be on their way; two processes at once should not meet either.
                self._seq = found.highest + SEQ_GAP + self._random.randrange(SEQ_GAP << 10)

    def next_seq(self) -> int:
        """A number this client has not used."""
        if self._seq is None:
            raise InvalidArgument("a client_id of your own needs a session first: await log.begin_session()")
        self._seq += 1
        if len(self._fresh) < FRESH_MAX:
            self._fresh.add(self._seq)
        return self._seq

    # Reading

    async def read(
        self, query: bytes, *, linearizable: bool = True, after: EntryId | None = None, timeout: float = 5.0
    ) -> ReadResult:
        """Ask the state machine. Not linearizable: what the asked node has applied, at least up to `after`."""
        body = _encode(ReadQuery(self.shard, query, linearizable, after or NO_ENTRY))
        return _READ.decode(await self._call_leader("quorum.read", body, timeout))

    async def resolve(self, entry: EntryId, *, timeout: float = 5.0) -> Resolution:
        """Return the outcome of an entry. PENDING only if it is still open after `timeout`."""
        body = _encode(ResolveQuery(self.shard, entry))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        resolution = Resolution.PENDING
        while True:
            for answer in await self._ask_all("quorum.resolve", body, max(0.1, deadline - loop.time())):
                resolution = _RESOLVED.decode(answer).resolution
                if resolution in (Resolution.COMMITTED, Resolution.ABORTED, Resolution.EXPIRED):
                    return resolution
            if loop.time() >= deadline:
                return Resolution.PENDING
            await asyncio.sleep(RETRY_S)

    async def subscribe(
        self, first: Offset = FIRST, *, follow: bool = True, is_gapless: bool = False
    ) -> AsyncGenerator[tuple[Offset, Txn], None]:
        """Committed transactions from an offset on, each once, through restarts of nodes and elections.

        Without `follow` it ends after the last transaction that was committed at the call. If the log begins later than
        `first`, the subscription begins there; with `is_gapless` it raises `Compacted`. After its first transaction it
        leaves none out: a subscriber that the log has overtaken gets `Compacted`.
        """
        last = None if follow else (await self.read(b"")).applied
        at = first
        address = 0
        while last is None or at <= last:
            body = _encode(Subscribe(self.shard, at, is_gapless))
            try:
                sources = self._sources()
                channel = self._channel(sources[address % len(sources)])
                async with channel.stream("quorum.subscribe", body, is_read_only=True) as stream:
                    while (message := await self._hear(stream, at)) is not None:
                        committed = _COMMITTED.decode(message.body)
                        for offset, txn in committed.entries:
                            if last is None or offset <= last:
                                yield offset, txn
                        at, is_gapless = committed.next, True
                        if last is not None and at > last:
                            return
            except Compacted:
                raise
            except PenstockError:
                address += 1  # another node has the same log
                await asyncio.sleep(RETRY_S)

    async def open_watch(self, address: str, query: bytes, after: int, applied: Offset) -> ClientStream:
        """Open a stream of the changes that a state machine shows, from one node that has applied so much.

        The caller leaves a silent node.
        """
        body = _encode(WatchShard(self.shard, query, after, applied))
        stream = await self._channel(address).open("quorum.watch", body)
        stream.end()
        return stream

    async def _hear(self, stream: ClientStream, at: Offset) -> WireMessage | None:
        """The next message of a subscription. `Unavailable` if its node was left behind: it lives, but it knows less
        than has been committed."""
        while True:
            try:
                async with asyncio.timeout(QUIET_S):
                    return await stream.receive()
            except TimeoutError:
                if (await self.read(b"")).applied >= at:
                    raise Unavailable(f"entries behind {at} are committed, and this node does not tell them") from None

    @property
    def addresses(self) -> list[str]:
        return list(self._addresses)

    def _sources(self) -> list[str]:
        """Return the nodes to subscribe to, best first: the leader learns of a commit before its followers do."""
        leader = self._finder.leader
        return [leader, *(each for each in self._addresses if each != leader)]

    async def take_snapshot(self) -> None:
        """Have the first node write its state down now, and trim its log."""
        body = _encode({"shard": self.shard})
        await self._channel(self._addresses[0]).call("quorum.snapshot", body)

    async def status(self, *, timeout: float = 2.0) -> dict[str, list[tuple[ShardStatus, str]] | PenstockError]:
        """Return every node's status of its replicas, by address; with the reason in words why appends wait, if they
        do.
        """

        async def ask(address: str) -> list[tuple[ShardStatus, str]] | PenstockError:
            try:
                answer = await self._channel(address).call("quorum.status", deadline_s=timeout)
            except PenstockError as error:
                return error
            return _STATUS.decode(answer.body)

        found = await asyncio.gather(*(ask(address) for address in self._addresses))
        return dict(zip(self._addresses, found, strict=True))

    # Plumbing

    def _opened(self) -> Appends:
        if self._appends is None:
            raise InvalidArgument("use the client as a context manager: async with QuorumLog(...) as log")
        return self._appends

    def _channel(self, address: str) -> Channel:
        if address not in self._channels:
            backoff = Backoff(self._random, base_ms=20.0, pause_ms_max=300.0)
            self._channels[address] = Channel(
                address, token=self._token, tls=self._tls, limits=self._limits, backoff=backoff, ports=self._ports
            )
        return self._channels[address]

    async def _call_leader(self, method: str, body: bytes, timeout: float) -> bytes:
        """Ask nodes until one answers as leader: reading twice does no harm.

        An attempt without an answer asks the others for a newer leader before it asks the same node again (O15).
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        finder, patience_s = self._finder, SILENT_ATTEMPT_S
        last: PenstockError = Unavailable("no node was asked")
        while (left := deadline - loop.time()) > 0:
            try:
                async with asyncio.timeout(left):
                    address = finder.leader if finder.is_known else await finder.find()
            except TimeoutError:
                raise finder.last or last from None
            try:
                return (await self._channel(address).call(method, body, deadline_s=min(left, patience_s))).body
            except DeadlineExceeded as error:
                last, patience_s = error, 2 * patience_s
                await finder.find_newer()
            except (Unavailable, Indeterminate, NotFound) as error:
                last = error
                finder.failed(address)
                finder.hint(str(error.details.get("leader", "")) if isinstance(error, NotLeader) else "")
                await asyncio.sleep(RETRY_S)
        raise last

    async def _ask_leader(self, address: str) -> LeaderFound:
        body = _encode(LeaderQuery(self.shard))
        return _LEADER.decode((await self._channel(address).call("quorum.leader", body, deadline_s=SILENT_S)).body)

    async def _ask_all(self, method: str, body: bytes, timeout: float) -> list[bytes]:
        async def ask(address: str) -> bytes | None:
            try:
                return (await self._channel(address).call(method, body, deadline_s=timeout)).body
            except PenstockError:
                return None

        found = await asyncio.gather(*(ask(address) for address in self._addresses))
        return [answer for answer in found if answer is not None]


def _level(ack: Ack) -> int:
    if isinstance(ack, int) and not isinstance(ack, bool) and ack > 0:
        return ack
    if ack in _LEVELS:
        return _LEVELS[ack]
    raise InvalidArgument(f"ack {ack!r}: expected majority, all, applied, or a number of nodes above 0")


def _judged(step: Next, answer: Answer, sending: Sending) -> Appended:
    """The answer as a value, or as the error it is."""
    if step is Next.UNKNOWN:
        raise _unknown(answer, sending)
    match answer.fate:
        case Fate.COMMITTED | Fate.ACKNOWLEDGED | Fate.COMMITTED_BELOW_LEVEL:
            return Appended(answer.entry, answer.fate, answer.result)
        case Fate.ABORTED:
            reason = _ABORTED.get(answer.cause, "it was rolled back")
            raise Refused(
                f"the transaction was aborted: {reason}",
                next_step="append it again under a new seq",
                cause=answer.cause.value,
            )
        case Fate.EXPIRED:
            raise Indeterminate(
                f"number {sending.seq} is older than what the shard remembers of this client: it was not appended now, "
                "and whether it was before is unknown",
                next_step="read the state that it should have changed",
                seq=sending.seq,
            )
        case Fate.INVALID:
            raise InvalidArgument("no ensemble of this size has that ack level", next_step="penstock quorum status")
        case Fate.OVERLOADED:
            raise Overloaded("the leader's limbo is full", next_step="penstock quorum status")
        case _:
            raise NotLeader("no node leads the shard", next_step="penstock quorum status")


_ABORTED: Final = {
    Cause.QUORUM_TIMEOUT: "no quorum held it in time",
    Cause.ROLLBACK: "an earlier transaction timed out, and its rollback took this one with it",
    Cause.FENCED: "its leader was replaced before it was appended",
    Cause.NO_ROOM: "its time was over before the limbo had room for it",
}


def _unknown(answer: Answer, sending: Sending) -> Indeterminate:
    """The error of a transaction which may be in the log. An entry names one copy, so it is named only if it is all."""
    reason = "its leader was replaced" if answer.cause is Cause.FENCED else "no quorum in time"
    if sending.might_before or not answer.entry.offset:
        return Indeterminate(
            f"{reason}; the transaction may still commit",
            next_step="append it again under the same seq: it takes effect once",
            seq=sending.seq,
        )
    return Indeterminate(
        f"{reason}; entry {answer.entry} may still commit",
        next_step=f"penstock quorum resolve {answer.entry}",
        epoch=answer.entry.epoch,
        offset=answer.entry.offset,
        seq=sending.seq,
    )
