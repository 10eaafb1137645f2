"""What went wrong in Tarantool's limbo over the years, each as a test of ours: the number is that of the issue there.

Only classes which can occur here are listed; those which S1 to S23 tell already are named in `ELSEWHERE`.
"""

import msgspec
from tests.quorum.core.cluster import CONFIG, Cluster, Packet, member
from tests.quorum.core.schedules.common import (
    CONTRACT_C,
    EXPAND_D,
    agree,
    entries_to,
    is_a,
    rejoin,
    resolve_on,
    steady,
    time_out,
    to,
)
from tests.quorum.core.schedules.table import SCHEDULES

from penstock.kernel.ids import SECOND, Epoch, NodeId
from penstock.quorum.core.limbo_queue import LimboLimits
from penstock.quorum.core.reading.reads import QuorumRead
from penstock.quorum.records.answers import Fate
from penstock.quorum.records.effects import ALL
from penstock.quorum.records.entry import Confirm, Rollback
from penstock.quorum.records.messages import (
    AddEntryRequest,
    AddEntryResponse,
    CommitReconfigurationRequest,
    PrepareReconfigurationRequest,
    Refusal,
    Role,
)
from penstock.quorum.records.resolution import Resolution

ELSEWHERE = {
    "gh-12997 quorum lowered during a ROLLBACK": "s11_quorum_changed_during_rollback",
    "gh-13095 VOLATILE woken during a ROLLBACK": "s9_wake_volatile",
    "gh-5339 new leader does not finish what the old one began": "s7_idle_election",
    "gh-7253 a fenced follower acknowledges the old leader": "s12_a_fenced_node_counts_for_nobody",
    "cab9988 a restarted leader confirms by late acks": "s10_restart_and_replay",
    "gh-5167 snapshot of what is rolled back": "s13_snapshot_and_join",
    "gh-5418 an anonymous replica counts": "s22_a_learner_has_no_vote",
    "gh-8095 two leaders by two subsets": "s1_figure_eight",
    "gh-6661 a cut-off leader serves": "s14_read_on_a_cut_off_leader",
}


def test_the_classes_told_elsewhere_are_there() -> None:
    assert set(ELSEWHERE.values()) <= set(SCHEDULES)


def confirms(cluster: Cluster, name: str) -> list[int]:
    return [entry.upto for entry in cluster[name].disk.records if isinstance(entry, Confirm)]


def rollbacks(cluster: Cluster, name: str) -> list[int]:
    return [entry.first for entry in cluster[name].disk.records if isinstance(entry, Rollback)]


# Ordering and atomicity of decisions


def test_gh_5140_a_transaction_appended_behind_a_pending_rollback_lives_and_survives_a_restart() -> None:
    cluster = steady(Cluster)
    f = cluster.append("A", "f", rolls_back=True)[0]
    cluster.drop()
    time_out(cluster, "A")
    z = cluster.append("A", "z")[0]
    cluster.drop()
    cluster.heartbeat("A")
    cluster.settle()
    assert (cluster.fates[f], cluster.fates[z]) == (Fate.ABORTED, Fate.COMMITTED)
    for name in "ABC":
        cluster.restart(name)
    cluster.elect(2, "A", "BC")
    cluster.settle()
    assert cluster["A"].values == [b"z"]
    agree(cluster, "A", "B", "C")


def test_gh_5185_and_13085_the_decisive_ack_comes_in_the_step_behind_the_rollback() -> None:
    cluster = steady(Cluster)
    f = cluster.append("A", "f", rolls_back=True)[0]
    cluster.deliver(entries_to("B"))
    time_out(cluster, "A")
    cluster.deliver(is_a(AddEntryResponse))  # f has its quorum, but its ROLLBACK is in the log
    assert cluster.fates == {}
    assert confirms(cluster, "A") == [1]
    cluster.settle()
    assert cluster.fates == {f: Fate.ABORTED}
    agree(cluster, "A", "B", "C")


