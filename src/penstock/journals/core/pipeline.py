"""The pipeline: a primary's streams to all peers of one Route, in one epoch.

Design: transactional-appends.rst; journals.md J4, J6 to J10, J13.

It has two sides. The send side belongs to one append at a time, which streams its content and proposes; with its
proposal sent it hands the side over, so that many appends are in flight. The receive side is the queue of proposals:
acknowledgements come in order, each of them completes the oldest entries, and an entry is a barrier for those after it.

What always holds: content is proposed only when all members adopted the sync and the KeySpace certified it; the mark is
the least that every member has acknowledged; a pipeline whose Spool promised a newer epoch is gone.
"""

from collections import deque
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from penstock.journals.core.certify import next_head
from penstock.journals.core.config import JournalConfig
from penstock.journals.core.effects import CloseStream
from penstock.journals.core.sync import SyncDecision
from penstock.journals.records.epoch import NO_EPOCH, PipelineEpoch
from penstock.journals.records.head import EMPTY_TABLE, HeadRecord, HeadTable, Member
from penstock.journals.records.messages import (
    AdoptRequest,
    ContentRequest,
    MarkRequest,
    Message,
    PromiseRequest,
    PromiseResponse,
    ProposeRequest,
    RefuseResponse,
)
from penstock.journals.records.point import Point
from penstock.journals.records.route import Topology
from penstock.kernel.effects import Effect, Send
from penstock.kernel.ids import NodeId, Offset, Revision

if TYPE_CHECKING:
    from penstock.journals.core.append_fsm import Append

__all__ = ["InFlight", "Pipeline", "PipelinePhase"]


class PipelinePhase(Enum):
    """How far the sync has come."""

    PROMISING = "promising"
    ADOPTING = "adopting"
    CERTIFYING = "certifying"
    READY = "ready"


class InFlight:
    """A proposal which waits for acknowledgement by every member, and who waits for it."""

    __slots__ = ("append", "end", "seq")

    def __init__(self, seq: int, end: Offset, append: "Append | None") -> None:
        self.seq = seq
        self.end = end
        self.append = append  # None: no client waits any more, or none ever did


