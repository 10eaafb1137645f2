"""Schedules of the limbo, its answers and reads: S2 to S5, S9, S11, S14, S15, S23."""

import msgspec
from tests.quorum.core.cluster import CONFIG, Cluster, Packet, member
from tests.quorum.core.schedules.common import (
    CONTRACT_C,
    EXPAND_D,
    Make,
    agree,
    entries_to,
    is_a,
    rejoin,
    resolve_on,
    steady,
    time_out,
    to,
)

from penstock.kernel.ids import SECOND, Epoch, NodeId
from penstock.quorum.core.limbo_queue import LimboLimits
from penstock.quorum.core.reading.reads import QuorumRead
from penstock.quorum.records.answers import Fate
from penstock.quorum.records.messages import (
    AddEntryResponse,
    CommitReconfigurationRequest,
    PrepareReconfigurationRequest,
)
from penstock.quorum.records.resolution import Resolution


def _rolled_back_alone(cluster: Cluster) -> None:
    """f is on A and B, its ROLLBACK on A; nobody has acknowledged either."""
    cluster.append("A", "f", rolls_back=True)
    cluster.deliver(entries_to("B"))
    cluster.drop()
    time_out(cluster, "A")
    assert cluster["A"].ids[2:] == ["1/3", "1/4"]
    assert cluster.fates == {}, "a ROLLBACK which is not committed aborts nothing"


def s2_rollback_lost(make: Make) -> None:
    cluster = steady(make)
    _rolled_back_alone(cluster)
    cluster.drop()
    cluster.crash("A")
    cluster.elect(2, "B", "C")
    cluster.settle()
    assert cluster["B"].values == [b"f"]
    assert resolve_on(cluster, "B", 1, 3) is Resolution.COMMITTED
    cluster.restart("A")
    rejoin(cluster, 2, "B", "A")
    assert resolve_on(cluster, "A", 1, 3) is Resolution.COMMITTED
    agree(cluster, "A", "B", "C")


def s3_rollback_survives(make: Make) -> None:
    cluster = steady(make)
    _rolled_back_alone(cluster)
    cluster.deliver(entries_to("B"))
    cluster.drop()
    cluster.crash("A")
    cluster.elect(2, "B", "C")
    cluster.settle()
    assert cluster["B"].ids[2:4] == ["1/3", "1/4"]
    assert cluster["B"].values == []
    assert resolve_on(cluster, "B", 1, 3) is Resolution.ABORTED
    cluster.restart("A")
    rejoin(cluster, 2, "B", "A")
    assert resolve_on(cluster, "A", 1, 3) is Resolution.ABORTED
    agree(cluster, "A", "B", "C")


def s4_head_inside_a_doomed_range(make: Make) -> None:
    cluster = steady(make)
    cluster.append("A", "f", rolls_back=True)
    cluster.append("A", "g")
    cluster.deliver(entries_to("B"))
    cluster.drop()
    time_out(cluster, "A")
    cluster.drop(to("B"))
    cluster.heartbeat("A")
    cluster.settle(cluster.between("A", "C"))  # C is told to rewind, and gets f, g and the ROLLBACK
    assert [fate for fate, _ in cluster.told] == [Fate.INDETERMINATE, Fate.ABORTED], "g was not to be rolled back"
    assert cluster["B"].up.log.end == 4
    heartbeat = next(packet for packet in cluster.net if packet.to == "B")
    cluster.hand_over(Packet(NodeId("A"), NodeId("B"), msgspec.structs.replace(heartbeat.message, commit=9)))
    assert cluster["B"].values == [], "f and g are doomed, though B does not know"
    cluster.settle()
    cluster.heartbeat("A")
    cluster.settle()
    agree(cluster, "A", "B", "C")
    assert cluster["B"].values == []


def s4_commit_stops_before_a_doomed_range(make: Make) -> None:
    cluster = steady(make, config=msgspec.structs.replace(CONFIG, push_bytes_max=1))
    f, g = cluster.append("A", "f", "g", rolls_back=True)
    cluster.drop(to("C"))
    time_out(cluster, "A")
    cluster.drop(to("C"))
    cluster.deliver(entries_to("B"), count=1)
    cluster.deliver(is_a(AddEntryResponse))
    assert cluster.fates == {}, "f is on a majority, but a ROLLBACK which covers it is in the log"
    cluster.settle(cluster.between("A", "B"))
    assert cluster.told == [(Fate.ABORTED, g), (Fate.ABORTED, f)]
    cluster.heartbeat("A")
    cluster.settle()
    agree(cluster, "A", "B", "C")