def test_gh_5185_the_timeout_comes_in_the_step_behind_the_decisive_ack() -> None:
    cluster = steady(Cluster)
    f = cluster.append("A", "f", rolls_back=True)[0]
    cluster.deliver(entries_to("B"))
    cluster.deliver(is_a(AddEntryResponse))
    time_out(cluster, "A")
    cluster.settle()
    assert cluster.fates == {f: Fate.COMMITTED}
    assert rollbacks(cluster, "A") == []


def test_gh_13066_acks_flood_in_while_the_epoch_is_bumped() -> None:
    cluster = steady(Cluster, spares="D")
    x = cluster.append("A", "x")[0]
    cluster.deliver(entries_to("B"))
    cluster.deliver(entries_to("C"))
    acks = cluster.drop(is_a(AddEntryResponse))
    cluster.send("A", PrepareReconfigurationRequest(Epoch(2), member("A").incarnation, EXPAND_D))
    cluster.deliver(is_a(PrepareReconfigurationRequest))
    for packet in (*acks, *acks, *reversed(acks)):
        cluster.hand_over(packet)
    assert cluster["A"].up.replica.commit == 2, "those acknowledgements are of an epoch which is over"
    cluster.settle()
    assert cluster.fates == {x: Fate.COMMITTED}


def test_gh_5144_one_confirm_for_many_and_none_twice() -> None:
    cluster = steady(Cluster)
    cluster.append("A", *"abcdefgh")
    cluster.settle()
    for _ in range(5):
        cluster.heartbeat("A")
        cluster.settle()
    assert confirms(cluster, "A") == [1, 10]


def test_gh_5195_a_repeated_ack_counts_once() -> None:
    cluster = steady(Cluster, "ABCDE")
    cluster.append("A", "x")
    cluster.deliver(entries_to("B"))
    (ack,) = cluster.drop(is_a(AddEntryResponse))
    for _ in range(5):
        cluster.hand_over(ack)
    assert cluster.fates == {}, "two of five, however often one of them says so"


def test_gh_6057_async_not_yet_durable_here_is_covered_by_a_commit() -> None:
    cluster = steady(Cluster)
    cluster["A"].holds_disk = True
    a = cluster.append("A", "a", is_sync=False)[0]
    cluster.settle()
    assert cluster.fates == {a: Fate.COMMITTED}, "two others have it: that is more than was asked for"
    cluster["A"].holds_disk = False
    cluster["A"].sync()
    cluster.settle()
    agree(cluster, "A", "B", "C")


def test_gh_10853_the_timeout_of_what_was_answered_does_nothing() -> None:
    cluster = steady(Cluster)
    a = cluster.append("A", "a", is_sync=False)[0]
    x = cluster.append("A", "x")[0]
    cluster.settle()
    time_out(cluster, "A")
    cluster.settle()
    assert cluster.told == [(Fate.ACKNOWLEDGED, a), (Fate.COMMITTED, x)]


def test_gh_11180_waiters_for_space_are_woken_in_order_and_an_aborted_one_takes_the_younger_along() -> None:
    limbo = LimboLimits(bytes_max=100)
    cluster = steady(Cluster, config=msgspec.structs.replace(CONFIG, limbo=limbo))
    first = cluster.append("A", "1" * 30)[0]
    impatient = cluster.append("A", "2" * 30, timeout_ns=SECOND)[0]
    younger = cluster.append("A", "3")[0]
    assert cluster["A"].up.log.end == 3, "the small one does not overtake"
    cluster.drop()
    cluster.pass_time(SECOND)
    cluster["A"].fire("limbo")
    assert cluster.told == [(Fate.ABORTED, younger), (Fate.ABORTED, impatient)]
    cluster.heartbeat("A")
    cluster.settle()
    assert cluster.fates[first] is Fate.COMMITTED


def test_gh_5142_many_timeouts_write_one_rollback() -> None:
    cluster = steady(Cluster)
    requests = cluster.append("A", *"abcde", rolls_back=True)
    cluster.drop()
    time_out(cluster, "A")
    cluster.heartbeat("A")
    cluster.settle()
    assert rollbacks(cluster, "A") == [3]
    assert cluster.told == [(Fate.ABORTED, request) for request in reversed(requests)]