class Pipeline:
    """One epoch of one journal, as its primary sees it."""

    def __init__(
        self,
        me: NodeId,
        epoch: PipelineEpoch,
        topology: Topology,
        head: HeadRecord | None,
        head_revision: Revision,
        out: list[Effect],
    ) -> None:
        self.me = me
        self.epoch = epoch
        self.topology = topology  # as it was when the pipeline was started
        self.head = head
        self.head_revision = head_revision
        self.out = out
        self.phase = PipelinePhase.PROMISING
        self.is_sent = False  # whether this phase's requests have gone out
        self.peers = tuple(member for member in topology.route.members if member != me)
        self.promises: dict[NodeId, PromiseResponse] = {}
        self.adopted: dict[NodeId, None] = {}
        self.decision: SyncDecision | None = None
        self.refusal: RefuseResponse | None = None
        self.is_certifying = False
        self.seq = 0
        self.acked: dict[NodeId, int] = dict.fromkeys(topology.route.members, 0)
        self.in_flight: deque[InFlight] = deque()
        self.sent_mark = Offset(0)  # what peers know of the mark

    @property
    def members(self) -> tuple[NodeId, ...]:
        return self.topology.route.members

    def is_current(self, topology: Topology) -> bool:
        """Return whether nothing moved: the same members, in the same lives of their assignments."""
        mine = self.topology
        return topology is mine or (topology.route == mine.route and topology.lives == mine.lives)

    def has_all_members(self, topology: Topology) -> bool:
        """Return whether every member of this epoch still is one."""
        return topology is self.topology or set(self.members) <= set(topology.route.members)

    def _tell_peers(self, message: Message) -> None:
        out = self.out
        for peer in self.peers:
            out.append(Send(peer, message))

    @property
    def _stamp(self) -> tuple[Revision, PipelineEpoch]:
        return self.topology.create_revision, self.epoch

    # the sync

    def send_promises(self) -> None:
        self._tell_peers(PromiseRequest(*self._stamp, self.topology.route))

    def has_all_promises(self) -> bool:
        return len(self.promises) == len(self.members)

    def send_adopts(self) -> None:
        assert self.decision is not None
        decision = self.decision
        self._tell_peers(AdoptRequest(*self._stamp, decision.point, self.head_epoch, self.table, decision.is_reset))

    @property
    def head_epoch(self) -> PipelineEpoch:
        return self.head.epoch if self.head is not None else NO_EPOCH

    @property
    def table(self) -> HeadTable:
        return self.head.table if self.head is not None else EMPTY_TABLE

    def has_all_adopted(self) -> bool:
        return len(self.adopted) == len(self.members)

    def next_head(self, config: JournalConfig) -> HeadRecord:
        """The head record which makes this epoch the journal's."""
        assert self.decision is not None
        members = [Member(member, self.promises[member].incarnation) for member in self.members]
        life = self.topology.create_revision
        return next_head(self.head, life, self.epoch, self.decision, members, self.me, config)

    def certified(self, head: HeadRecord) -> None:
        self.head = head
        self.phase = PipelinePhase.READY
        self.send_mark(head.start)

    # content and proposals

    def send_content(self, delta: int, content: Any) -> None:
        if self.peers:
            self._tell_peers(ContentRequest(*self._stamp, delta, content))

    def propose(self, point: Point, mark: Offset, append: "Append | None", content: Any = b"") -> int:
        """Send a proposal which is to be acknowledged, with the last content it covers; return its number."""
        self.seq = seq = self.seq + 1
        self.in_flight.append(InFlight(seq, point.end, append))
        self._send_proposal(point, mark, acknowledge=True, content=content)
        return seq

    def tell(self, point: Point, mark: Offset) -> None:
        """Send a roll or a roll-back, which needs no answer."""
        self._send_proposal(point, mark, acknowledge=False)

    def _send_proposal(self, point: Point, mark: Offset, *, acknowledge: bool, content: Any = b"") -> None:
        self.sent_mark = mark
        if self.peers:
            life, epoch = self.topology.create_revision, self.epoch
            self._tell_peers(ProposeRequest(life, epoch, self.seq, point, mark, acknowledge, content))

    def acknowledge(self, member: NodeId, seq: int) -> list[InFlight]:
        """A member has adopted everything up to `seq`; return what all of them have by now."""
        acked, in_flight = self.acked, self.in_flight
        if seq > acked[member]:
            acked[member] = seq
        everybody = self.least_acked()
        done: list[InFlight] = []
        while in_flight and in_flight[0].seq <= everybody:
            done.append(in_flight.popleft())
        return done

    def least_acked(self) -> int:
        return min(self.acked.values())

    def waits_for(self, append: "Append") -> str:
        """Return in words which members have not acknowledged its proposal."""
        seq = next((entry.seq for entry in self.in_flight if entry.append is append), 0)
        late = [member for member, acked in self.acked.items() if acked < seq]
        return f"acknowledgement by {', '.join(late)}"

    def send_mark(self, mark: Offset) -> None:
        """Tell peers the mark, if no proposal on its way has told them."""
        if mark > self.sent_mark:
            self.sent_mark = mark
            self._tell_peers(MarkRequest(self.topology.create_revision, self.epoch, mark))

    # the limit

    @property
    def limit(self) -> Offset:
        return self.head.limit if self.head is not None else Offset(0)

    def needs_raise(self, end: Offset, config: JournalConfig) -> bool:
        """Ahead of need: when half a step is left, it is time for the next."""
        return end + config.limit_step // 2 >= self.limit

    def close(self) -> None:
        for peer in self.peers:
            self.out.append(CloseStream(peer, self.epoch))

    def check(self) -> None:
        """Assert every invariant."""
        assert all(before.seq < after.seq for before, after in pairwise(self.in_flight))
        if self.in_flight:
            assert self.phase is PipelinePhase.READY
            assert self.in_flight[-1].end <= self.limit
