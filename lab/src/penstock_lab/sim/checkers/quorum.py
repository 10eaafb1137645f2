"""All checkers of the quorum log together: they see every boot, step, write, message and answer of a world's nodes.

One family of invariants per file; this one only passes events on, in the right order.
"""

from collections.abc import Sequence
from typing import Any

from penstock.kernel.effects import Effect, Event, Persist, Received, SaveState, TruncateLog
from penstock.kernel.ids import Epoch, NodeId
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.node import Node as Core
from penstock.quorum.records.answers import Answers
from penstock.quorum.records.effects import Apply, RestoreSnapshot, TakeSnapshot
from penstock.quorum.records.member import Member, majority
from penstock.quorum.records.messages import AddEntryRequest, FenceRequest, SnapshotRequest, TruncateRequest
from penstock.quorum.records.metadata import Metadata, Status
from penstock.quorum.records.reconfiguration import Phase, final_ensemble
from penstock.quorum.records.resolution import Resolution
from penstock_lab.sim.checkers.answers import AnswerChecker
from penstock_lab.sim.checkers.applies import AgreementChecker, ApplyChecker
from penstock_lab.sim.checkers.book import FOR_EVER, Author, Book
from penstock_lab.sim.checkers.commits import CommitChecker, Quorum
from penstock_lab.sim.checkers.elections import ElectionChecker
from penstock_lab.sim.checkers.history import OperationHistory
from penstock_lab.sim.checkers.hosts import CheckedHost, HostRecord
from penstock_lab.sim.checkers.logs import LogChecker
from penstock_lab.sim.checkers.reads import ReadChecker
from penstock_lab.sim.checkers.resolutions import ResolutionChecker
from penstock_lab.sim.checkers.wire import WireChecker
from penstock_lab.sim.node import SimNode

__all__ = ["QuorumChecks"]

DURABLE = (Persist, SaveState, TruncateLog)