# Leader change


def test_gh_5435_a_new_leader_confirms_everything_it_holds() -> None:
    """x was committed by A and B; B alone cannot know, and must not doubt it."""
    cluster = steady(Cluster)
    x = cluster.append("A", "x")[0]
    cluster.deliver(entries_to("B"))
    cluster.deliver(is_a(AddEntryResponse))
    assert cluster.fates == {x: Fate.COMMITTED}
    cluster.drop()
    cluster.crash("A")
    cluster.elect(2, "B", "C")
    cluster.settle()
    assert cluster["C"].values == [b"x"]


def test_gh_5445_entries_of_a_deposed_leader_are_refused() -> None:
    cluster = steady(Cluster)
    cluster.append("A", "x")
    cluster.elect(2, "B", "C")
    cluster.deliver(entries_to("C"))
    cluster.settle()
    assert cluster["C"].up.log.epoch_at(cluster["C"].up.log.end) == 2
    assert cluster["A"].up.role is Role.FENCED, "0e48475: and by the refusal it knows"
    cluster.judge.at_the_end()


def test_gh_5395_a_new_leadership_confirms_anew() -> None:
    cluster = steady(Cluster)
    cluster.append("A", "x")
    cluster.settle()
    cluster.elect(2, "A", "BC")
    cluster.settle()
    assert confirms(cluster, "A") == [1, 3, 5], "its own barrier, idle as it is; nothing of before a second time"


def test_6cc1b1f_a_leader_finishes_nothing_after_its_restart() -> None:
    cluster = steady(Cluster)
    cluster.append("A", "x")
    cluster.deliver(entries_to("B"))
    acks = cluster.drop(is_a(AddEntryResponse))
    cluster.drop()
    cluster.restart("A")
    for packet in acks:
        cluster.hand_over(packet)
    assert confirms(cluster, "A") == [1]
    assert cluster["A"].values == []


def test_gh_11574_a_fenced_leader_is_not_reconfigured() -> None:
    cluster = steady(Cluster)
    cluster.append("A", "x")
    cluster.drop()
    cluster.send("A", PrepareReconfigurationRequest(Epoch(2), member("A").incarnation, CONTRACT_C))
    cluster.deliver(is_a(PrepareReconfigurationRequest))
    cluster.drop()
    cluster.fence(3, "A")
    cluster.send("A", CommitReconfigurationRequest(Epoch(2), member("A").incarnation, CONTRACT_C))
    cluster.settle()
    assert isinstance(cluster.inbox[-1][1], Refusal)
    assert Fate.COMMITTED not in cluster.fates.values()


def test_gh_6842_fenced_while_the_own_write_is_under_way() -> None:
    cluster = steady(Cluster)
    cluster["A"].holds_disk = True
    x = cluster.append("A", "x")[0]
    cluster.settle(to("B"))
    cluster.fence(2, "A")
    assert cluster.fates == {x: Fate.INDETERMINATE}
    assert not any(message.epoch == 2 for _, message in cluster.inbox), "its head is not final yet"
    cluster["A"].sync()
    cluster.settle(to("op"))
    assert cluster.inbox[-1][1].head == cluster["A"].up.log.head


def test_gh_12205_a_full_limbo_does_not_stop_a_bump() -> None:
    config = msgspec.structs.replace(CONFIG, limbo=LimboLimits(length_max=1))
    cluster = steady(Cluster, spares="D", config=config)
    requests = cluster.append("A", "x", "y", "z")
    cluster.drop()
    cluster.send("A", PrepareReconfigurationRequest(Epoch(2), member("A").incarnation, EXPAND_D))
    cluster.deliver(is_a(PrepareReconfigurationRequest))
    cluster.heartbeat("A")
    cluster.settle()
    assert [cluster.fates[request] for request in requests] == [Fate.COMMITTED] * 3


