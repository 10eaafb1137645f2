"""Schedules of elections, fencing, restarts and truncation: S1, S6, S7, S10, S12, S16, S17, S20, S21."""

import msgspec
from tests.quorum.core.cluster import CONFIG, Packet, entry_id, member
from tests.quorum.core.schedules.common import Make, agree, entries_to, is_a, rejoin, resolve_on, steady, to

from penstock.kernel.ids import SECOND, Epoch, NodeId
from penstock.quorum.core.operator import Elect
from penstock.quorum.records.answers import Fate
from penstock.quorum.records.messages import (
    AddEntryResponse,
    BecomeLeaderRequest,
    FenceRequest,
    Refusal,
)
from penstock.quorum.records.metadata import Status
from penstock.quorum.records.resolution import Resolution


def s1_figure_eight(make: Make) -> None:
    cluster = steady(make, config=msgspec.structs.replace(CONFIG, push_bytes_max=1))
    cluster.elect(2, "A", "B")
    cluster.append("A", "e2")
    cluster.drop()
    cluster.crash("A")
    cluster.elect(3, "C", "B")
    cluster.append("C", "e3")
    cluster.drop()
    cluster.crash("C")
    cluster.restart("A")
    cluster.elect(4, "A", "B")
    assert cluster["A"].ids[2:] == ["2/3", "2/4", "4/5"]
    cluster.deliver(entries_to("B"), count=2)  # e2 is on a majority now, epoch 4's barrier is not
    cluster.drop(entries_to("B"))
    cluster.settle()
    assert cluster["B"].ids[2:] == ["2/3", "2/4"]
    cluster.crash("A")
    cluster.restart("C")
    cluster.elect(5, "C", "B")
    cluster.settle()
    assert cluster["B"].values == [b"e3"]
    cluster.restart("A")
    rejoin(cluster, 5, "C", "A")
    agree(cluster, "C", "A", "B")


def s6_fence_between_quorum_and_confirm(make: Make) -> None:
    cluster = steady(make, config=msgspec.structs.replace(CONFIG, confirm_delay_ns=SECOND))
    cluster.pass_time(SECOND)
    cluster["A"].fire("confirm")
    cluster.settle()
    (x,) = cluster.append("A", "x")
    cluster.settle()
    assert cluster.fates == {x: Fate.COMMITTED}
    assert cluster["B"].values == [], "nobody has confirmed it yet"
    cluster.elect(2, "A", "BC")
    cluster.settle()
    cluster.pass_time(SECOND)
    cluster["A"].fire("confirm")
    cluster.settle()
    assert cluster["B"].values == [b"x"]
    agree(cluster, "A", "B", "C")


def s7_idle_election(make: Make) -> None:
    cluster = steady(make)
    cluster.append("A", "x")
    cluster.deliver(entries_to("B"))
    cluster.drop()
    cluster.crash("A")
    cluster.elect(2, "B", "C")
    cluster.settle()
    assert cluster["C"].values == [b"x"], "committed and applied everywhere, although no client wrote anything"
    assert resolve_on(cluster, "C", 1, 3) is Resolution.COMMITTED
    agree(cluster, "B", "C")


def s10_restart_and_replay(make: Make) -> None:
    cluster = make("ABC")
    heads = cluster.fence(1, "ABC")
    lead = BecomeLeaderRequest(
        Epoch(1), member("A").incarnation, cluster.ensemble, tuple((member(name), heads[name]) for name in "BC")
    )
    cluster.send("A", lead)
    cluster.settle()
    (x,) = cluster.append("A", "x")
    replay = [packet for packet in cluster.net if packet.to == "B"]
    cluster.settle()
    assert cluster.fates == {x: Fate.COMMITTED}
    cluster.restart("A")
    answers = len(cluster.inbox)
    assert cluster.fence(1, "A")["A"] == cluster["A"].up.log.head, "a repeated fence gets the head"
    cluster.send("A", lead)
    cluster.settle()
    assert cluster["A"].up.leader is None, "but does not restore the right to lead"
    assert isinstance(cluster.inbox[-1][1], Refusal)
    assert len(cluster.inbox) == answers + 2
    for packet in replay:
        cluster.hand_over(packet)
    cluster.hand_over(Packet(NodeId("B"), NodeId("A"), AddEntryResponse(Epoch(1), member("B").incarnation, heads["B"])))
    assert cluster["A"].up.leader is None
    cluster.elect(2, "A", "BC")
    cluster.settle()
    assert cluster["A"].values == [b"x"]
    agree(cluster, "A", "B", "C")


