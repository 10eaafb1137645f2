"""Schedules of swaps, expansions and contractions: S7, S8, S13, S18, S19, S22."""

import msgspec
from tests.quorum.core.cluster import CONFIG, member, members
from tests.quorum.core.schedules.common import (
    EXPAND_D,
    SWAP_B_D,
    Make,
    agree,
    entries_to,
    is_a,
    is_not_answered_commit,
    steady,
    time_out,
    to,
)

from penstock.kernel.ids import SECOND, Epoch
from penstock.quorum.core.operator import Reconfigure
from penstock.quorum.records.answers import Fate
from penstock.quorum.records.messages import (
    AddEntryResponse,
    Change,
    ChangeOp,
    CommitReconfigurationRequest,
    PrepareReconfigurationRequest,
    PrepareReconfigurationResponse,
    SnapshotRequest,
    SnapshotResponse,
)
from penstock.quorum.records.metadata import Status
from penstock.quorum.records.reconfiguration import Phase


def s7_idle_bump(make: Make) -> None:
    cluster = steady(make, "ABC", spares="D")
    (x,) = cluster.append("A", "x")
    cluster.deliver(to("B", "C"))
    cluster.drop()
    cluster.send("A", PrepareReconfigurationRequest(Epoch(2), member("A").incarnation, EXPAND_D))
    cluster.settle()
    assert cluster.fates == {x: Fate.COMMITTED}
    assert cluster["B"].values == cluster["D"].values == [b"x"]
    assert any(isinstance(message, PrepareReconfigurationResponse) for _, message in cluster.inbox)
    agree(cluster, "A", "B", "C")


def s8_prepared_answered_late(make: Make) -> None:
    cluster = make("ABC", spares="D")
    operator = cluster.start_operator()
    cluster.settle()
    change = cluster.ask_operator("op1", Reconfigure(SWAP_B_D))
    cluster.deliver(is_a(PrepareReconfigurationRequest))
    late = []
    for _ in range(20):
        late += cluster.drop(is_a(PrepareReconfigurationResponse))
        if not cluster.deliver():
            break
    assert late
    metadata = cluster.metadata()
    assert metadata.reconfiguration is not None
    assert metadata.reconfiguration.phase is Phase.PREPARE, "without hearing Prepared nobody may write COMMIT"
    cluster.pass_time(61 * SECOND)
    operator.tick()  # gives up: an election over PREPARE drops the change
    cluster.settle()
    before = cluster.metadata()
    assert before.status is Status.STEADY_STATE
    assert before.reconfiguration is None
    assert set(before.ensemble) == set(members("ABC"))
    for packet in late:
        cluster.hand_over(packet)
    cluster.settle()
    assert cluster.metadata() == before, "Prepared of an epoch which is over counts for nothing"
    assert change in cluster.replies
    cluster.judge.at_the_end()


def s13_snapshot_and_join(make: Make) -> None:
    """A snapshot is taken and a node joins while the limbo holds nothing, a pending and a doomed transaction."""
    for pending in ("nothing", "sync", "doomed"):
        cluster = steady(make, spares="D", config=msgspec.structs.replace(CONFIG, snapshot_entries=2, retain_entries=0))
        cluster.append("A", "a", "b")
        cluster.settle()
        assert cluster["A"].up.log.base.offset >= 2, "trimmed"
        if pending != "nothing":
            cluster.append("A", "p", rolls_back=True)
            cluster.drop()
        if pending == "doomed":
            time_out(cluster, "A")
            cluster.drop()
        cluster.send("A", PrepareReconfigurationRequest(Epoch(2), member("A").incarnation, EXPAND_D))
        cluster.deliver(is_a(PrepareReconfigurationRequest))
        cluster.deliver(is_a(SnapshotRequest))
        assert cluster["D"].values == [b"a", b"b"], "a snapshot holds what is committed, whatever is pending"
        cluster.deliver(is_a(SnapshotResponse))
        cluster.heartbeat("A")
        cluster.settle()
        cluster.send("A", CommitReconfigurationRequest(Epoch(2), member("A").incarnation, EXPAND_D))
        cluster.settle()
        cluster.append("A", "z")
        cluster.settle()
        expected = [b"a", b"b", b"p", b"z"] if pending == "sync" else [b"a", b"b", b"z"]
        assert cluster["D"].values == cluster["A"].values == cluster["B"].values == expected
        cluster.judge.at_the_end()


