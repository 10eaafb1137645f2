"""Operators as simulated processes, and the metadata they battle for: one compare-and-set cell.

The cell is what a KeySpace is to an operator, with the worst it may do: answers come late or never, a write whose
answer was lost counts as "no" and is made all the same, perhaps much later.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from penstock.kernel.effects import Effect, Event, Reply
from penstock.kernel.ids import Instant, NodeId, Revision
from penstock.kernel.machine import Machine
from penstock.kernel.probes import reached
from penstock.quorum.core.config import OperatorConfig
from penstock.quorum.core.operator import Operator
from penstock.quorum.records.metadata import Metadata, MetadataRead, MetadataWritten, ReadMetadata, WriteMetadata
from penstock_lab.sim.checkers.quorum import QuorumChecks
from penstock_lab.sim.disk import DiskContent
from penstock_lab.sim.node import SimNode

__all__ = ["MetadataCell", "OperatorProgram"]


class Petitioner(Protocol):
    """The source of a request to an operator."""

    def granted(self, reply: Reply) -> None: ...


class MetadataCell:
    """The shard's metadata at a revision."""

    def __init__(self, metadata: Metadata, checks: QuorumChecks, rng: Random) -> None:
        self.metadata = metadata
        self.revision = Revision(1)
        self.delay_ns = 300_000
        self.lose = 0.0  # the chance that an answer, or the question, is lost
        self.on_write: Callable[[SimNode, Metadata], None] = lambda *_: None
        self._checks = checks
        self._rng = rng
        checks.metadata = metadata

    def delay(self) -> int:
        return 1 + int(self._rng.random() * self.delay_ns)

    def read(self, node: SimNode) -> None:
        """Read it some time later, and answer some time after that."""

        def look() -> None:
            answer = MetadataRead(self.metadata, self.revision)
            if not self._is_lost():
                self._later(node, answer)

        node.world.after(self.delay(), look)

    def write(self, node: SimNode, effect: WriteMetadata) -> None:
        run = node.run
        if not self._is_lost():
            node.world.after(self.delay(), lambda: self._answer(node, self._swap(node, run, effect)))
        elif self._rng.random() < 0.5:
            self._later(node, MetadataWritten(False, self.revision))
        else:
            self._later(node, MetadataWritten(False, self.revision))
            node.world.after(self.delay() + 10 * self.delay(), lambda: self._swap_late(node, run, effect))

    def _answer(self, node: SimNode, is_written: bool) -> None:
        if is_written and self._is_lost():
            reached("quorum.answer_of_write_lost")
            is_written = False
        self._later(node, MetadataWritten(is_written, self.revision))

    def _swap_late(self, node: SimNode, run: int, effect: WriteMetadata) -> None:
        if self._swap(node, run, effect):
            reached("quorum.write_made_late")

    def _swap(self, node: SimNode, run: int, effect: WriteMetadata) -> bool:
        if effect.revision != self.revision:
            return False
        self.metadata, self.revision = effect.metadata, Revision(self.revision + 1)
        node.world.note("metadata", "=", f"{self.revision} {effect.metadata}")
        self._checks.metadata_written((node.name, run), effect.metadata)
        self.on_write(node, effect.metadata)
        return True

    def _is_lost(self) -> bool:
        return bool(self.lose) and self._rng.random() < self.lose

    def _later(self, node: SimNode, event: Event) -> None:
        run = node.run

        def tell() -> None:
            if node.run == run:
                node.deliver(event)

        node.world.after(self.delay(), tell)


class OperatorProgram:
    """One operator's process. It keeps nothing."""

    def __init__(
        self,
        name: NodeId,
        operator_class: type[Operator],
        config: OperatorConfig,
        cell: MetadataCell,
        petitioner: Petitioner,
    ) -> None:
        self.name = name
        self.operator_class = operator_class
        self.config = config
        self.cell = cell
        self.petitioner = petitioner

    def boot(self, node: SimNode, found: DiskContent) -> tuple[Machine, Sequence[Effect]]:
        operator = self.operator_class(self.config)
        return operator, operator.begin(Instant(node.now))

    def perform(self, node: SimNode, effect: Effect) -> None:
        match effect:
            case ReadMetadata():
                self.cell.read(node)
            case WriteMetadata():
                self.cell.write(node, effect)
            case Reply():
                self.petitioner.granted(effect)
            case _:
                raise AssertionError(f"unknown effect {effect}")
