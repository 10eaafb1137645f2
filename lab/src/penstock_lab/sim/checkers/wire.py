"""What leaves a node or an operator: the wire cannot be argued with. Invariants of quorum-log.md:

I18 nothing tagged below an epoch a node was fenced into, restarts included · P9 the head in a fence answer is durable
and final, BecomeLeader goes to one node, by the operator that wrote the epoch in this run · P13 an acknowledgement
names only durable entries · P14 every answer carries its sender's incarnation.
"""

from typing import Any

from penstock.kernel.effects import TruncateLog
from penstock.kernel.ids import Epoch, NodeId
from penstock.quorum.records.messages import (
    AddEntryResponse,
    BecomeLeaderRequest,
    FenceRequest,
    FenceResponse,
    Refusal,
    Response,
)
from penstock_lab.sim.checkers.book import Author
from penstock_lab.sim.checkers.hosts import CheckedHost
from penstock_lab.sim.checkers.shadow_log import durable_epoch_at, durable_head

__all__ = ["WireChecker"]


class WireChecker:
    """Sees every message when it is sent."""

    def __init__(self, writers: dict[Epoch, Author]) -> None:
        self.writers = writers  # which operator wrote an epoch into the metadata, in which run
        self.chosen: dict[Epoch, NodeId] = {}

    def node_sends(self, host: CheckedHost, message: Any) -> None:
        core = host.core
        assert core is not None
        least = max(host.fenced, host.record.promised)
        assert message.epoch >= least, f"I18: {host.name} was fenced into {least} and sends {message}"
        if isinstance(message, Response):
            assert message.sender == host.member.incarnation, f"P14: {host.member} answers as {message.sender}"
        kind = type(message)
        if kind is AddEntryResponse:
            self._acknowledges(host, message)
        elif kind is FenceResponse:
            self._answers_fence(host, message)
        elif kind is Refusal:
            assert message.epoch == core.epoch

    def _acknowledges(self, host: CheckedHost, message: AddEntryResponse) -> None:
        disk, head = host.node.disk, message.head
        assert disk.state.epoch >= message.epoch or head.epoch >= message.epoch, (
            f"P9: {host.name} acknowledges in epoch {message.epoch}, which is not durable"
        )
        is_held = head.offset == 0 or durable_epoch_at(disk, head.offset) == head.epoch
        assert is_held, f"P13: {host.name} acknowledges {head}, and it is not durable"

    def _answers_fence(self, host: CheckedHost, message: FenceResponse) -> None:
        disk = host.node.disk
        assert disk.state.epoch >= message.epoch, f"P9: {host.name} answers Fence({message.epoch}) before it is durable"
        found = durable_head(disk)
        if disk.pending:  # a truncation may be: by the leader of this very epoch, so this answer elects no node
            is_shrinking = all(isinstance(operation, TruncateLog) for operation in disk.pending)
            assert is_shrinking, f"P9: {host.name} answers Fence({message.epoch}) while writes are under way"
            assert durable_epoch_at(disk, message.head.offset) == message.head.epoch, f"P9: {message} of {found}"
        else:
            assert message.head == found, f"P9: {host.name} says {message.head}, its disk {found}"
        host.record.promised = max(host.record.promised, message.epoch)

    def operator_sends(self, author: Author, to: NodeId, message: Any) -> None:
        if isinstance(message, BecomeLeaderRequest):
            epoch = message.epoch
            known = self.chosen.setdefault(epoch, to)
            assert known == to, f"P9: BecomeLeader({epoch}) to {known}, and to {to}"
            writer = self.writers.get(epoch)
            assert writer == author, f"P9: {author} sends BecomeLeader({epoch}), which {writer} wrote"
        elif isinstance(message, FenceRequest):
            assert message.epoch in self.writers, f"P9: {author} fences into {message.epoch}, which nobody wrote"