def test_gh_12333_what_is_pipelined_behind_a_barrier_waits_for_it() -> None:
    cluster = Cluster("ABC")
    cluster.elect(1, "A", "BC")
    x = cluster.append("A", "x")[0]
    a = cluster.append("A", "a", is_sync=False)[0]
    assert cluster.fates == {}, "not even async: the epoch is not this leader's yet"
    cluster.settle()
    assert [request for _, request in cluster.told] == [x, a]


def test_gh_9138_a_confirm_of_what_is_confirmed_changes_nothing() -> None:
    cluster = steady(Cluster)
    cluster.append("A", "x")
    cluster.settle()
    log = cluster["B"].up.log
    confirm = Confirm(Epoch(1), log.confirmed)
    request = AddEntryRequest(Epoch(1), member("B").incarnation, log.head, (confirm,))
    applied = cluster["B"].values
    cluster.hand_over(Packet(NodeId("A"), NodeId("B"), request))
    assert cluster["B"].values == applied


# Visibility, recovery, snapshot, join


def test_gh_5213_a_confirm_is_applied_only_when_it_is_durable() -> None:
    cluster = steady(Cluster)
    cluster.append("A", "x")
    cluster.deliver(to("B", "C"))
    cluster["B"].holds_disk = True
    cluster.settle()
    assert cluster["B"].values == [], "it could be seen, and be gone after a restart"
    cluster["B"].sync()
    assert cluster["B"].values == [b"x"]


def test_gh_5874_what_was_async_stays_async_across_a_restart() -> None:
    cluster = steady(Cluster)
    cluster.append("A", "a", is_sync=False)
    cluster.append("A", "s")
    cluster.settle()
    cluster.restart("A")
    kinds = [entry.is_sync for entry in cluster["A"].disk.records if hasattr(entry, "is_sync")]
    assert kinds == [False, True]


def test_gh_5566_who_joins_by_a_snapshot_knows_the_past() -> None:
    cluster = steady(Cluster, spares="D", config=msgspec.structs.replace(CONFIG, snapshot_entries=3, retain_entries=0))
    cluster.append("A", "f", rolls_back=True)
    cluster.drop()
    time_out(cluster, "A")
    cluster.heartbeat("A")
    cluster.append("A", "x")
    cluster.settle()
    assert cluster["A"].up.log.base.offset >= 5
    cluster.send("A", PrepareReconfigurationRequest(Epoch(2), member("A").incarnation, EXPAND_D))
    cluster.settle()
    assert cluster["D"].values == [b"x"]
    assert resolve_on(cluster, "D", 1, 3) is Resolution.ABORTED
    assert resolve_on(cluster, "D", 1, 5) is Resolution.COMMITTED


def test_e454545_a_confirm_of_what_the_snapshot_holds_is_no_news() -> None:
    cluster = steady(Cluster, spares="D", config=msgspec.structs.replace(CONFIG, snapshot_entries=2, retain_entries=0))
    cluster.append("A", "x")
    cluster.settle()
    cluster.send("A", PrepareReconfigurationRequest(Epoch(2), member("A").incarnation, EXPAND_D))
    cluster.settle()
    assert cluster["D"].values == [b"x"]
    assert cluster["D"].stopped is None


def test_gh_11091_the_limits_hold_after_a_restart_and_a_new_election() -> None:
    cluster = steady(Cluster, config=msgspec.structs.replace(CONFIG, limbo=LimboLimits(length_max=2)))
    cluster.restart("A")
    cluster.elect(2, "A", "BC")
    cluster.settle()
    cluster.drop()
    end = cluster["A"].up.log.end
    cluster.append("A", *"abcd")
    assert cluster["A"].up.log.end == end + 2


def test_gh_11807_a_read_with_only_async_transactions_pending() -> None:
    cluster = steady(Cluster)
    cluster.append("A", "a", is_sync=False)
    cluster.drop()
    read = cluster.ask("A", QuorumRead())
    cluster.settle()
    assert cluster.replies[read] in ([], [b"a"]), "acknowledged, but not committed: outside of linearizability"


