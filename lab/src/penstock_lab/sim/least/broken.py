"""Replicas with one rule of decision 312 broken each. See `mutants`."""

import msgspec

from penstock.journals.core.append_fsm import Append, AppendState
from penstock.journals.core.config import JournalConfig
from penstock.journals.core.lead import Lead
from penstock.journals.core.pipeline import Pipeline
from penstock.journals.core.replica import Replica
from penstock.journals.core.replicate import Replicate
from penstock.journals.core.sync import SyncDecision
from penstock.journals.records.head import HeadRecord, HeadTable
from penstock.journals.records.messages import PromiseRequest
from penstock.journals.records.route import Route, Topology
from penstock.kernel.ids import NodeId


class AcksOfParticipants(Pipeline):
    """312b: a member that was no participant of the sync need not acknowledge."""

    counted: tuple[NodeId, ...] = ()

    def certified(self, head: HeadRecord) -> None:
        last = self.head_epoch
        self.counted = tuple(name for name, promise in self.promises.items() if promise.spool_epoch >= last)
        super().certified(head)

    def least_acked(self) -> int:
        return min((self.acked[name] for name in self.counted), default=super().least_acked())


class ForgetsWhoLeft(Pipeline):
    """312e: the table has its last entries alone, although a broker left under an older one."""

    def next_head(self, config: JournalConfig) -> HeadRecord:
        head = super().next_head(config)
        return msgspec.structs.replace(
            head, table=HeadTable(head.table.entries[-config.table_max :], head.table.is_cut)
        )


class OneCopyCommits(Lead):
    """312, J12: what a sync keeps is committed, on however few members."""

    def decide(self, pipeline: Pipeline) -> SyncDecision | None:
        decision = super().decide(pipeline)
        return None if decision is None else msgspec.structs.replace(decision, sure=None)


class FirstByFew(Append):
    """312c: the first epoch of a life, and a reset, have `least` members."""

    def _too_few(self) -> AppendState | None:
        topology = self.replica.topology
        assert topology.spec is not None
        return None if len(topology.route.members) >= topology.spec.fewest else super()._too_few()


class AnyRoute(Replicate):
    """A peer that accepts any Route."""

    def on_promise(self, sender: NodeId, message: PromiseRequest) -> None:
        replica, mine = self.replica, self.replica.topology
        if replica.me in message.route.members:
            replica.topology = msgspec.structs.replace(mine, route=message.route)
        super().on_promise(sender, message)
        replica.topology = mine


class SetsAside(Replica):
    """312a: a member that cannot be reached is left out at once, without a change of the KeySpace."""

    replicate_class = AnyRoute
    gone: tuple[NodeId, ...] = ()

    def set_aside(self, *gone: NodeId) -> None:
        self.gone = gone
        self._on_topology(self.topology)

    def _on_topology(self, topology: Topology) -> None:
        members = tuple(name for name in topology.route.members if name not in self.gone)
        primary = topology.route.primary
        if primary in self.gone:
            primary = min(members, default=None)
        super()._on_topology(msgspec.structs.replace(topology, route=Route(members, primary)))