def s5_two_followers_before_the_leader(make: Make) -> None:
    cluster = steady(make)
    cluster["A"].holds_disk = True
    (x,) = cluster.append("A", "x")
    cluster.settle()
    assert cluster.fates == {x: Fate.COMMITTED}
    assert cluster["A"].values == [], "a leader applies only what is durable here, too"
    cluster["A"].sync()
    cluster["A"].holds_disk = False
    assert cluster["A"].values == [b"x"]
    cluster["A"].sync()
    cluster.settle()
    agree(cluster, "A", "B", "C")


def s5_leader_loses_what_only_it_counted(make: Make) -> None:
    """The other half of S5: the own vote counts only when locally durable."""
    cluster = steady(make)
    cluster["A"].holds_disk = True
    (x,) = cluster.append("A", "x")
    cluster.settle(cluster.between("A", "B"))
    assert x not in cluster.fates
    cluster.crash("A", "B")
    cluster.restart("A")
    cluster["A"].holds_disk = False
    cluster.elect(2, "C", "A")
    cluster.settle(cluster.between("A", "C"))
    cluster.judge.at_the_end()


def s9_wake_volatile(make: Make) -> None:
    limbo = LimboLimits(length_max=1)
    cluster = steady(make, config=msgspec.structs.replace(CONFIG, limbo=limbo), spares="D")
    x, y, z = cluster.append("A", "x", "y", "z")
    assert cluster["A"].ids[2:] == ["1/3"], "one has room, two wait"
    cluster.heartbeat("A")  # a wake-up without space
    assert cluster["A"].ids[2:] == ["1/3"]
    cluster.settle()
    assert [cluster.fates[request] for request in (x, y, z)] == [Fate.COMMITTED] * 3
    assert cluster["A"].values == [b"x", b"y", b"z"]
    # while a ROLLBACK is under way, they wait; when it commits, they follow behind it
    f, g = cluster.append("A", "f", "g", rolls_back=True)
    cluster.drop()
    cluster.pass_time(6 * SECOND)
    cluster["A"].fire("limbo")
    assert cluster.fates[g] is Fate.ABORTED, "never appended: definite, and no record"
    (h,) = cluster.append("A", "h")
    cluster.heartbeat("A")
    cluster.settle()
    assert (cluster.fates[f], cluster.fates[h]) == (Fate.ABORTED, Fate.COMMITTED)
    # an epoch bump wakes nobody; a fence aborts them
    p, q = cluster.append("A", "p", "q")
    cluster.drop()
    cluster.send("A", PrepareReconfigurationRequest(Epoch(2), member("A").incarnation, EXPAND_D))
    cluster.deliver(is_a(PrepareReconfigurationRequest))
    assert cluster["A"].up.log.head.epoch == 2
    assert q not in cluster.fates
    cluster.drop()
    cluster.fence(3, "A")
    assert (cluster.fates[p], cluster.fates[q]) == (Fate.INDETERMINATE, Fate.ABORTED)
    cluster.judge.at_the_end()


def s11_quorum_changed_during_rollback(make: Make) -> None:
    """Raised (expand) and lowered (contract) while a ROLLBACK is under way: all of [f..j] goes one way."""
    for change, spares, epoch in ((EXPAND_D, "D", 2), (CONTRACT_C, "", 2)):
        cluster = steady(make, spares=spares)
        f, g = cluster.append("A", "f", "g", rolls_back=True)
        cluster.drop()
        time_out(cluster, "A")
        cluster.drop()
        cluster.send("A", PrepareReconfigurationRequest(Epoch(epoch), member("A").incarnation, change))
        cluster.deliver(is_a(PrepareReconfigurationRequest))
        assert cluster["A"].ids[2:] == ["1/3", "1/4", "1/5", "2/6"]
        cluster.drop()
        assert cluster.fates == {}
        cluster.heartbeat("A")
        cluster.settle()
        assert cluster.told == [(Fate.ABORTED, g), (Fate.ABORTED, f)], "newest first, once committed"
        cluster.send("A", CommitReconfigurationRequest(Epoch(epoch), member("A").incarnation, change))
        cluster.settle()
        assert cluster["A"].up.leader is not None
        assert len(cluster["A"].up.leader.ensemble) == (4 if change is EXPAND_D else 2)
        cluster.append("A", "x")
        cluster.settle()
        assert cluster["A"].values == cluster["B"].values == [b"x"]
        cluster.judge.at_the_end()


