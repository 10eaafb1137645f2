"""Exactly once, through a chain of consumers: A reads two journals and splits messages, B0 and B1 merge them, C reads
the result.

    in-0 ─┐        ┌─▶ mid-0 ─▶ B0 ─┐
          ├─▶ A ───┤                ├─▶ out ─▶ C
    in-1 ─┘        └─▶ mid-1 ─▶ B1 ─┘

Every shard has two processes. It is given from one to the other while the first still believes it has it; processes
crash at any effect, freeze and come back as zombies; appends are late, doubled, or applied and never answered; the
producers of the inputs interleave, roll back, and append ranges twice. What must hold is what a perfect run gives:
every message which was committed into the inputs takes effect once in the store of A, once per part in those of B and
C, and the read-committed contents of all journals are those messages, once each (exactly-once.md).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from penstock.consumers.core.effects import (
    AppendIntent,
    CommitShard,
    Consume,
    Consumed,
    Failed,
    Finalize,
    Finalized,
    IntentAppended,
    Noticed,
    Publication,
    ReadSource,
    Restore,
    Restored,
    Seal,
    ShardCommitted,
    ShardProgress,
    SourceChunk,
)
from penstock.consumers.core.shard import Shard, ShardSpec
from penstock.consumers.core.stat import Stat, StatResult
from penstock.kernel.effects import Effect, Event, Reply, Requested
from penstock.kernel.ids import MILLISECOND, Instant, NodeId, Offset, RequestId
from penstock.kernel.machine import Machine
from penstock.kernel.probes import reached
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.message import Message
from penstock.messages.reader import CommittedMessage as Found
from penstock.messages.reader import CommittedReader
from penstock.messages.uuid import producer_id
from penstock_lab.sim.disk import DiskContent as OnDisk
from penstock_lab.sim.faults import Atlas, Swarm
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.workloads.exactly_once_inputs import Inputs
from penstock_lab.sim.workloads.exactly_once_journals import Appender, SimJournals
from penstock_lab.sim.workloads.exactly_once_log import LogSession, SimRecoveryLog
from penstock_lab.sim.workloads.exactly_once_mutants import MUTANTS, ConsumerMutant
from penstock_lab.sim.workloads.exactly_once_store import SimSession, Table, TableSession, Truth
from penstock_lab.sim.world import World

__all__ = ["ExactlyOnceWorkload"]

LINES = JsonLines()
SOURCES = {"A": ("in-0", "in-1"), "B0": ("mid-0",), "B1": ("mid-1",), "C": ("out",)}
WALL = 1_700_000_000_000_000_000


class Idle:
    """A process to which no shard is assigned."""

    def step(self, event: Event, now: Instant) -> Sequence[Effect]:
        return ()

    def check(self) -> None: ...


class Process:
    """One run of a process which has the shard: its ways to the store and to the journals."""

    session: SimSession

    def __init__(self, node: SimNode, shard: str, journals: SimJournals) -> None:
        self.node = node
        self.run = node.run
        self.shard = shard
        self.appender = Appender(journals, self.is_alive)

    def is_alive(self) -> bool:
        return self.node.run == self.run and self.node.is_up

    def tell(self, event: Event) -> None:
        if self.is_alive():
            self.node.deliver(event)


class ExactlyOnceWorkload:
    """The chain under faults, and the judge of its outcome."""

    name: ClassVar[str] = "exactly-once"
    about: ClassVar[str] = "chains of consumers with merges and splits: every effect of a message happens once"
    mutants: ClassVar[Mapping[str, str]] = {name: mutant.rule for name, mutant in MUTANTS.items()}
    probes: ClassVar[tuple[str, ...]] = (
        "consumer.held_behind_ack",
        "consumer.held_too_much",
        "consumer.intents_restored",
        "consumer.pipelined",
        "exactly_once.append_doubled",
        "exactly_once.append_of_a_dead_process",
        "exactly_once.crash_at_an_effect",
        "exactly_once.fenced",
        "exactly_once.handoff_refused",
        "exactly_once.log_pruned",
        "exactly_once.read_your_writes",
        "exactly_once.reassigned",
        "message.replay",
        "recoverylog.handoff_again",
        "recoverylog.jump",
        "recoverylog.passed_over",
    )

    def __init__(self, *, mutant: str | None = None) -> None:
        self.mutant = MUTANTS[mutant] if mutant is not None else ConsumerMutant("")
        self.atlas = Atlas(down_max=8, may_fail_disks=False, may_partition=False)
        self.safety_ns = 200 * MILLISECOND
        self.liveness_ns = 4_000 * MILLISECOND
        self.tables: dict[str, Table] = {}
        self.logs: dict[str, SimRecoveryLog] = {}
        self.truths: dict[str, Truth] = {}
        self.processes: dict[NodeId, Process] = {}
        self.assigned: dict[str, NodeId] = {}
        self.is_calm = False
        self.crash_at: int | None = None  # the effect, counted over all processes, at which one crashes for certain
        self.effects = 0
        self.asked: dict[RequestId, list[str]] = {}  # what must be applied when the request is answered

    # Setup and load

    def setup(self, world: World, swarm: Swarm) -> list[NodeId]:
        self.world = world
        rng = world.rng
        doubles = rng.choice((0.05, 0.3)) if rng.random() < 0.7 else 0.0
        self.journals = SimJournals(world, doubles=doubles, slow_ns=rng.choice((1, 5)) * MILLISECOND)
        self.inputs = Inputs(world, self.journals, LINES, WALL, until_ns=self.safety_ns * 3 // 4)
        self.specs = {shard: self._spec(shard) for shard in SOURCES}
        for shard in SOURCES:
            if rng.random() < 0.5:
                self.tables[shard] = Table()
                self.truths[shard] = self.tables[shard].truth
            else:
                self.logs[shard] = SimRecoveryLog(world, f"recovery/{shard}")
                self.truths[shard] = self.logs[shard].truth
        self.crash_chance = rng.choice((0.002, 0.01)) if swarm.crashes else 0.0
        names = []
        for shard in SOURCES:
            for place in ("x", "y"):
                name = NodeId(f"{shard}.{place}")
                world.add_node(name, self, clock=swarm.clock(rng))
                names.append(name)
            self.assigned[shard] = NodeId(f"{shard}.x")
        for name in names:
            world.nodes[name].boot()
        self.inputs.start()
        self.moves = rng.random() < 0.7
        world.after(10 * MILLISECOND, self._tend)
        world.at(Instant(self.safety_ns), self._calm_down)
        return names

    def _spec(self, shard: str) -> ShardSpec:
        rng = self.world.rng
        return ShardSpec(
            shard,
            dict.fromkeys(SOURCES[shard], LINES),
            min_txn_ns=rng.choice((0, 0, 3)) * MILLISECOND,
            max_txn_ns=rng.choice((1, 10, 50)) * MILLISECOND,
            waits_for_ack=rng.random() < 0.5,
            ring_length=rng.choice((0, 2, 8192)),
            held_bytes_max=rng.choice((0, 300, 1 << 20)),
            horizon=self.mutant.horizon,
        )

    def _calm_down(self) -> None:
        self.is_calm = True
        self.crash_chance = 0.0
        self.journals.doubles = 0.0

    def _tend(self) -> None:
        """Act as the allocator of shards: move one now and then, and boot assigned processes that are down."""
        rng = self.world.rng
        if not self.is_calm and self.moves and rng.random() < 0.3:
            self._reassign(rng.choice(list(SOURCES)))
        for name in self.assigned.values():
            if not self.world.nodes[name].is_up:
                self.world.nodes[name].boot()
        self._ask(rng.choice(("in-0", "in-1")))
        self.world.after(5 * MILLISECOND + int(rng.random() * 20 * MILLISECOND), self._tend)

    def _ask(self, journal: str) -> None:
        """Ask for the effect of the inputs, as their writer would."""
        size = Offset(self.journals.size(journal))
        request = RequestId(len(self.asked) + 1)
        self.asked[request] = [
            id_ for name, end, ids in self.inputs.marks if name == journal and end <= size for id_ in ids
        ]
        self.world.nodes[self.assigned["A"]].deliver(Requested(request, Stat({journal: size})))

    def _reassign(self, shard: str) -> None:
        """Assign a shard to the other process; the one before continues until it notices, or is informed."""
        reached("exactly_once.reassigned")
        before = self.world.nodes[self.assigned[shard]]
        place = "y" if before.name.endswith("x") else "x"
        self.assigned[shard] = NodeId(f"{shard}.{place}")
        after = self.world.nodes[self.assigned[shard]]
        after.crash()
        after.boot()
        run = before.run

        def told() -> None:
            if before.run == run and self.assigned[shard] != before.name:
                before.crash()

        self.world.after(int(self.world.rng.random() * 60 * MILLISECOND), told)

    # Program

    def boot(self, node: SimNode, found: OnDisk) -> tuple[Machine, Sequence[Effect]]:
        shard = node.name.partition(".")[0]
        if self.assigned[shard] != node.name:
            return Idle(), ()
        process = self.processes[node.name] = Process(node, shard, self.journals)
        process.session = self._session(process)
        # Clocks of processes differ by a little: the time of a message is never what decides.
        wall = WALL + self.world.rng.randrange(10**9) - node.now
        producer = producer_id(self.world.rng.getrandbits(48))
        machine = self.mutant.shard(self.specs[shard], producer, unix_ns_at_zero=wall)
        return machine, machine.start()

    def _session(self, process: Process) -> SimSession:
        delay, is_fenced = self.journals.delay, self.mutant.is_fenced
        if process.shard in self.tables:
            return TableSession(self.world, self.tables[process.shard], delay, is_fenced=is_fenced)
        return LogSession(
            self.world,
            self.logs[process.shard],
            delay,
            process.is_alive,
            lambda reason: process.tell(Failed(reason)),
            is_fenced=is_fenced,
            is_handoff_checked=self.mutant.is_handoff_checked,
            playback=self.mutant.playback,
            planned=self.mutant.planned,
        )

    def perform(self, node: SimNode, effect: Effect) -> None:
        process = self.processes[node.name]
        rng = self.world.rng
        self.effects += 1
        if self.effects == self.crash_at or rng.random() < self.crash_chance:
            reached("exactly_once.crash_at_an_effect")
            if rng.random() < 0.5:
                self._perform(process, effect)
            node.crash()
            return
        self._perform(process, effect)

    def _perform(self, process: Process, effect: Effect) -> None:
        after, delay = self.world.after, self.journals.delay
        match effect:
            case Restore():
                process.session.restore(lambda checkpoint: process.tell(Restored(checkpoint)))
            case ReadSource():
                self._read(process, effect)
            case Consume(_, _, messages):
                publications = self._consume(process, messages)
                after(delay() // 10, lambda: process.tell(Consumed(publications)))
            case Finalize():
                after(delay() // 10, lambda: process.tell(Finalized()))
            case Seal(_, checkpoint):
                process.session.seal(checkpoint)
            case CommitShard(txn):
                process.session.commit(lambda is_mine: self._committed(process, txn, is_mine))
            case AppendIntent(number, journal, data):
                process.appender.append(journal, data, lambda end: process.tell(IntentAppended(number, end)))
            case Reply(request, StatResult(is_running=True)):
                reached("exactly_once.read_your_writes")
                missing = [id_ for id_ in self.asked[request] if id_ not in self.truths["A"].applied]
                assert not missing, f"A said that it has come so far, but not applied {missing}"
            case ShardProgress() | Noticed() | Reply():
                pass
            case _:
                raise AssertionError(f"unknown effect {effect}")

    def _committed(self, process: Process, txn: int, is_mine: bool) -> None:
        if not is_mine:
            reached("exactly_once.fenced")
        process.tell(ShardCommitted(txn) if is_mine else Failed("fenced"))

    def _read(self, process: Process, read: ReadSource) -> None:
        size = self.world.rng.choice((50, 500, 5_000))

        def arrive() -> None:
            data = self.journals.read(read.journal, read.begin, read.end)[:size]
            self.world.after(self.journals.delay(), lambda: process.tell(SourceChunk(read.journal, read.begin, data)))

        self.journals.when_longer(read.journal, read.begin, arrive)

    # The application

    def _consume(self, process: Process, messages: tuple[Message, ...]) -> tuple[Publication, ...]:
        out: dict[str, list[Any]] = {}
        for message in messages:
            value = LINES.decode(message.frame)
            process.session.open.apply(value["id"], value["key"], value["amount"])
            for journal, made in derived(process.shard, value):
                out.setdefault(journal, []).append(made)
        return tuple(Publication(journal, LINES, tuple(LINES.prepare_all(values))) for journal, values in out.items())

    # Checks

    def check(self, node: SimNode) -> None:
        """`Truth` checks at every commit that nothing is applied twice; the rest is looked at in the end."""

    def is_settled(self) -> bool:
        """Return whether the inputs have ended, and every shard has read everything and is done with it."""
        if not self.inputs.is_over:
            return False
        for shard, name in self.assigned.items():
            machine = self.world.nodes[name].machine
            if not isinstance(machine, Shard) or not machine.sources:
                return False
            if machine.prior is not None or machine.running is not None:
                return False
            if any(machine.sources[journal].offset < self.journals.size(journal) for journal in machine.sources):
                return False
            assert shard == machine.spec.shard
        return True

    def finish(self) -> None:
        """Stores and read-committed journals are those of a perfect run."""
        values: dict[str, list[Any]] = {"in-0": [], "in-1": [], "mid-0": [], "mid-1": [], "out": []}
        for journal, value in self.inputs.committed.values():
            values[journal].append(value)
        for shard, sources in SOURCES.items():
            mine = [value for journal in sources for value in values[journal]]
            for value in mine:
                for journal, made in derived(shard, value):
                    values[journal].append(made)
            self._check_store(shard, mine)
        for journal, expected in values.items():
            self._check_journal(journal, expected)
        self._check_wholeness()

    def _check_store(self, shard: str, expected: list[Any]) -> None:
        store = self.truths[shard]
        missing = {value["id"] for value in expected} - set(store.applied)
        surplus = set(store.applied) - {value["id"] for value in expected}
        assert not missing, f"{shard} lost {sorted(missing)}"
        assert not surplus, f"{shard} applied {sorted(surplus)}, which nobody committed"
        sums: Counter[str] = Counter()
        for value in expected:
            sums[value["key"]] += value["amount"]
        assert dict(sums) == store.sums, f"{shard} has other sums"

    def _check_journal(self, journal: str, expected: list[Any]) -> None:
        reader = CommittedReader(journal, LINES)
        reader.feed(Offset(0), self.journals.read(journal, 0))
        found: Counter[str] = Counter()
        while (one := reader.next()) is not None:
            if isinstance(one, Found):
                found.update(LINES.decode(message.frame)["id"] for message in one.messages if not message.is_ack)
        assert found == Counter(value["id"] for value in expected), f"{journal} reads otherwise"

    def _check_wholeness(self) -> None:
        """Check that all messages of one input transaction in one journal were applied in one commit of A."""
        applied = self.truths["A"].applied
        for ids in self.inputs.transactions:
            assert len({applied[id_] for id_ in ids}) == 1, f"{ids} were torn apart"


def derived(shard: str, value: Any) -> list[tuple[str, Any]]:
    """Return the messages that a shard publishes for a message."""
    match shard:
        case "A":
            halves = (value["amount"] // 2, value["amount"] - value["amount"] // 2)
            return [
                (f"mid-{(int(value['key']) + part) % 2}", {**value, "id": f"{value['id']}.{part}", "amount": half})
                for part, half in enumerate(halves)
            ]
        case "B0" | "B1":
            return [("out", {**value, "id": f"{value['id']}!"})]
        case _:
            return []
