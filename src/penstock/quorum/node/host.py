"""One replica of one shard in a real process: the node's core on a WAL, the wire and a state machine.

The core decides; this runs its effects and brings completions back. Client appends of one turn of the loop become one
step, and the answers of one step become one message per client.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.kernel.effects import Effect, Received, Reply, Requested
from penstock.kernel.errors import InternalError, NotLeader, PenstockError, Unavailable, Unimplemented, WalCorrupt
from penstock.kernel.ids import EntryId, NodeId, Offset, RequestId
from penstock.plumbing.host.loop import MachineLoop
from penstock.plumbing.ports.ports import Ports
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.tasks import Tasks
from penstock.plumbing.wire.channels import Channels
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.machines.builtin import Queryable, Watchable
from penstock.quorum.core.machines.state_machine import Applier
from penstock.quorum.core.node import Node, diverged_error
from penstock.quorum.core.reading.reads import QuorumRead
from penstock.quorum.links.peers import Peers
from penstock.quorum.node.figures import TALLY, QuorumFigures
from penstock.quorum.node.sessions import AnswerSink
from penstock.quorum.node.snapshots import Snapshots
from penstock.quorum.node.storage import NodeStorage
from penstock.quorum.node.ticker import Ticker, WantsTicks
from penstock.quorum.records.answers import Answers
from penstock.quorum.records.effects import (
    Append,
    AppendRequest,
    Apply,
    KeepLost,
    LogRead,
    ReadLog,
    ReadSnapshot,
    RestoreSnapshot,
    Serve,
    SnapshotRead,
    SnapshotRestored,
    SnapshotTaken,
    SnapshotWritten,
    TakeSnapshot,
    WriteSnapshot,
)
from penstock.quorum.records.entry import ClientId, Entry, Txn
from penstock.quorum.records.resolution import Resolution, Resolve
from penstock.quorum.records.state import NodeState

__all__ = ["ReplicaHost"]

LEFT_S = 0.01  # how often a leader that is leaving looks whether it still leads
log = get_logger()


class ReplicaHost:
    """Runs one node's part in one shard. `failed` says why it no longer does, if so."""

    def __init__(
        self,
        shard: str,
        ports: Ports,
        state: NodeState,
        storage: NodeStorage,
        snapshots: Snapshots,
        machine: Queryable,
        channels: Channels,
        config: NodeConfig,
        tasks: Tasks,
    ) -> None:
        self.shard = shard
        self.member = state.member
        self.storage = storage
        self.failed = ""
        self._is_closing = False
        self.config = config
        self.clock = ports.clock
        self.started_at = ports.clock.monotonic_ns()
        self._snapshots = snapshots
        self._applier = Applier(machine)
        self._machine = machine
        self._tasks = tasks
        self._peers = Peers(
            state.member.node,
            shard,
            channels,
            tasks,
            self._on_peer_messages,
            ports.chance.generator(),
            lambda error: self._loop.stop(str(error)),
        )
        self._requests = 0
        self._appends: dict[RequestId, tuple[AnswerSink, int]] = {}  # the session that waits for each answer
        self._asked: dict[RequestId, asyncio.Future[Any]] = {}
        self._queries: dict[RequestId, Callable[[], Any]] = {}
        self._new_appends: list[AppendRequest] = []
        self._applied_changed = asyncio.Event()
        self.node: Node
        self._figures: QuorumFigures
        self._loop: MachineLoop

    @classmethod
    async def start(
        cls,
        shard: str,
        folder: Path,
        ports: Ports,
        state: NodeState,
        storage: NodeStorage,
        machine: Queryable,
        channels: Channels,
        config: NodeConfig,
        tasks: Tasks,
    ) -> "ReplicaHost":
        """Recover the node from its durable state, and let it run: fenced, until an operator sends it more."""
        snapshots = Snapshots(folder / "snapshots", ports.disk)
        host = cls(shard, ports, state, storage, snapshots, machine, channels, config, tasks)
        first, entries = await storage.load_entries()
        host.node, effects = Node.recover(state, first, entries, config)
        for effect in effects:
            if isinstance(effect, RestoreSnapshot):
                await snapshots.load(effect.snapshot.head)  # damage ends the start here
        host._loop = MachineLoop(host.node, storage, host, ports.clock.monotonic_ns)
        host._figures = QuorumFigures(host.node, ports.clock)
        host._loop.run(effects)
        if isinstance(machine, WantsTicks):
            ticker = Ticker(host, machine, ClientId(f"ticks/{ports.chance.token(8).hex()}"))
            tasks.start(ticker.run(), f"{shard}: ticks")
        TALLY.add(host._figures, shard)
        log.info("replica started", shard=shard, member=str(state.member), head=str(host.node.log.head))
        return host

    @property
    def peers(self) -> Peers:
        return self._peers

    @property
    def leader(self) -> NodeId | None:
        """Return the leader, as far as this node knows."""
        if self.node.leader is not None:
            return self.member.node
        return self.node.follower.leader if self.node.follower is not None else None

    @property
    def leader_address(self) -> str:
        leader = self.leader
        return self._peers.directory.get(leader, "") if leader is not None else ""

    # Clients

    def append(self, session: AnswerSink, request: AppendRequest, number: int) -> None:
        """Take a transaction into the next step."""
        if self.failed:
            raise Unavailable(f"this replica has stopped: {self.failed}", next_step="penstock quorum status")
        self._appends[request.request] = (session, number)
        if not self._new_appends:
            asyncio.get_running_loop().call_soon(self._step_appends)
        self._new_appends.append(request)

    def next_request(self) -> RequestId:
        self._requests += 1
        return RequestId(self._requests)

    def _step_appends(self) -> None:
        requests, self._new_appends = self._new_appends, []
        self._loop.post(Append(requests))

    async def read(self, query: bytes, *, is_linearizable: bool, after: EntryId) -> tuple[Any, Offset]:
        """Ask the state machine, when what the read must see is applied."""
        machine = self._machine
        return await self._read(lambda: machine.query(query), QuorumRead(is_linearizable, after))

    async def highest_seq(self, client: ClientId) -> int:
        """Return the highest number of a client in the state machine. Linearizable."""
        pairs = self._applier.pairs
        highest, _ = await self._read(lambda: pairs.highest(client), QuorumRead())
        return int(highest)

    async def _read(self, query: Callable[[], Any], read: QuorumRead) -> tuple[Any, Offset]:
        if read.is_linearizable and self.node.leader is None:
            raise NotLeader(f"{self.member.node} does not lead {self.shard}", leader=self.leader_address)
        request = self.next_request()
        self._queries[request] = query
        try:
            result: tuple[Any, Offset] = await self._ask(request, read)
        finally:
            self._queries.pop(request, None)
        return result

    async def resolve(self, entry: EntryId) -> Resolution:
        resolution: Resolution = await self._ask(self.next_request(), Resolve(entry))
        return resolution

    async def _ask(self, request: RequestId, body: Any) -> Any:
        if self.failed:
            raise Unavailable(f"this replica has stopped: {self.failed}", next_step="penstock quorum status")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[request] = future
        try:
            self._loop.post(Requested(request, body))
            return await future
        finally:
            self._asked.pop(request, None)

    async def entries_from(self, first: Offset, bytes_max: int) -> tuple[Offset, tuple[tuple[Offset, Entry], ...]]:
        """Return applied entries from `first` on, and the offset after them, without waiting.

        No rolled-back transaction is among them, and of each pair only the copy that took effect.
        """
        applied = self.node.replica.applied
        if self.node.divergence is not None:
            raise diverged_error(self.node.divergence)
        if first > applied:
            return first, ()
        try:
            entries = await self.storage.read(first, applied, bytes_max)
        except WalCorrupt as error:
            self._loop.stop(str(error))  # it cannot read back an acknowledged entry (P14)
            raise
        numbered = [(Offset(offset), entry) for offset, entry in enumerate(entries, first)]
        node_log, applier = self.node.log, self._applier
        kept = tuple(
            (offset, entry)
            for offset, entry in numbered
            if not isinstance(entry, Txn) or (applier.has_effect(offset) and not node_log.is_doomed(offset))
        )
        return Offset(first + len(entries)), kept

    def changes(self, query: bytes, after: int) -> tuple[int, bytes] | None:
        """Return the next part of a watch, by what this replica has applied; None if there is nothing yet."""
        machine, node = self._machine, self.node
        if not isinstance(machine, Watchable):
            raise Unimplemented(f"the state machine of {self.shard} shows no changes")
        if node.divergence is not None:
            raise diverged_error(node.divergence)
        if not node.replica.agreement.is_trusted:
            raise Unavailable("this replica's state differs from another one's", next_step="penstock quorum status")
        return machine.changes(query, after)

    async def wait_for_applied(self, beyond: Offset) -> None:
        """Until the state machine has applied something behind `beyond`."""
        while self.node.replica.applied <= beyond:
            if self.failed:
                raise Unavailable(f"this replica has stopped: {self.failed}")
            await self._applied_changed.wait()

    def take_snapshot(self) -> None:
        """Now, whatever the interval says."""
        self.node.replica.take_snapshot()
        self._loop.run(self.node.replica.take_effects())

    # Peers

    def _on_peer_messages(self, sender: NodeId, messages: list[Any]) -> None:
        if not self.failed:
            for message in messages:
                self._loop.post(Received(sender, message))

    def send(self, to: NodeId, message: Any) -> None:
        self._peers.send(to, message)

    # Effects

    def perform(self, effect: Effect) -> None:
        match effect:
            case Answers():
                self._answer(effect)
            case Apply() if self.node.leader is not None:
                self._apply(effect)  # a client waits for the result
            case Apply():
                # No client waits, but the leader waits for the write of the same message: that begins first.
                asyncio.get_running_loop().call_soon(self._apply, effect)
            case Reply(request, result):
                self._settle(request, result)
            case Serve(requests):
                self._serve(requests)
            case ReadLog():
                self._start(self._read_log(effect), "read log")
            case KeepLost():
                self.storage.keep_lost(effect)
            case _:
                self._perform_snapshot(effect)

    def _apply(self, effect: Apply) -> None:
        if not self.failed:
            self._loop.post(self._applier.apply(effect))
            self._figures.rolled_back += len(effect.doomed)
            self._applied_changed.set()
            self._applied_changed = asyncio.Event()

    def _perform_snapshot(self, effect: Effect) -> None:
        match effect:
            case TakeSnapshot():
                self._applier.forget_before(self.node.log.first)
                self._start(self._take_snapshot(effect, self._applier.freeze()), "take snapshot")
            case ReadSnapshot():
                self._start(self._read_snapshot(effect), "read snapshot")
            case WriteSnapshot():
                self._start(self._write_snapshot(effect), "write snapshot")
            case RestoreSnapshot():
                self._start(self._restore_snapshot(effect), "restore snapshot")
            case _:
                raise InternalError(f"a node's shell does not know {type(effect).__name__}")

    def stopped(self, reason: str) -> None:
        """The core cannot continue: this replica has ended, others in the process have not."""
        self.failed = reason
        self._figures.is_failed = int(not self._is_closing)
        report = log.info if self._is_closing else log.error
        report("replica stopped", shard=self.shard, member=str(self.member), reason=reason)
        error = Unavailable(f"this replica has stopped: {reason}", next_step="penstock quorum status")
        for future in list(self._asked.values()):
            if not future.done():
                future.set_exception(error)
        for session in {session: None for session, _ in self._appends.values()}:
            session.fail(error)
        self._appends.clear()
        self._applied_changed.set()

    async def hand_over(self, timeout_s: float) -> None:
        """Let another node lead before this process ends, if an operator is connected."""
        leader = self.node.leader
        if leader is None or self.failed or len(leader.ensemble) == 1:
            return
        members = {member.node for member in leader.ensemble}
        if members.issuperset(self._peers.callers):
            return  # no operator is connected
        self.node.is_leaving = True
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.node.leader is not None and not self.failed:  # noqa: ASYNC110  the core tells of no end
                    await asyncio.sleep(LEFT_S)

    async def close(self) -> None:
        self._is_closing = True
        TALLY.remove(self._figures)
        if not self.failed:
            self._loop.stop("the process is ending")
        self._peers.close()
        await self.storage.close()

    def _answer(self, answers: Answers) -> None:
        """Tell each client its part. Most steps have one client, or a few."""
        waiting = self._appends
        self._figures.answered(answers.fate, len(answers.requests))
        told: dict[AnswerSink, tuple[list[int], list[Offset], list[Any]]] = {}
        results: Sequence[Any] = answers.results or (None,) * len(answers.requests)
        for request, offset, result in zip(answers.requests, answers.offsets, results, strict=True):
            session, number = waiting.pop(request)
            part = told.get(session)
            if part is None:
                part = told[session] = ([], [], [])
            part[0].append(number)
            part[1].append(offset)
            part[2].append(result)
        for session, (numbers, offsets, mine) in told.items():
            session.answer(answers, numbers, offsets, mine if answers.results else [])

    def _settle(self, request: RequestId, result: Any) -> None:
        future = self._asked.get(request)
        if future is None or future.done():
            return
        if isinstance(result, PenstockError):
            future.set_exception(result)
        else:
            future.set_result(result)

    def _serve(self, requests: tuple[RequestId, ...]) -> None:
        for request in requests:
            query = self._queries.get(request)
            if query is not None:
                self._settle(request, (query(), self._applier.fact))

    def _start(self, work: Any, name: str) -> None:
        self._tasks.start(self._guarded(work), f"{self.shard}: {name}")

    async def _guarded(self, work: Any) -> None:
        """Whatever a background effect meets (a damaged file, a full disk) ends this replica, and says why."""
        try:
            await work
        except (PenstockError, OSError) as error:
            self._loop.stop(str(error))

    async def _read_log(self, effect: ReadLog) -> None:
        entries = await self.storage.read(effect.first, effect.last, effect.bytes_max)
        self._loop.post(LogRead(effect.purpose, effect.first, entries))

    async def _take_snapshot(self, effect: TakeSnapshot, frozen: Callable[[], bytes]) -> None:
        data = await asyncio.to_thread(frozen)
        await self._snapshots.take(effect.snapshot.head, data)
        await self._snapshots.keep_newest()
        log.info("snapshot taken", shard=self.shard, head=str(effect.snapshot.head), bytes=len(data))
        self._loop.post(SnapshotTaken(effect.snapshot))

    async def _read_snapshot(self, effect: ReadSnapshot) -> None:
        data, is_last = await self._snapshots.read(effect.snapshot, effect.position, effect.bytes_max)
        self._loop.post(SnapshotRead(effect.member, effect.snapshot, effect.position, data, is_last))

    async def _write_snapshot(self, effect: WriteSnapshot) -> None:
        head = effect.snapshot.head
        position = await self._snapshots.write(head, effect.position, effect.data, is_last=effect.is_last)
        log.info("snapshot received", shard=self.shard, head=str(head), bytes=position, is_last=effect.is_last)
        self._loop.post(SnapshotWritten(effect.snapshot, position, effect.is_last))

    async def _restore_snapshot(self, effect: RestoreSnapshot) -> None:
        self._applier.restore(await self._snapshots.load(effect.snapshot.head))
        self._loop.post(SnapshotRestored(effect.snapshot.head, self._applier.checksum))