def s11_prior_epoch_is_not_cancellable(make: Make) -> None:
    """A time-out after the bump degrades to detach; the entry commits through the barrier."""
    cluster = steady(make, spares="D")
    (f,) = cluster.append("A", "f", rolls_back=True)
    cluster.drop()
    cluster.send("A", PrepareReconfigurationRequest(Epoch(2), member("A").incarnation, EXPAND_D))
    cluster.deliver(is_a(PrepareReconfigurationRequest))
    cluster.drop()
    time_out(cluster, "A")
    assert cluster.fates == {f: Fate.INDETERMINATE}
    cluster.heartbeat("A")
    cluster.settle()
    assert cluster["B"].values == [b"f"]
    assert resolve_on(cluster, "A", 1, 3) is Resolution.COMMITTED
    agree(cluster, "A", "B", "C")


def s14_read_on_a_cut_off_leader(make: Make) -> None:
    cluster = steady(make)
    cluster.append("A", "x")
    cluster.settle()
    cluster.cut("A")
    stale = cluster.ask("A", QuorumRead())
    cluster.settle()
    assert stale not in cluster.replies, "it cannot prove that it still leads"
    cluster.elect(2, "B", "C")
    cluster.settle()
    cluster.append("B", "y")
    cluster.settle()
    fresh = cluster.ask("B", QuorumRead())
    cluster.settle()
    assert cluster.replies[fresh] == [b"x", b"y"]
    cluster.heal()
    cluster.heartbeat("A")
    cluster.settle()
    assert not isinstance(cluster.replies[stale], list), "the cut-off leader never served it"
    cluster.judge.at_the_end()


def s15_async_then_a_rolled_back_sync(make: Make) -> None:
    cluster = steady(make)
    (a,) = cluster.append("A", "a", is_sync=False)
    assert cluster.fates == {a: Fate.ACKNOWLEDGED}
    cluster.drop()
    (s,) = cluster.append("A", "s", rolls_back=True)
    (b,) = cluster.append("A", "b", is_sync=False)
    assert b not in cluster.fates, "it waits behind the sync transaction"
    cluster.drop()
    time_out(cluster, "A")
    cluster.heartbeat("A")
    cluster.settle()
    assert cluster.fates[s] is Fate.ABORTED
    assert cluster["B"].values == [b"a"], "what was acknowledged is never covered by a ROLLBACK"
    agree(cluster, "A", "B", "C")


def s23_readers_never_go_back(make: Make) -> None:
    cluster = steady(make)
    (x,) = cluster.append("A", "x")
    cluster.deliver(entries_to("B"))
    cluster["A"].holds_disk = True
    cluster.deliver(is_a(AddEntryResponse))
    assert cluster.fates == {x: Fate.COMMITTED}
    cluster.deliver(entries_to("B"))
    seen = cluster.ask("A", QuorumRead(is_linearizable=False))
    assert cluster.replies[seen] == [b"x"]
    on_follower = cluster.ask("B", QuorumRead(is_linearizable=False))
    assert cluster.replies[on_follower] == [b"x"]
    assert cluster["B"].ids[2:] == ["1/3", "1/4"], "x and its CONFIRM"
    # the CONFIRM itself is not committed: the next leader does not have it, B must drop it, and still knows x
    cluster.drop()
    cluster.crash("B")
    cluster.crash("A")
    cluster.restart("A")
    assert cluster["A"].ids[2:] == ["1/3"], "A has lost the CONFIRM"
    cluster["A"].holds_disk = False
    cluster.elect(2, "A", "C")
    cluster.settle(cluster.between("A", "C"))
    cluster.restart("B")
    early = cluster.ask("B", QuorumRead(is_linearizable=False))
    assert early not in cluster.replies, "after a restart: not before the new epoch's barrier is applied"
    rejoin(cluster, 2, "A", "B")
    assert cluster["B"].lost, "its CONFIRM was truncated"
    assert cluster.replies[early] == [b"x"]
    cluster.restart("B", "A")
    for name in "AB":
        again = cluster.ask(name, QuorumRead(is_linearizable=False))
        assert cluster.replies.get(again, [b"x"]) == [b"x"]
    cluster.judge.at_the_end()
