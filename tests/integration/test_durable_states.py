"""Round trips of durable states: save each core, bring it back, compare every field."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.lake.core.staging.test_checkpoint import full_lake

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.journals.core.replica import Replica as JournalReplica
from penstock.journals.core.spool import SpoolState
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.labels import LabelSet
from penstock.journals.records.point import Point
from penstock.journals.records.registers import Origin, Registers
from penstock.kernel.ids import Clock, EntryId, Epoch, Incarnation, NodeId, Offset, Revision
from penstock.lake.core.staging.checkpoint import dump, load
from penstock.lake.core.staging.machine import StagingMachine
from penstock.messages.read_state import ProducerState, ReadState
from penstock.messages.uuid import ProducerId
from penstock.quorum.core.machines.builtin import LogMachine
from penstock.quorum.core.machines.state_machine import Applier
from penstock.quorum.core.node import Node
from penstock.quorum.records.effects import Apply
from penstock.quorum.records.entry import Barrier, ClientId, Confirm, Entry, Txn
from penstock.quorum.records.member import Member
from penstock.quorum.records.state import Comparison, NodeState, SnapshotMeta

REGISTERS = Registers(LabelSet(), Origin.WRITTEN)
SPOOL = SpoolState(
    incarnation=Incarnation("one"),
    create_revision=Revision(3),
    epoch=PipelineEpoch(Revision(7), 2),
    promised=PipelineEpoch(Revision(9), 1),
    mark=Offset(4),
    points=(Point(Offset(0), Offset(6), b"s" * 20, REGISTERS), Point(Offset(100), Offset(100))),
    reset_from=PipelineEpoch(Revision(5), 4),
)
SNAPSHOT = SnapshotMeta(EntryId(Epoch(2), Offset(5)), ((Epoch(2), Offset(1)),), ((Offset(2), Offset(3)),), Offset(2))
DIVERGENCE = Comparison(Offset(4), Epoch(3), 17, 18)
NODE = NodeState(
    Member(NodeId("A"), Incarnation("i1")), Epoch(4), Offset(6), SNAPSHOT, is_formatted=True, divergence=DIVERGENCE
)
PRODUCER = ProducerState(ProducerId(9), Clock(20), Clock(21), Offset(40), Offset(41))
READ = ReadState(Offset(50), Clock(30), (PRODUCER,))


def spool_again(state: SpoolState) -> SpoolState:
    return JournalReplica(NodeId("b"), "a/journal", Incarnation("two"), state=state, is_kept=True).spool.state


def node_again(state: NodeState) -> NodeState:
    head = state.snapshot.head
    entries: list[Entry] = [Txn(head.epoch, ClientId("c"), 1, b"x", is_sync=True), Barrier(state.epoch)]
    node, _ = Node.recover(state, Offset(head.offset + 1), entries)
    node.replica.save()
    return node.replica.saved


STATES: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "a broker's Spool": (SPOOL, spool_again),
    "a quorum node's registers": (NODE, node_again),
    "a snapshot's record": (SNAPSHOT, lambda meta: node_again(msgspec.structs.replace(NODE, snapshot=meta)).snapshot),
    "a reading": (READ, lambda state: ReadState.decode(state.encode())),
    "a shard's checkpoint": (
        Checkpoint({"a": READ}, {"b": b"1"}),
        lambda checkpoint: Checkpoint.decode(checkpoint.encode()),
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_every_field_comes_back(name: str) -> None:
    state, again = STATES[name]
    for field in msgspec.structs.fields(state):
        default = field.default
        assert getattr(state, field.name) != default, f"{field.name}: give it another value, or its loss is not seen"
    assert again(state) == state


def test_a_state_machine_comes_back_from_its_snapshot() -> None:
    applier = Applier(LogMachine())
    entries = (
        Barrier(Epoch(1)),
        Txn(Epoch(1), ClientId("c"), 1, b"x", is_sync=True),
        Txn(Epoch(1), ClientId("c"), 2, b"y", is_sync=True),
        Confirm(Epoch(1), Offset(3)),
    )
    applier.apply(Apply(Offset(1), entries, (Offset(3),)))
    again = Applier(LogMachine())
    again.restore(applier.snapshot())
    assert again.snapshot() == applier.snapshot()
    assert (again.applied, again.fact, again.checksum) == (applier.applied, applier.fact, applier.checksum)


def test_a_lake_member_comes_back_from_its_checkpoint() -> None:
    machine = full_lake().machine
    assert dump(load(dump(machine), StagingMachine)) == dump(machine)