def s18_contract_before_prepared(make: Make) -> None:
    cluster = make("ABC")
    operator = cluster.start_operator()
    cluster.settle()
    leader = cluster.metadata().leader
    assert leader is not None
    lead = leader.node
    old, other = (each for each in "ABC" if each != lead)
    cluster.cut(other)
    cluster.ask_operator("op1", Reconfigure(Change(ChangeOp.CONTRACT, member(old), None)))
    (x,) = cluster.append(lead, "x")  # before the leader hears of it
    cluster.settle(lambda packet: not isinstance(packet.message, PrepareReconfigurationRequest))
    assert cluster.fates == {x: Fate.COMMITTED}
    cluster.settle()
    reconfiguration = cluster.metadata().reconfiguration
    assert reconfiguration is not None
    assert reconfiguration.phase is Phase.PREPARE, "the barrier is on one of the final two only"
    operator.crash()
    cluster.crash(lead)
    cluster.heal()
    cluster.start_operator("op2")
    cluster.settle()
    metadata = cluster.metadata()
    assert metadata.status is Status.STEADY_STATE
    assert metadata.leader == member(old), "the change was dropped, and the one who holds x leads"
    assert cluster[old].values == [b"x"]
    cluster.judge.at_the_end()


def s18_swap_before_prepared(make: Make) -> None:
    """The same early COMMIT hurts a swap most: the new node and the late one are a majority of the final ensemble."""
    cluster = make("ABC", spares="D")
    operator = cluster.start_operator()
    cluster.settle()
    leader = cluster.metadata().leader
    assert leader is not None
    lead = leader.node
    old, other = (each for each in "ABC" if each != lead)
    cluster.cut(other)
    cluster.ask_operator("op1", Reconfigure(Change(ChangeOp.SWAP, member(old), member("D"))))
    (x,) = cluster.append(lead, "x")
    cluster.settle(lambda packet: not isinstance(packet.message, PrepareReconfigurationRequest))
    assert cluster.fates == {x: Fate.COMMITTED}
    for _ in range(20):
        cluster.drop(entries_to("D"))
        if not cluster.deliver():
            break
    operator.crash()
    cluster.crash(lead)
    cluster.heal()
    cluster.drop()
    two = cluster.start_operator("op2")
    cluster.settle()
    for _ in range(3):
        two.tick()
        cluster.settle()
    metadata = cluster.metadata()
    assert metadata.status is Status.STEADY_STATE
    assert metadata.leader == member(old), "the one who holds x"
    cluster.judge.at_the_end()


def s19_swap_while_the_leader_is_not_durable(make: Make) -> None:
    cluster = steady(make, spares="D")
    cluster["A"].holds_disk = True
    (x,) = cluster.append("A", "x")
    cluster.settle()
    assert cluster.fates == {x: Fate.COMMITTED}, "on B and C, not on A"
    cluster.send("A", PrepareReconfigurationRequest(Epoch(2), member("A").incarnation, SWAP_B_D))
    for _ in range(20):
        cluster.drop(entries_to("D"))
        cluster.drop(entries_to("C"))
        if not cluster.deliver():
            break
    assert cluster["D"].disk.state.is_formatted
    prepared = [message for _, message in cluster.inbox if isinstance(message, PrepareReconfigurationResponse)]
    assert prepared == [], "the new epoch's barrier is on A alone, and not even durable"
    cluster.crash("A")
    cluster.restart("A")
    cluster["A"].holds_disk = False
    cluster.elect(3, "C", "A")  # over PREPARE: the ensemble is A, B, C
    cluster.settle(cluster.between("A", "C"))
    assert cluster["A"].values == [b"x"]
    cluster.judge.at_the_end()


