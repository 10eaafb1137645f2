"""Mutants of exactly once: each breaks one rule in a few lines, and the simulator must catch it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.consumers.core.effects import AppendIntent, Seal
from penstock.consumers.core.recoverylog.hints import Hints
from penstock.consumers.core.recoverylog.playback import LinkFiles, Playback, PlayState
from penstock.consumers.core.recoverylog.pruning import Extent, PruningPlan, plan
from penstock.consumers.core.shard import Shard
from penstock.consumers.core.source import ShardSource
from penstock.consumers.core.transaction import ShardPhase, ShardTxn
from penstock.kernel.effects import Effect
from penstock.kernel.ids import Clock, Instant, Offset
from penstock.messages.framing.framing import Framing
from penstock.messages.message import Message
from penstock.messages.outcome import SequenceOutcome
from penstock.messages.read_state import Horizon, ReadState
from penstock.messages.sequencing.sequencer import Sequencer
from penstock.messages.uuid import ACK_TXN

__all__ = ["MUTANTS", "ConsumerMutant"]


class AckBeforeCommit(Shard):
    """Appends the ACKs when the transaction is sealed, before its store has committed."""

    def _close(self, txn: ShardTxn) -> list[Effect]:
        effects = super()._close(txn)
        for journal, frame in txn.checkpoint.ack_intents.items():
            self._appends += 1
            txn.appends[self._appends] = journal
            effects.append(AppendIntent(self._appends, journal, frame))
        return effects


class NoIntentsRestored(Shard):
    """Does not append the intents of the checkpoint it restores."""

    def _on_restored(self, checkpoint: Checkpoint, now: Instant) -> list[Effect]:
        return super()._on_restored(Checkpoint(checkpoint.sources), now)


class NextBeforeAck(Shard):
    """Appends messages of the next transaction without waiting for the ACKs of the one before."""

    def _append(self, txn: ShardTxn, journal: str, frames: bytes) -> list[Effect]:
        prior, self.prior = self.prior, None
        effects = super()._append(txn, journal, frames)
        self.prior = prior
        return effects


class CommitsTooEarly(Shard):
    """Commits while messages of the transaction are still on their way, and loses some if it dies."""

    def _go_on_with_prior(self) -> list[Effect]:
        prior = self.prior
        if prior is not None and prior.phase is ShardPhase.FLUSHING:
            self.forgotten = getattr(self, "forgotten", set()) | set(prior.appends)
            prior.appends = {}
        return super()._go_on_with_prior()

    def _on_appended(self, number: int, end: Offset) -> list[Effect]:
        return [] if number in getattr(self, "forgotten", ()) else super()._on_appended(number, end)


class SealsWithoutState(Shard):
    """Leaves the producers' states out of the checkpoint: offsets alone."""

    def _close(self, txn: ShardTxn) -> list[Effect]:
        effects = super()._close(txn)
        sources = {journal: ReadState(state.offset) for journal, state in txn.checkpoint.sources.items()}
        txn.checkpoint = Checkpoint(sources, txn.checkpoint.ack_intents)
        return [Seal(txn.number, txn.checkpoint) if isinstance(effect, Seal) else effect for effect in effects]


class ByOffsetOnly(Sequencer):
    """Takes every message at a new offset for a new one, whatever its clock."""

    def push(self, message: Message) -> SequenceOutcome:
        if message.clock and message.flags != ACK_TXN:
            producer = self._find(message)
            before = Clock(message.clock - 1)
            producer.last_ack = min(producer.last_ack, before)
            producer.last_clock = min(producer.last_clock, before)
        return super().push(message)

    def check(self) -> None:
        """A machine's own check is not the judge here."""


class DedupByOffset(Shard):
    """Reads by offset only."""

    def _source(self, journal: str, framing: Framing, state: ReadState) -> ShardSource:
        source = super()._source(journal, framing, state)
        source._reader.sequencer.__class__ = ByOffsetOnly
        return source


class TakesOverBlindly(Playback):
    """Does not wait until it reads its own handoff, and misses what others recorded just before it."""

    def _maybe_inject(self) -> list[Effect]:
        effects = super()._maybe_inject()
        if effects:
            self.state = PlayState.DONE
            effects.append(LinkFiles(dict(self.fsm.paths)))
        return effects


def prunes_by_the_end_alone(log: str, fragments: Iterable[Extent], hints: Sequence[Hints]) -> PruningPlan:
    """Whatever lies before the end of the hints goes, live segments too."""
    return plan(log, fragments, [Hints(log, (), each.end) for each in hints])


@dataclass(frozen=True)
class ConsumerMutant:
    """Which rule is broken, and by whom."""

    rule: str
    shard: type[Shard] = Shard
    is_fenced: bool = True
    is_handoff_checked: bool = True
    playback: type[Playback] = Playback
    planned: Callable[..., PruningPlan] = plan
    horizon: Horizon = Horizon()  # noqa: RUF009 (frozen)


MUTANTS: dict[str, ConsumerMutant] = {
    "ack-before-commit": ConsumerMutant("ACKs are appended only after the store has committed", AckBeforeCommit),
    "no-fence": ConsumerMutant("after a restore, no older process can commit", is_fenced=False),
    "dedup-by-offset": ConsumerMutant("a smaller clock behind a larger one is a duplicate", DedupByOffset),
    "prunes-live-producers": ConsumerMutant("a producer at work is not forgotten", horizon=Horizon(clock=0, bytes=0)),
    "no-intents-restored": ConsumerMutant("restored ACK intents are appended again", NoIntentsRestored),
    "next-before-ack": ConsumerMutant(
        "nothing newer is appended before an ACK which would roll it back", NextBeforeAck
    ),
    "commits-too-early": ConsumerMutant("a transaction commits when all its messages are appended", CommitsTooEarly),
    "takes-over-blindly": ConsumerMutant(
        "a handoff counts once it is read back as the next", playback=TakesOverBlindly
    ),
    "handoff-unchecked": ConsumerMutant("a late handoff does not take the log back", is_handoff_checked=False),
    "prunes-live-segments": ConsumerMutant("no live segment of a log is pruned", planned=prunes_by_the_end_alone),
    "offsets-alone": ConsumerMutant("a checkpoint holds the producers' states", SealsWithoutState),
}