def s12_acks(make: Make) -> None:
    cluster = steady(make)
    (x,) = cluster.append("A", "x")
    cluster.deliver(entries_to("B"))
    (ack,) = cluster.drop(is_a(AddEntryResponse))
    cluster.drop()
    old = Packet(ack.sender, ack.to, msgspec.structs.replace(ack.message, epoch=Epoch(0)))
    foreign = Packet(ack.sender, ack.to, msgspec.structs.replace(ack.message, sender="other"))
    stranger = Packet(NodeId("Z"), ack.to, ack.message)
    for packet in (old, foreign, stranger):
        cluster.hand_over(packet)
    assert cluster.fates == {}, "an old epoch, another incarnation, no member: nothing counts"
    (y,) = cluster.append("A", "y")
    cluster.deliver(entries_to("B"))
    cluster.deliver(is_a(AddEntryResponse))
    assert cluster.fates == {x: Fate.COMMITTED, y: Fate.COMMITTED}
    before = cluster["A"].up.fingerprint()
    cluster.hand_over(ack)
    cluster.hand_over(ack)
    assert cluster["A"].up.fingerprint() == before, "reordered and doubled: no news"
    # a fenced node acknowledges nothing older
    cluster.drop()
    (z,) = cluster.append("A", "z")
    cluster.fence(2, "C")
    cluster.deliver(entries_to("C"))
    cluster.settle(cluster.between("A", "C"))
    assert z not in cluster.fates or cluster.fates[z] is Fate.INDETERMINATE
    cluster.elect(3, "B", "C")
    cluster.settle(cluster.between("B", "C"))
    cluster.judge.at_the_end()


def s12_a_fenced_node_counts_for_nobody(make: Make) -> None:
    cluster = steady(make)
    cluster.append("A", "y")
    heads = cluster.fence(2, "BC")
    cluster.deliver(entries_to("C"))
    cluster.deliver(lambda packet: packet.sender == "C" and packet.to == "A")
    cluster.drop()
    cluster.become_leader(2, "B", {"C": heads["C"]})
    cluster.settle(cluster.between("B", "C"))
    (z,) = cluster.append("B", "z")
    cluster.settle(cluster.between("B", "C"))
    assert [request for request, fate in cluster.fates.items() if fate is Fate.COMMITTED] == [z]
    cluster.judge.at_the_end()


def s12_an_answered_fence_is_durable(make: Make) -> None:
    """Fence answers wait for the disk: a node which forgot its epoch in a crash would help the old leader again."""
    cluster = steady(make)
    cluster["B"].holds_disk = True
    heads = cluster.fence(2, "BC")
    cluster.crash("B")
    cluster["B"].holds_disk = False
    cluster.restart("B")
    cluster.append("A", "y")
    cluster.deliver(entries_to("B"))
    cluster.deliver(is_a(AddEntryResponse))
    cluster.drop()
    if "B" in heads:
        cluster.become_leader(2, "C", {"B": heads["B"]})
        cluster.append("C", "z")
        cluster.settle(cluster.between("B", "C"))
        cluster.heartbeat("C")
        cluster.settle(cluster.between("B", "C"))
    assert "B" not in heads, "its epoch was not durable yet"
    cluster.judge.at_the_end()


def s16_two_operators(make: Make) -> None:
    cluster = make("ABC")
    one = cluster.start_operator("op1")
    cluster.settle()
    first = cluster.metadata()
    assert first.leader is not None
    two = cluster.start_operator("op2")
    cluster.settle()
    # both start an election on the same revision: one of them writes, the other one learns
    one.holds_keyspace = two.holds_keyspace = True
    cluster.ask_operator("op1", Elect(aborts=True))
    cluster.ask_operator("op2", Elect(aborts=True))
    two.holds_keyspace = one.holds_keyspace = False
    two.sync()
    one.sync()
    cluster.settle()
    metadata = cluster.metadata()
    assert metadata.status is Status.STEADY_STATE
    assert metadata.epoch == first.epoch + 1
    assert metadata.leader is not None
    cluster.append(metadata.leader.node, "x")
    cluster.settle()
    cluster.judge.at_the_end()


def s16_late_become_leader(make: Make) -> None:
    cluster = make("ABC")
    heads = cluster.fence(1, "AB")
    late = BecomeLeaderRequest(Epoch(1), member("A").incarnation, cluster.ensemble, ((member("B"), heads["B"]),))
    cluster.elect(2, "B", "C")
    cluster.settle()
    (x,) = cluster.append("B", "x")
    cluster.settle()
    assert cluster.fates == {x: Fate.COMMITTED}
    cluster.send("A", late)
    cluster.deliver(to("A"))
    (y,) = cluster.append("A", "y")
    cluster.settle()
    assert cluster.fates.get(y) is not Fate.COMMITTED, "nobody follows it: they are in a higher epoch"
    rejoin(cluster, 2, "B", "A")
    assert cluster["A"].values == [b"x"]
    assert [entry.ops for entry in cluster["A"].lost if hasattr(entry, "ops")] == [b"y"], "what it lost is kept"
    agree(cluster, "A", "B", "C")