def s22_old_node_and_leader_both_dead(make: Make) -> None:
    cluster = make("ABC", spares="D")
    operator = cluster.start_operator()
    cluster.settle()
    leader = cluster.metadata().leader
    assert leader is not None
    lead = leader.node
    old, other = (each for each in "ABC" if each != lead)
    (x,) = cluster.append(lead, "x")
    cluster.settle()
    cluster.crash(old)
    cluster.ask_operator("op1", Reconfigure(Change(ChangeOp.SWAP, member(old), member("D"))))
    cluster.settle(lambda packet: not isinstance(packet.message, CommitReconfigurationRequest))
    reconfiguration = cluster.metadata().reconfiguration
    assert reconfiguration is not None
    assert reconfiguration.phase is Phase.COMMIT
    operator.crash()
    cluster.crash(lead)
    cluster.drop()
    cluster.start_operator("op2")
    cluster.settle()
    metadata = cluster.metadata()
    assert metadata.status is Status.STEADY_STATE, "a majority of the final ensemble is enough"
    assert set(metadata.ensemble) == {member(lead), member(other), member("D")}
    assert metadata.reconfiguration is None
    assert cluster[other].values == cluster["D"].values == [b"x"]
    assert cluster.fates == {x: Fate.COMMITTED}
    cluster.judge.at_the_end()


def s22_split_brain_without_fencing_the_new_node(make: Make) -> None:
    """A swap in COMMIT: the leader counts A, C, D already. An election of the old ensemble alone must not happen."""
    cluster = make("ABC", spares="D")
    operator = cluster.start_operator()
    cluster.settle()
    leader = cluster.metadata().leader
    assert leader is not None
    lead = leader.node
    old = next(each for each in "ABC" if each != lead)
    cluster.ask_operator("op1", Reconfigure(Change(ChangeOp.SWAP, member(old), member("D"))))
    cluster.settle(is_not_answered_commit)
    operator.crash()
    cluster.drop()
    cluster.cut(lead, "D")  # the leader and the new node go on; the others and a new operator do not see them
    (x,) = cluster.append(lead, "x")
    cluster.deliver(entries_to("D"))
    cluster.deliver(is_a(AddEntryResponse))
    assert cluster.fates == {x: Fate.COMMITTED}
    cluster.drop()
    two = cluster.start_operator("op2")
    cluster.cut(lead, "D")
    cluster.settle()
    cluster.heal()
    cluster.cut(lead)  # now everybody but the old leader is back
    for _ in range(3):
        two.tick()
        cluster.settle()
    leads = cluster.metadata().leader
    assert leads is not None
    cluster.append(leads.node, "y")
    cluster.settle()
    assert leads == member("D"), "it holds x, and a majority of the final ensemble had to say so"
    cluster.judge.at_the_end()


def s22_the_old_node_counts_for_nothing(make: Make) -> None:
    """After Prepare the old node's acknowledgements are void: what it holds, the final ensemble may never see."""
    cluster = steady(make, spares="D")
    cluster.send("A", PrepareReconfigurationRequest(Epoch(2), member("A").incarnation, SWAP_B_D))
    cluster.settle(lambda packet: packet.to != "D" or isinstance(packet.message, SnapshotRequest))
    assert any(isinstance(message, PrepareReconfigurationResponse) for _, message in cluster.inbox)
    cluster.drop()
    (y,) = cluster.append("A", "y")
    cluster.settle(cluster.between("A", "B"))
    cluster.drop()
    cluster.send("A", CommitReconfigurationRequest(Epoch(2), member("A").incarnation, SWAP_B_D))
    cluster.deliver(to("A"))
    cluster.drop()
    cluster.crash("A")
    cluster.elect(3, "C", "D", ensemble=members("ACD"))
    cluster.settle(cluster.between("C", "D"))
    cluster.append("C", "z")
    cluster.settle(cluster.between("C", "D"))
    assert y not in cluster.fates, "y was on A at most"
    cluster.judge.at_the_end()


def s22_a_learner_has_no_vote(make: Make) -> None:
    """Before COMMIT the new node does not count: an election over PREPARE does not ask it."""
    cluster = steady(make, spares="D")
    cluster.send("A", PrepareReconfigurationRequest(Epoch(2), member("A").incarnation, EXPAND_D))
    cluster.settle(cluster.between("A", "D"))
    cluster.append("A", "y")
    cluster.settle(cluster.between("A", "D"))
    assert cluster["D"].up.log.end == cluster["A"].up.log.end
    cluster.drop()
    cluster.crash("A")
    cluster.elect(3, "B", "C")
    cluster.settle(cluster.between("B", "C"))
    (z,) = cluster.append("B", "z")
    cluster.settle(cluster.between("B", "C"))
    assert cluster.fates == {z: Fate.COMMITTED}, "A and D are two, but only A votes"
    cluster.judge.at_the_end()
