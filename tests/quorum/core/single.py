"""One node in a test's hands: every event by hand, every list of effects in full."""

from collections.abc import Sequence

from tests.quorum.core.cluster import member, members

from penstock.kernel.effects import Effect, Event, Persist, Persisted, Received, SaveState, StateSaved
from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, Incarnation, Instant, Lsn, NodeId, Offset, RequestId
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.node import Node
from penstock.quorum.records.effects import Append, AppendRequest, Applied, Apply, SnapshotRestored
from penstock.quorum.records.entry import ClientId, Entry, Txn
from penstock.quorum.records.messages import AddEntryResponse, BecomeLeaderRequest, FenceRequest, Message
from penstock.quorum.records.state import NodeState

A, B, C, D = members("ABCD")
I1 = Incarnation("i1")
OP = NodeId("op")
E0, E1, E2, E3 = map(Epoch, range(4))


def txn(value: str, request: int, epoch: int = 1, *, is_sync: bool = True) -> Txn:
    """The entry a request made by `Single.append` becomes."""
    return Txn(Epoch(epoch), ClientId("c"), request, value.encode(), is_sync)


class Single:
    """A node called A, formatted, with an empty log unless told otherwise."""

    def __init__(
        self, entries: Sequence[Entry] = (), *, state: NodeState | None = None, config: NodeConfig | None = None
    ) -> None:
        self.now = Instant(0)
        state = state or NodeState(A, is_formatted=True)
        self.node, self.first_effects = Node.recover(state, Offset(1), entries, config)
        self.step(SnapshotRestored(state.snapshot.head))
        while any(isinstance(effect, Apply) for effect in self.last):
            self.apply()

    def step(self, event: Event) -> list[Effect]:
        self.last = self.node.step(event, self.now)
        if not self.node.has_failed:
            self.node.check()
            assert self.node.copy().fingerprint() == self.node.fingerprint()
        return self.last

    def hear(self, sender: str, message: Message) -> list[Effect]:
        return self.step(Received(NodeId(sender), message))

    def save(self) -> list[Effect]:
        return self.step(StateSaved())

    def sync(self, upto: int | None = None) -> list[Effect]:
        """The disk has written up to here, or everything."""
        return self.step(Persisted(Lsn(self.node.log.end if upto is None else upto)))

    def apply(self) -> list[Effect]:
        """Let the state machine apply what it was given in the last step; every result is the offset."""
        (effect,) = [effect for effect in self.last if isinstance(effect, Apply)]
        last = Offset(effect.first + len(effect.entries) - 1)
        return self.step(Applied(last, tuple(range(effect.first, last + 1))))

    def append(self, *values: str, first_request: int = 1, **options: object) -> list[Effect]:
        requests = [
            AppendRequest(RequestId(request), ClientId("c"), request, value.encode(), **options)  # type: ignore[arg-type]
            for request, value in enumerate(values, first_request)
        ]
        return self.step(Append(tuple(requests)))

    def ack(self, name: str, epoch: int, offset: int, *, request_epoch: int | None = None) -> list[Effect]:
        """A follower says how far it is durable."""
        head = EntryId(Epoch(epoch), Offset(offset))
        return self.hear(name, AddEntryResponse(Epoch(request_epoch or epoch), I1, head))

    def lead(self, epoch: int = 1, names: str = "ABC", heads: dict[str, EntryId] | None = None) -> list[Effect]:
        """Be fenced and become leader; returns the effects of becoming one."""
        self.hear("op", FenceRequest(Epoch(epoch), I1))
        self.save()
        known = tuple((member(name), head) for name, head in (heads or {}).items())
        return self.hear("op", BecomeLeaderRequest(Epoch(epoch), I1, members(names), known))

    def lead_in_peace(self, names: str = "ABC") -> None:
        """Lead epoch 1 with everybody following, the barrier (1/1) and its CONFIRM (1/2) everywhere."""
        self.lead(1, names, {name: NO_ENTRY for name in names if name != "A"})
        self.sync()
        for name in names[1:]:
            self.ack(name, 1, 1)
            if any(isinstance(effect, Apply) for effect in self.last):
                self.apply()
        if names == "A":
            self.apply()
        self.sync()
        for name in names[1:]:
            self.ack(name, 1, 2)
            if any(isinstance(effect, Apply) for effect in self.last):
                self.apply()
        assert self.node.replica.commit >= 1


def persists(effects: Sequence[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, Persist | SaveState)]
