"""A shard: reads committed messages, lets the application consume them in transactions, and commits those exactly once.

Design: exactly-once.md, gazette.md 2.9. The machine decides when a transaction begins and ends, when to append, and the
content of its checkpoint; the shell (see `effects.py`) reads, appends, runs the application and the store.

- Start: the store is fenced and its checkpoint restored; its ACK intents are appended, again perhaps.
- A transaction begins with its first committed message. It ends when no message is at hand, not before `min_txn_ns`,
  and not while spans have begun whose ACK may come soon (unless told otherwise); at `max_txn_ns` it takes no more.
- Transactions are pipelined: while one commits, the next one runs.

What always holds:

- ACKs are appended only after the store has committed the checkpoint which holds them.
- A transaction commits only when every message it published is in its journal and the one before is done, with ACKs.
- Into a journal which waits for an ACK nothing newer is appended before it: the ACK would roll it back.
- A transaction of a source journal is consumed within one transaction of the shard.
- A checkpoint keeps the state of each source that the shard has read, also of those that it reads no more: a source
  that returns continues where it was, and none of its messages is consumed twice.
"""

import msgspec

from penstock.consumers.core.checkpoint import Checkpoint
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
    Restore,
    Restored,
    Seal,
    ShardCommitted,
    ShardProgress,
    SourceChunk,
)
from penstock.consumers.core.source import ShardSource
from penstock.consumers.core.stat import Stat, Stats
from penstock.consumers.core.transaction import ShardPhase, ShardTxn
from penstock.kernel.effects import Effect, Event, Requested, SetTimer, Stop, TimerFired
from penstock.kernel.errors import MalformedFrame
from penstock.kernel.ids import SECOND, Instant, Offset
from penstock.kernel.probes import reached
from penstock.messages.framing.framing import Framing
from penstock.messages.publisher import Publisher
from penstock.messages.read_state import Horizon, ReadState
from penstock.messages.reader import CommittedReader, OnBad
from penstock.messages.sequencing.ring import Ring
from penstock.messages.uuid import ProducerId

__all__ = ["Shard", "ShardSpec"]

TIMER = "txn"


class ShardSpec(msgspec.Struct, frozen=True):
    """What a shard reads, and how long its transactions are."""

    shard: str
    sources: dict[str, Framing]
    min_txn_ns: int = 0
    max_txn_ns: int = SECOND
    waits_for_ack: bool = True
    ring_length: int = 8192
    held_bytes_max: int = 64 << 20  # of messages which wait for the ACKs of the transaction before
    on_bad: OnBad = OnBad.FAIL
    horizon: Horizon = Horizon()
    min_offsets: dict[str, Offset] = {}  # where a new shard begins to read


