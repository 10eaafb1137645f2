"""The checkers' knowledge of a node: its process, its disk, its log by its effects, and its claims."""

from dataclasses import dataclass, field
from typing import Any

from penstock.kernel.effects import Effect, Persist, SaveState
from penstock.kernel.ids import EntryId
from penstock.quorum.core.node import Node as Core
from penstock.quorum.records.member import Member
from penstock_lab.sim.checkers.shadow_log import ShadowLog
from penstock_lab.sim.node import SimNode

__all__ = ["CheckedHost", "HostRecord"]


@dataclass(slots=True)
class HostRecord:
    """The facts about one member for as long as it exists: across restarts, but not beyond the loss of its disk."""

    promised: int = 0  # the highest epoch it has answered a fence of
    exposed: int = 0  # the highest offset a reader has seen there
    confirmed: int = 0  # the largest u of a CONFIRM ever durable there, or a snapshot
    is_damaged: bool = False  # its state machine was made wrong, or began with a wrong snapshot
    is_diverged: bool = False  # it has written down that it is wrong
    held: dict[int, int] = field(default_factory=dict)  # epoch -> the highest offset of it ever durable there
    held_snapshot: int = 0  # the highest offset of a snapshot ever durable there

    def has_held(self, id_: EntryId) -> bool:
        return self.held.get(id_.epoch, 0) >= id_.offset or self.held_snapshot >= id_.offset

    def see(self, operation: Effect) -> None:
        """A write is durable."""
        match operation:
            case Persist(first, records):
                for offset, entry in enumerate(records, first):
                    self.held[entry.epoch] = max(offset, self.held.get(entry.epoch, 0))
                    upto = getattr(entry, "upto", 0)
                    self.confirmed = max(self.confirmed, upto)
            case SaveState(state):
                offset = state.snapshot.head.offset
                self.held_snapshot = max(self.held_snapshot, offset)
                self.confirmed = max(self.confirmed, offset)
                self.is_diverged = self.is_diverged or state.divergence is not None
            case _:
                pass


@dataclass(slots=True)
class CheckedHost:
    """A node of the world, as the checkers see it."""

    node: SimNode
    member: Member
    record: HostRecord = field(default_factory=HostRecord)
    log: ShadowLog = field(default_factory=ShadowLog)
    core: Core | None = None  # while the process runs
    # in this run of the process:
    commit: int = 0  # its last claimed commit
    confirmed: int = 0
    known: int = 0  # the highest offset that it had reason to call committed
    applied: int = 0  # handed to its state machine
    leads: int = 0  # the epoch it leads
    led: int = 0  # the highest it has led
    epoch: int = 0
    fenced: int = 0  # the last epoch it was fenced into as a higher one
    followed: int = 0  # the last epoch in which it took a leader's request
    cursors: dict[Member, tuple[Any, int]] = field(default_factory=dict)
    is_cutting: bool = False  # its last step has truncated the log, or put a snapshot in its place

    @property
    def name(self) -> str:
        return self.node.name

    def starts(self, core: Core) -> None:
        """A new run: what the last one knew is gone."""
        self.core = core
        self.log = ShadowLog.found(self.node.disk)
        self.commit = self.confirmed = self.known = self.applied = 0
        self.leads = self.led = self.epoch = self.fenced = self.followed = 0
        self.cursors = {}