def test_pr_7611_a_read_waits_until_it_is_applied_not_received() -> None:
    cluster = steady(Cluster)
    cluster["A"].holds_disk = True
    cluster.append("A", "x")
    cluster.settle()
    assert cluster["A"].up.replica.commit >= 3
    read = cluster.ask("A", QuorumRead())
    cluster.settle()
    assert read not in cluster.replies, "committed, but this leader has not applied it"
    cluster["A"].holds_disk = False
    cluster["A"].sync()
    cluster.settle()
    assert cluster.replies[read] == [b"x"]


# Quorums, limits and the rest


def test_gh_10087_a_node_which_joins_does_not_raise_the_quorum_for_its_own_joining() -> None:
    cluster = steady(Cluster, "AB", spares="D")
    cluster.send("A", PrepareReconfigurationRequest(Epoch(2), member("A").incarnation, EXPAND_D))
    x = cluster.append("A", "x")[0]
    cluster.settle(lambda packet: packet.to != "D")
    assert cluster.fates.get(x) is Fate.COMMITTED


def test_gh_11836_followers_know_no_limit() -> None:
    cluster = steady(Cluster)
    cluster["B"].up.replica.config = msgspec.structs.replace(CONFIG, limbo=LimboLimits(length_max=1, bytes_max=1))
    cluster.append("A", *"abcdef")
    cluster.settle()
    assert cluster["B"].values == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_gh_10181_nobody_waits_for_ever() -> None:
    cluster = steady(Cluster, config=msgspec.structs.replace(CONFIG, limbo=LimboLimits(length_max=2)))
    requests = cluster.append("A", "a", "b", rolls_back=True) + cluster.append("A", "c")
    requests += cluster.append("A", "d", level=ALL)
    cluster.drop()
    for _ in range(3):
        cluster.pass_time(6 * SECOND)
        if "limbo" in cluster["A"].timers:
            cluster["A"].fire("limbo")
        cluster.drop()
    assert set(cluster.fates) == set(requests)


def test_ec62810_fenced_between_commit_and_confirm_the_caller_has_its_answer() -> None:
    cluster = steady(Cluster, config=msgspec.structs.replace(CONFIG, confirm_delay_ns=SECOND))
    x, y = cluster.append("A", "x")[0], cluster.append("A", "y", level=ALL)[0]
    cluster.deliver(entries_to("B"))
    cluster.deliver(is_a(AddEntryResponse))
    assert cluster.fates == {x: Fate.COMMITTED}
    cluster.fence(2, "A")
    assert cluster.fates[y] is Fate.INDETERMINATE, "committed, but this node may no longer say so"
    cluster.elect(3, "B", "C")
    cluster.settle(cluster.between("B", "C"))
    assert resolve_on(cluster, "B", 1, cluster.ids[y].offset) is Resolution.COMMITTED


def test_gh_7903_a_sync_timeout_touches_nothing_acknowledged_before_it() -> None:
    cluster = steady(Cluster)
    a = cluster.append("A", "a", is_sync=False)[0]
    cluster.drop()
    s = cluster.append("A", "s", rolls_back=True)[0]
    cluster.drop()
    time_out(cluster, "A")
    cluster.heartbeat("A")
    cluster.settle()
    assert cluster.told == [(Fate.ACKNOWLEDGED, a), (Fate.ABORTED, s)]
    assert cluster["C"].values == [b"a"]


def test_gh_9915_async_of_an_old_epoch_gives_way_by_itself() -> None:
    """There, the split brain had to be repaired by hand."""
    cluster = steady(Cluster)
    a = cluster.append("A", "a", is_sync=False)[0]
    assert cluster.fates == {a: Fate.ACKNOWLEDGED}
    cluster.drop()
    cluster.elect(2, "B", "C")
    cluster.settle(cluster.between("B", "C"))
    rejoin(cluster, 2, "B", "A")
    assert cluster["A"].values == []
    assert [entry.ops for entry in cluster["A"].lost if hasattr(entry, "ops")] == [b"a"], "lost, and found"
    assert resolve_on(cluster, "A", 1, 3) is Resolution.ABORTED
    agree(cluster, "A", "B", "C")