def s16_an_operator_does_not_resume(make: Make) -> None:
    """op1 dies between BecomeLeader and STEADY_STATE. op2 must not finish that epoch: it would choose another."""
    cluster = make("ABC")
    one = cluster.start_operator("op1")
    cluster.deliver(to("A", "B"))
    cluster.deliver(to("op1"))
    cluster.deliver(is_a(BecomeLeaderRequest))
    leads = [name for name in "AB" if cluster[name].up.leader is not None]
    assert len(leads) == 1
    one.crash()
    cluster.drop()
    two = cluster.start_operator("op2")
    cluster.settle()
    two.tick()
    cluster.settle()
    metadata = cluster.metadata()
    assert metadata.status is Status.STEADY_STATE
    assert metadata.epoch == 2
    cluster.judge.at_the_end()


def s17_a_truncated_entry_wins_in_a_third_epoch(make: Make) -> None:
    cluster = steady(make, "ABCDE")
    cluster.append("A", "x")
    cluster.deliver(entries_to("B"))
    cluster.drop()
    cluster.elect(2, "C", "DE")
    cluster.drop()
    head = cluster.fence(2, "A")["A"]
    assert head == entry_id(1, 3)
    cluster.add_follower(2, "C", "A", head)
    cluster.settle(cluster.between("A", "C"))
    assert cluster["A"].ids[2:] == ["2/3"], "A had to give x up; epoch 2 is on A and C only"
    assert [str(entry.epoch) for entry in cluster["A"].lost] == ["1"]
    assert resolve_on(cluster, "A", 1, 3) is Resolution.PENDING, "lost here, but not for good"
    cluster.crash("C")
    cluster.crash("A")
    cluster.elect(3, "B", "DE")
    cluster.settle()
    assert cluster["B"].values == [b"x"]
    assert resolve_on(cluster, "B", 1, 3) is Resolution.COMMITTED
    cluster.restart("A", "C")
    rejoin(cluster, 3, "B", "A")
    rejoin(cluster, 3, "B", "C")
    assert resolve_on(cluster, "A", 1, 3) is Resolution.COMMITTED
    agree(cluster, "A", "B", "C", "D", "E")


def s20_two_entries_at_one_offset(make: Make) -> None:
    cluster = make("ABC")
    cluster.elect(1, "A", "BC")
    cluster.deliver(entries_to("B"))  # (1,1) is everywhere
    cluster.deliver(entries_to("C"))
    cluster.drop()
    cluster.append("A", "x")  # (1,2) on A only
    cluster.drop()
    cluster.crash("A")
    cluster.elect(2, "B", "C")  # (2,2) on B only
    cluster.drop()
    cluster.crash("B")
    cluster.restart("A")
    cluster.elect(3, "A", "C")  # (3,3) on A only
    cluster.drop()
    assert cluster["A"].ids == ["1/1", "1/2", "3/3"]
    cluster.restart("B")
    cluster.elect(4, "B", "C")
    cluster.settle(cluster.between("B", "C"))
    rejoin(cluster, 4, "B", "A")
    assert cluster["A"].ids[:2] == ["1/1", "2/2"], "one round of Truncate would have left (1,2)"
    agree(cluster, "B", "A", "C")


def s21_a_wiped_node_answers(make: Make) -> None:
    cluster = steady(make)
    (x,) = cluster.append("A", "x")
    cluster.settle(cluster.between("A", "B"))
    assert cluster.fates == {x: Fate.COMMITTED}, "on A and B"
    cluster.drop()
    cluster.crash("A")
    cluster.wipe("B")
    cluster.send("B", FenceRequest(Epoch(2), member("B").incarnation))  # the metadata knows the old B only
    cluster.send("C", FenceRequest(Epoch(2), member("C").incarnation))
    cluster.settle()
    answers = {
        sender: message for sender, message in cluster.inbox if message.epoch == 2 or isinstance(message, Refusal)
    }
    assert isinstance(answers[NodeId("B")], Refusal), "a wiped node is another member: it does not count"
    cluster.drop()
    cluster.restart("A")
    cluster.elect(3, "A", "C")
    cluster.settle()
    assert cluster["C"].values == [b"x"]
    cluster.judge.at_the_end()


def s21_forced_election(make: Make) -> None:
    """S21's harm, if a wiped node's answer did count: B and C elect a leader without x."""
    cluster = steady(make)
    (x,) = cluster.append("A", "x")
    cluster.settle(cluster.between("A", "B"))
    assert cluster.fates == {x: Fate.COMMITTED}
    cluster.drop()
    cluster.crash("A")
    cluster.wipe("B")
    heads = cluster.fence(2, "BC")
    if "B" in heads:
        cluster.become_leader(2, "C", {"B": heads["B"]})
        cluster.settle(cluster.between("B", "C"))
        cluster.append("C", "y")
        cluster.settle(cluster.between("B", "C"))
    cluster.judge.at_the_end()