class Shard:
    """One assignment of a shard to this process. Its producer is drawn for it, and used by no other assignment."""

    def __init__(self, spec: ShardSpec, producer: ProducerId, *, unix_ns_at_zero: int) -> None:
        self.spec = spec
        self.is_stopped = False
        self.sources: dict[str, ShardSource] = {}
        self.left: dict[str, ReadState] = {}  # states of sources that the shard does not read now
        self.running: ShardTxn | None = None
        self.prior: ShardTxn | None = None
        self._unix_ns_at_zero = unix_ns_at_zero  # the world's time when this process's clock was 0
        self._producer = producer
        self._publisher: Publisher | None = None
        self._txns = 0
        self._appends = 0
        self._held: dict[str, list[tuple[int, bytes]]] = {}  # journal -> appends behind an ACK of the prior transaction
        self._held_bytes = 0
        self._stats = Stats(frozenset(spec.sources))
        self._turn = 0  # which source is asked first

    # in

    def start(self) -> list[Effect]:
        """The shard was assigned to this process."""
        return [Restore()]

    def step(self, event: Event, now: Instant) -> list[Effect]:
        if self.is_stopped:
            return []
        if isinstance(event, Failed):
            return self._stop(event.reason)
        effects = self._handle(event, now)
        try:
            return effects + self._go_on(now)
        except MalformedFrame as error:  # of a source: it stays before the frame
            return effects + self._stop(error.message)

    def _stop(self, reason: str) -> list[Effect]:
        self.is_stopped = True
        return [*self._stats.stop(), Stop(reason)]

    def _handle(self, event: Event, now: Instant) -> list[Effect]:
        match event:
            case Restored(checkpoint):
                return self._on_restored(checkpoint, now)
            case SourceChunk(journal):
                self.sources[journal].chunk(event)
                return []
            case Consumed(publications):
                return self._on_consumed(publications, now)
            case Finalized(publications):
                return self._on_finalized(publications, now)
            case IntentAppended(number, end):
                return self._on_appended(number, end)
            case ShardCommitted(txn):
                return self._on_committed(txn)
            case Requested(request, Stat() as stat):
                return self._stats.ask(request, stat)
            case TimerFired():
                return []
            case _:
                raise AssertionError(f"unknown event {event}")

    # events

    def _on_restored(self, checkpoint: Checkpoint, now: Instant) -> list[Effect]:
        assert self._publisher is None, "restored twice"
        self._publisher = Publisher(self._producer, self._unix_ns_at_zero + now)
        for journal, framing in self.spec.sources.items():
            begin = ReadState(self.spec.min_offsets.get(journal, Offset(0)))
            state = checkpoint.sources.get(journal, begin)
            self.sources[journal] = self._source(journal, framing, state)
        self.left = {journal: state for journal, state in checkpoint.sources.items() if journal not in self.sources}
        if checkpoint.ack_intents:
            reached("consumer.intents_restored")
        self.prior = ShardTxn(0, now, ShardPhase.ACKING, checkpoint=checkpoint)
        return self._append_acks(self.prior)

    def _source(self, journal: str, framing: Framing, state: ReadState) -> ShardSource:
        spec = self.spec
        reader = CommittedReader(
            journal, framing, state, ring=Ring(spec.ring_length), horizon=spec.horizon, on_bad=spec.on_bad
        )
        return ShardSource(reader, state.offset)

    def _on_consumed(self, publications: tuple[Publication, ...], now: Instant) -> list[Effect]:
        txn = self.running
        assert txn is not None, "no transaction is running"
        assert txn.is_consuming, "nothing was to be consumed"
        txn.is_consuming = False
        return self._publish(txn, publications, now)

    def _on_finalized(self, publications: tuple[Publication, ...], now: Instant) -> list[Effect]:
        txn = self.running
        assert txn is not None, "no transaction is running"
        assert txn.phase is ShardPhase.FINALIZING, "it was not to be finalized"
        effects = self._publish(txn, publications, now)
        return effects + self._close(txn)

    def _on_appended(self, number: int, end: Offset) -> list[Effect]:
        for txn in (self.prior, self.running):
            if txn is not None and number in txn.appends:
                journal = txn.appends.pop(number)
                if txn.phase is ShardPhase.ACKING:
                    self._stats.published(journal, end)
                return []
        raise AssertionError(f"append {number} belongs to no transaction")

    def _on_committed(self, number: int) -> list[Effect]:
        txn = self.prior
        assert txn is not None, "no transaction is committing"
        assert (txn.number, txn.phase) == (number, ShardPhase.COMMITTING), f"{number} is not committing"
        txn.phase = ShardPhase.ACKING
        return self._append_acks(txn)

    # publishing

    def _publish(self, txn: ShardTxn, publications: tuple[Publication, ...], now: Instant) -> list[Effect]:
        assert self._publisher is not None
        self._publisher.update(self._unix_ns_at_zero + now)
        effects: list[Effect] = []
        for publication in publications:
            journal = publication.journal
            frames = self._publisher.uncommitted_prepared(journal, publication.framing, publication.prepared)
            if frames:
                effects += self._append(txn, journal, frames)
        return effects

    def _append(self, txn: ShardTxn, journal: str, frames: bytes) -> list[Effect]:
        """Append, or hold the frames back until the prior transaction has appended its ACK there."""
        self._appends += 1
        txn.appends[self._appends] = journal
        prior = self.prior
        if prior is not None and prior.is_before_acks and journal in prior.checkpoint.ack_intents:
            reached("consumer.held_behind_ack")
            self._held.setdefault(journal, []).append((self._appends, frames))
            self._held_bytes += len(frames)
            return []
        return [AppendIntent(self._appends, journal, frames)]

    def _append_acks(self, txn: ShardTxn) -> list[Effect]:
        """The transaction has committed: append its ACKs, and after them the frames held back."""
        effects: list[Effect] = []
        for journal, frame in txn.checkpoint.ack_intents.items():
            self._appends += 1
            txn.appends[self._appends] = journal
            effects.append(AppendIntent(self._appends, journal, frame))
            effects += [AppendIntent(number, journal, frames) for number, frames in self._held.pop(journal, [])]
        self._held_bytes = 0
        return effects

    # the transactions

    def _go_on(self, now: Instant) -> list[Effect]:
        """Continue everything that can continue now."""
        if self._publisher is None:
            return []
        effects = self._go_on_with_prior()
        effects += self._consume(now)
        effects += self._end(now)
        return effects + self._report_idle()

    def _go_on_with_prior(self) -> list[Effect]:
        prior = self.prior
        if prior is None or prior.appends:
            return []
        if prior.phase is ShardPhase.FLUSHING:
            prior.phase = ShardPhase.COMMITTING
            return [CommitShard(prior.number)]
        if prior.phase is ShardPhase.ACKING:
            self.prior = None
            states = prior.checkpoint.sources
            return self._report({journal: states[journal].offset for journal in self.sources if journal in states})
        return []

    def _consume(self, now: Instant) -> list[Effect]:
        """Hand messages to the application, or ask for some to be read."""
        txn = self.running
        if txn is not None and (
            txn.is_consuming or txn.phase is not ShardPhase.RUNNING or not self._may_take(txn, now)
        ):
            return []
        effects: list[Effect] = []
        for source in self._in_turn():
            messages = source.take()
            effects += [Noticed(source.journal, found) for found in source.noticed()]
            if messages:
                if txn is None:
                    txn = self._begin(now)
                    effects.append(SetTimer(TIMER, Instant(now + self.spec.min_txn_ns)))
                txn.consumed += len(messages)
                txn.is_consuming = True
                return [*effects, Consume(txn.number, source.journal, messages)]
            read = source.ask()
            if read is not None:
                effects.append(read)
        return effects

    def _in_turn(self) -> list[ShardSource]:
        """Return the sources, each first at its turn; but a source in the middle of a transaction before all others."""
        sources = list(self.sources.values())
        middle = [source for source in sources if source.is_mid_span]
        if middle:
            return middle
        self._turn += 1
        first = self._turn % len(sources) if sources else 0
        return sources[first:] + sources[:first]

    def _may_take(self, txn: ShardTxn, now: Instant) -> bool:
        if self._is_mid_span:
            return True
        if self._held_bytes > self.spec.held_bytes_max:
            reached("consumer.held_too_much")
            return False
        return now - txn.began_at < self.spec.max_txn_ns

    @property
    def _is_mid_span(self) -> bool:
        return any(source.is_mid_span for source in self.sources.values())

    def _begin(self, now: Instant) -> ShardTxn:
        self._txns += 1
        self.running = ShardTxn(self._txns, now)
        if self.prior is not None:
            reached("consumer.pipelined")
        return self.running

    def _end(self, now: Instant) -> list[Effect]:
        """Finalize the transaction, if it may end; else look again when its time has come."""
        txn = self.running
        if txn is None or txn.is_consuming or txn.phase is not ShardPhase.RUNNING or self.prior is not None:
            return []
        if self._is_mid_span:
            return []
        age = now - txn.began_at
        if age < self.spec.min_txn_ns:
            return [SetTimer(TIMER, Instant(txn.began_at + self.spec.min_txn_ns))]
        awaits_ack = self.spec.waits_for_ack and any(source.awaits_ack for source in self.sources.values())
        if awaits_ack and age < self.spec.max_txn_ns:
            return [SetTimer(TIMER, Instant(txn.began_at + self.spec.max_txn_ns))]
        txn.phase = ShardPhase.FINALIZING
        return [Finalize(txn.number)]

    def _close(self, txn: ShardTxn) -> list[Effect]:
        """The checkpoint is made, the store sealed; the next transaction may begin."""
        assert self._publisher is not None
        assert self.prior is None, "the transaction before is not done"
        sources = {journal: source.checkpoint() for journal, source in self.sources.items()}
        txn.checkpoint = Checkpoint(self.left | sources, self._publisher.ack_intents())
        txn.phase = ShardPhase.FLUSHING
        self.prior, self.running = txn, None
        return [Seal(txn.number, txn.checkpoint)]

    # progress

    def _report_idle(self) -> list[Effect]:
        """Duplicates, roll-backs and lone ACKs begin no transaction, and still are progress."""
        if self.running is not None or self.prior is not None:
            return []
        return self._report({journal: source.offset for journal, source in self.sources.items()})

    def _report(self, read: dict[str, Offset]) -> list[Effect]:
        if read == self._stats.read_through:
            return []
        return [ShardProgress(read), *self._stats.advance(read)]

    def check(self) -> None:
        """The invariants."""
        prior, running = self.prior, self.running
        if running is not None:
            assert running.phase in (ShardPhase.RUNNING, ShardPhase.FINALIZING)
            assert running.consumed > 0, "a transaction begins with a message"
            assert prior is None or prior.number < running.number
        if prior is not None:
            assert prior.phase in (ShardPhase.FLUSHING, ShardPhase.COMMITTING, ShardPhase.ACKING)
            assert prior.phase is not ShardPhase.COMMITTING or not prior.appends, (
                "it commits only when everything is appended"
            )
        for journal in self._held:
            assert prior is not None
            assert prior.is_before_acks, "held back behind nothing"
            assert journal in prior.checkpoint.ack_intents
        held = sum(len(frames) for appends in self._held.values() for _, frames in appends)
        assert held == self._held_bytes
