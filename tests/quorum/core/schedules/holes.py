"""Schedules quorum-log.md does not have: where its text, taken literally, fails. See docs/decisions/0101 to 0103."""

from tests.quorum.core.cluster import Packet
from tests.quorum.core.schedules.common import (
    EXPAND_D,
    Make,
    agree,
    entries_to,
    is_a,
    steady,
    to,
)

from penstock.kernel.ids import Epoch
from penstock.quorum.records.answers import Fate
from penstock.quorum.records.messages import (
    AddEntryResponse,
    CommitReconfigurationRequest,
    CommitReconfigurationResponse,
    PrepareReconfigurationRequest,
    SnapshotRequest,
    TruncateRequest,
)
from penstock.quorum.records.metadata import Status


def h1_a_late_truncate_after_a_restart(make: Make) -> None:
    """0101: a Truncate of this epoch comes a second time, after its follower has acknowledged and restarted."""
    cluster = steady(make)
    cluster["A"].holds_disk = True
    cluster.append("A", "lost")
    cluster.deliver(entries_to("B"))  # 1/3 is on B only
    cluster.drop()
    cluster.crash("A")
    cluster["A"].holds_disk = False
    cluster.restart("A")
    cluster.elect(2, "A", "C")
    cluster.drop()
    head = cluster.fence(2, "B")["B"]
    cluster.add_follower(2, "A", "B", head)
    (truncate,) = [packet for packet in cluster.net if isinstance(packet.message, TruncateRequest)]
    late = Packet(truncate.sender, truncate.to, truncate.message)
    cluster.settle(cluster.between("A", "B"))
    (y,) = cluster.append("A", "y")
    cluster.deliver(entries_to("B"))
    cluster.deliver(is_a(AddEntryResponse))
    assert cluster.fates[y] is Fate.COMMITTED, "on A and B"
    cluster.drop()
    cluster.restart("B")
    cluster.hand_over(late)
    cluster.crash("A")
    heads = cluster.fence(3, "BC")
    leader = max("BC", key=lambda name: heads[name])
    other = "C" if leader == "B" else "B"
    cluster.become_leader(3, leader, {other: heads[other]})
    cluster.settle(cluster.between("B", "C"))
    cluster.append(leader, "z")
    cluster.settle(cluster.between("B", "C"))
    assert cluster["B"].values == [b"y", b"z"]
    cluster.judge.at_the_end()


def h2_the_first_operator_dies(make: Make) -> None:
    """0102: the very first election is not finished; the next one finds epoch 1, and nodes without data."""
    cluster = make("", spares="ABC", ensemble="ABC")
    one = cluster.start_operator("op1")
    cluster.deliver(to("A"))  # one node has heard of epoch 1, two have not
    one.crash()
    cluster.drop()
    assert cluster.metadata().epoch == 1
    cluster.start_operator("op2")
    cluster.settle()
    metadata = cluster.metadata()
    assert metadata.status is Status.STEADY_STATE
    assert metadata.leader is not None
    cluster.append(metadata.leader.node, "x")
    cluster.settle()
    agree(cluster, "A", "B", "C")
    assert cluster["A"].values == [b"x"]


def h3_expanding_to_an_even_ensemble(make: Make) -> None:
    """0103: committed on 2 of 3; after the change, 3 of 4 are a majority: the recomputed commit index is lower."""
    cluster = steady(make, spares="D")
    cluster.send("A", PrepareReconfigurationRequest(Epoch(2), cluster["A"].disk.state.member.incarnation, EXPAND_D))
    cluster.settle(lambda packet: packet.to != "D" or isinstance(packet.message, SnapshotRequest))
    cluster.drop()
    barrier = cluster["A"].up.log.barrier(Epoch(2))
    assert barrier is not None
    (x,) = cluster.append("A", "x")
    cluster.settle(cluster.between("A", "B"))
    assert cluster.fates == {x: Fate.COMMITTED}, "on A and B"
    cluster.send("A", CommitReconfigurationRequest(Epoch(2), cluster["A"].disk.state.member.incarnation, EXPAND_D))
    cluster.settle(cluster.between("A", "B"))
    assert isinstance(cluster.inbox[-1][1], CommitReconfigurationResponse)
    node = cluster["A"].up
    assert node.leader is not None
    assert node.leader.replication.cursors.quorum_offset() < node.replica.commit, "recomputed, it is lower"
    # and still safe: three of the four new members are needed for an election, and two of them hold x
    cluster.crash("A")
    cluster.drop()
    cluster.elect(3, "B", "CD", ensemble=node.leader.ensemble)
    cluster.settle(cluster.between("B", "C", "D"))
    assert cluster["D"].values == [b"x"]
    cluster.judge.at_the_end()