class QuorumChecks:
    """The judge of one world."""

    def __init__(self, config: NodeConfig, pairs_max: int = FOR_EVER) -> None:
        self.hosts: dict[NodeId, CheckedHost] = {}
        self.records: dict[Member, HostRecord] = {}
        self.quorums: dict[int, list[Quorum]] = {}
        self.writers: dict[Epoch, Author] = {}
        self.metadata: Metadata | None = None
        self.history = OperationHistory()
        self.book = Book(pairs_max)
        self.logs = LogChecker(self.book)
        self.commits = CommitChecker(self.book, self.records, self.quorums)
        self.agreement = AgreementChecker(self.records)
        self.elections = ElectionChecker(self.book, self.commits, self.hosts)
        self.wire = WireChecker(self.writers)
        self.applies = ApplyChecker(self.book)
        self.answers = AnswerChecker(self.book, self.logs, self.history, self.records, self.quorums, config)
        self.resolutions = ResolutionChecker(self.book, config)
        self.reads = ReadChecker(self.book, self.history)
        self.wrong_snapshots: set[bytes] = set()  # of state machines that were made wrong
        self._is_stale = False  # a disk, the committed log or the metadata has changed since `looked`

    # nodes

    def formatted(self, node: SimNode, member: Member) -> CheckedHost:
        """A node has a data folder, new and empty."""
        host = self.hosts[node.name] = CheckedHost(node, member)
        self.records[member] = host.record

        def on_durable(operation: Effect) -> None:
            host.record.see(operation)
            self._is_stale = True

        node.disk.on_durable = on_durable
        return host

    def booted(self, host: CheckedHost, core: Core, effects: Sequence[Effect]) -> None:
        host.starts(core)
        host.commit = core.replica.commit
        host.confirmed = core.log.confirmed
        host.known = max(host.confirmed, host.record.confirmed)
        assert host.commit <= self.book.end, f"I25: {host.name} starts with {host.commit} of {self.book.end} committed"
        self.book.claim(host.name, host.log, host.commit)
        self.logs.booted(host)
        self.agreement.booted(host)
        self._saw_effects(host, effects, 0)

    def stepped(self, host: CheckedHost, event: Event, effects: Sequence[Effect], now: int) -> None:
        """A node has taken a step; its effects have not run yet."""
        if type(event) is Received:
            self._received(host, event.message)
        core = host.core
        assert core is not None
        has_durable = self.logs.cut(host, effects) if effects else False
        self.agreement.stepped(host, effects)
        if not core.has_failed:
            self.elections.stepped(host)
            self._is_stale = self.commits.stepped(host) or self._is_stale
        if effects:
            self._saw_effects(host, effects, now)
        if has_durable:
            self.logs.wrote(host, effects)
            for offset, txn in self.logs.take_new():
                self.answers.appended(host, offset, txn)

    def _received(self, host: CheckedHost, message: Any) -> None:
        """Note the effect of a fence or a leader's request on a node's right to speak and to lead (P9)."""
        assert host.core is not None
        if getattr(message, "target", None) != host.member.incarnation or message.epoch < host.epoch:
            return
        if isinstance(message, FenceRequest):
            if message.epoch > host.epoch and (host.core.replica.is_formatted or message.is_forming):
                host.fenced = message.epoch
        elif isinstance(message, AddEntryRequest | TruncateRequest | SnapshotRequest) and host.leads != message.epoch:
            host.followed = message.epoch

    def _saw_effects(self, host: CheckedHost, effects: Sequence[Effect], now: int) -> None:
        has_durable = False
        for effect in effects:
            kind = type(effect)
            if kind in DURABLE:
                has_durable = True
                continue
            assert not has_durable, f"{effect} stands behind a durable effect: it may speak for an epoch already left"
            if kind is Apply:
                self.applies.apply(host, effect)  # type: ignore[arg-type]
            elif kind is Answers:
                self.answers.answered(host, effect, now)  # type: ignore[arg-type]
            elif kind is TakeSnapshot:
                self.applies.snapshot(host, effect.snapshot)  # type: ignore[attr-defined]
            elif kind is RestoreSnapshot:
                self.applies.restores(host, effect.snapshot)  # type: ignore[attr-defined]

    def looked(self) -> None:
        """After every step of anybody: could a bad leader be elected now?"""
        if self._is_stale and self.metadata is not None:
            self._is_stale = False
            self.elections.check_electable(self.metadata.final_ensemble)

    # messages and metadata

    def sent(self, source: NodeId, run: int, to: NodeId, message: Any) -> None:
        host = self.hosts.get(source)
        if host is not None:
            self.wire.node_sends(host, message)
        else:
            self.wire.operator_sends((source, run), to, message)

    def metadata_written(self, writer: Author, metadata: Metadata) -> None:
        """I27, and who may commit in which epoch from now on (P2, P11)."""
        before = self.metadata
        assert before is not None
        assert metadata.epoch >= before.epoch, f"I27: {writer} writes epoch {metadata.epoch} over {before.epoch}"
        if metadata.epoch > before.epoch:
            self.writers[metadata.epoch] = writer
        self.metadata = metadata
        self._is_stale = True
        quorum = _quorum(metadata)
        known = self.quorums.setdefault(metadata.epoch, [])
        if quorum not in known:
            known.append(quorum)

    def finish(self) -> None:
        self.answers.finish()
        self.reads.finish()
        for question in self.history.resolves.values():
            if question.answer in (Resolution.COMMITTED, Resolution.ABORTED):
                verdict = self.book.verdict(question.entry)
                assert question.answer.value == verdict, f"I14: {question}, and in the end it is {verdict}"


def _quorum(metadata: Metadata) -> Quorum:
    """Return the quorum: while a change is prepared, the ensemble's majority must be found among the members
    that stay.
    """
    ensemble, change = metadata.ensemble, metadata.reconfiguration
    if metadata.status is Status.RECONFIGURATION and change is not None and change.phase is Phase.PREPARE:
        return majority(len(ensemble)), tuple(each for each in ensemble if each != change.change.old)
    final = final_ensemble(ensemble, change.change if change is not None else None)
    return majority(len(final)), final
