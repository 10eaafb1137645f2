"""What the schedules of quorum-log.md share.

A schedule is a function over a cluster: the tests run it on the nodes we ship, the mutants on nodes with one rule
broken. Every schedule starts from a steady epoch 1 led by A, unless it says otherwise: 1/1 is its barrier, 1/2 its
CONFIRM. It ends by letting the judge look at everything once more.
"""

from collections.abc import Callable
from typing import Any

from tests.quorum.core.cluster import Cluster, Packet, entry_id, member

from penstock.kernel.ids import SECOND
from penstock.quorum.records.messages import (
    AddEntryRequest,
    Change,
    ChangeOp,
)
from penstock.quorum.records.resolution import Resolution, Resolve

Make = Callable[..., Cluster]

SWAP_B_D = Change(ChangeOp.SWAP, member("B"), member("D"))
EXPAND_D = Change(ChangeOp.EXPAND, None, member("D"))
CONTRACT_B = Change(ChangeOp.CONTRACT, member("B"), None)
CONTRACT_C = Change(ChangeOp.CONTRACT, member("C"), None)


def steady(make: Make, names: str = "ABC", **options: Any) -> Cluster:
    """Epoch 1, led by A, everybody up to date."""
    cluster = make(names, **options)
    cluster.elect(1, "A", names.replace("A", ""))
    cluster.settle()
    assert cluster["A"].up.replica.commit >= 1
    return cluster


def to(*names: str) -> Callable[[Packet], bool]:
    return lambda packet: packet.to in names


def is_a(*kinds: type) -> Callable[[Packet], bool]:
    return lambda packet: isinstance(packet.message, kinds)


def entries_to(name: str) -> Callable[[Packet], bool]:
    return lambda packet: packet.to == name and isinstance(packet.message, AddEntryRequest)


def resolve_on(cluster: Cluster, name: str, epoch: int, offset: int) -> Resolution:
    answer = cluster.replies[cluster.ask(name, Resolve(entry_id(epoch, offset)))]
    assert isinstance(answer, Resolution)
    return answer


def time_out(cluster: Cluster, name: str) -> None:
    """Everybody who waits on this node has waited long enough."""
    cluster.pass_time(6 * SECOND)
    cluster[name].fire("limbo")


def rejoin(cluster: Cluster, epoch: int, leader: str, name: str) -> None:
    """Bring a member back as the operator does: Fence and AddFollower of the current epoch."""
    head = cluster.fence(epoch, name)[name]
    cluster.add_follower(epoch, leader, name, head)
    cluster.settle()


def agree(cluster: Cluster, *names: str) -> None:
    """These nodes hold one log and have applied one sequence; nothing told so far was a lie."""
    first = cluster[names[0]]
    for name in names[1:]:
        assert cluster[name].ids == first.ids, (name, cluster[name].ids, first.ids)
        assert cluster[name].values == first.values
    cluster.judge.at_the_end()


def is_not_answered_commit(packet: Packet) -> bool:
    return type(packet.message).__name__ != "CommitReconfigurationResponse"
