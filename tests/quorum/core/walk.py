"""A random walk over a cluster with real operators: messages lost, doubled and reordered, disks late, processes killed,
members swapped; then everything heals, and everything must end.

Not the simulator: no time but what timers say, no latencies. It is small, fast, and shrinks by its seed.
"""

import sys
from collections.abc import Callable
from random import Random

import msgspec
from tests.quorum.core.cluster import CONFIG, Cluster, Host, Packet

from penstock.kernel.ids import MILLISECOND, SECOND, NodeId
from penstock.quorum.core.config import OperatorConfig
from penstock.quorum.core.limbo_queue import LimboLimits
from penstock.quorum.core.node import Node
from penstock.quorum.core.operator import Elect, Operator, Reconfigure
from penstock.quorum.core.reading.reads import QuorumRead
from penstock.quorum.records.answers import Fate
from penstock.quorum.records.effects import ALL, APPLIED
from penstock.quorum.records.messages import Change, ChangeOp, Role
from penstock.quorum.records.metadata import Status
from penstock.quorum.records.resolution import Resolution, Resolve

SMALL = msgspec.structs.replace(
    CONFIG,
    limbo=LimboLimits(length_max=4, volatile_length_max=4, async_window_bytes=300),
    push_bytes_max=200,
    push_window_bytes=400,
    apply_bytes_max=200,
    tail_bytes_max=500,
    snapshot_chunk_bytes=64,
    retain_entries=2,
    snapshot_entries=6,
    append_timeout_ns=200 * MILLISECOND,
    rollback_grace_ns=200 * MILLISECOND,
)
PATIENCE = OperatorConfig(
    heartbeat_ns=10 * MILLISECOND,
    failure_ns=150 * MILLISECOND,
    election_ns=150 * MILLISECOND,
    reconfiguration_ns=SECOND,
)


class Walk:
    """One seed."""

    def __init__(self, seed: int, *, node_class: type[Node] = Node, operator_class: type[Operator] = Operator) -> None:
        rng = self.rng = Random(seed)
        names = rng.choice(["ABC", "ABC", "ABCDE", "AB"])
        spares = rng.choice(["", "XY", "X"])
        config = msgspec.structs.replace(
            SMALL,
            confirm_delay_ns=rng.choice([0, 5 * MILLISECOND]),
            snapshot_entries=rng.choice([4, 8, 1 << 40]),
        )
        self.cluster = Cluster(
            names, spares=spares, node_class=node_class, operator_class=operator_class, config=config
        )
        self.operators = [self.cluster.start_operator(f"op{index}", PATIENCE) for index in range(rng.choice([1, 2]))]
        self.requests: dict[int, tuple[Host, int]] = {}  # to which host, in which of its runs
        self.reads: dict[int, tuple[bool, int]] = {}  # what must be visible: commits told when it was asked
        self.served: dict[tuple[str, int], int] = {}
        self.value = 0
        self.crashes_left = rng.choice([0, 3, 8])
        self.wipes_left = rng.choice([0, 1]) if len(names) > 2 else 0  # a minority may lose its disk for good
        self.may_contract = not self.wipes_left
        actions: list[tuple[Callable[[], None], int]] = [
            (self.deliver, rng.choice([60, 120])),
            (self.append, rng.choice([3, 8])),
            (self.timer, 4),
            (self.tick, 3),
            (self.disk, rng.choice([0, 3, 6])),
            (self.drop, rng.choice([0, 1, 4])),
            (self.double, rng.choice([0, 1, 3])),
            (self.crash, rng.choice([0, 1])),
            (self.reconfigure, rng.choice([0, 1, 2])),
            (self.elect, rng.choice([0, 0, 1])),
            (self.read, 2),
            (self.operator_restart, rng.choice([0, 0, 1])),
            (self.part, rng.choice([0, 0, 1])),
            (self.wipe, 1),
        ]
        self.actions = [action for action, _ in actions]
        self.weights = [weight for _, weight in actions]

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.cluster.pass_time(self.rng.randrange(2 * MILLISECOND))
            self.rng.choices(self.actions, self.weights)[0]()
            self.watch_reads()
        self.heal()

    def up(self) -> list[Host]:
        return [host for host in self.cluster.hosts.values() if host.node is not None]

    # actions

    def deliver(self) -> None:
        net = self.cluster.net
        if net:
            index = 0 if self.rng.random() < 0.8 else self.rng.randrange(len(net))
            self.cluster.hand_over(net.pop(index))

    def drop(self) -> None:
        net = self.cluster.net
        if net:
            net.pop(self.rng.randrange(len(net)))

    def double(self) -> None:
        net = self.cluster.net
        if net:
            packet: Packet = self.rng.choice(net)
            net.insert(self.rng.randrange(len(net) + 1), packet)

    def append(self) -> None:
        rng = self.rng
        leaders = [host for host in self.up() if host.up.role is Role.LEADER]
        if not leaders:
            return
        host = rng.choice(leaders)
        values = []
        for _ in range(rng.randrange(1, 4)):
            self.value += 1
            values.append(str(self.value))
        is_sync = rng.random() < 0.7
        level = rng.choice([0, 0, 0, ALL, APPLIED]) if is_sync else 0
        options = {"is_sync": is_sync, "rolls_back": rng.random() < 0.3, "level": level}
        for request in self.cluster.append(host.name, *values, **options):
            self.requests[request] = (host, host.run)

    def timer(self) -> None:
        now = self.cluster.now
        due = [(host, name) for host in self.up() for name, at in sorted(host.timers.items()) if at <= now]
        if due:
            host, name = self.rng.choice(due)
            host.fire(name)

    def tick(self) -> None:
        self.rng.choice(self.operators).tick()

    def disk(self) -> None:
        if not self.up():
            return
        host = self.rng.choice(self.up())
        if host.holds_disk:
            if self.rng.random() < 0.5:
                host.holds_disk = False
            host.sync(min(len(host.disk.pending), self.rng.randrange(3)))
        else:
            host.holds_disk = True

    def crash(self) -> None:
        host = self.rng.choice(list(self.cluster.hosts.values()))
        if host.node is None:
            host.boot()
        elif self.crashes_left:
            self.crashes_left -= 1
            host.crash(self.rng.randrange(len(host.disk.pending) + 1))
            if self.rng.random() < 0.5:
                host.boot()

    def wipe(self) -> None:
        """A disk is lost. The node comes back as another member, and returns by a swap when all is calm."""
        if self.wipes_left and self.rng.random() < 0.2 and self.cluster.metadata().is_formed:
            self.wipes_left -= 1
            self.cluster.wipe(self.rng.choice(self.cluster.metadata().ensemble).node)

    def operator_restart(self) -> None:
        index = self.rng.randrange(len(self.operators))
        self.operators[index].crash()
        self.operators[index] = self.cluster.start_operator(f"op{index}", PATIENCE)

    def elect(self) -> None:
        self.cluster.ask_operator(self.rng.choice(self.operators).name, Elect())

    def reconfigure(self) -> None:
        ensemble = self.cluster.metadata().ensemble
        outside = [
            host.disk.state.member for host in self.cluster.hosts.values() if host.disk.state.member not in ensemble
        ]
        ops = [ChangeOp.CONTRACT] if len(ensemble) > 1 and self.may_contract else []
        ops += [ChangeOp.SWAP, ChangeOp.EXPAND] if outside else []
        if not ops:
            return
        op = self.rng.choice(ops)
        old = None if op is ChangeOp.EXPAND else self.rng.choice(ensemble)
        new = None if op is ChangeOp.CONTRACT else self.rng.choice(outside)
        self.cluster.ask_operator(self.rng.choice(self.operators).name, Reconfigure(Change(op, old, new)))

    def read(self) -> None:
        if not self.up():
            return
        host = self.rng.choice(self.up())
        is_linearizable = self.rng.random() < 0.6
        must_see = sum(1 for fate in self.cluster.fates.values() if fate is Fate.COMMITTED)
        request = self.cluster.ask(host.name, QuorumRead(is_linearizable))
        self.reads[request] = (is_linearizable, must_see)
        self.watch_reads()

    def part(self) -> None:
        if self.rng.random() < 0.5:
            self.cluster.heal()
        else:
            self.cluster.cut(self.rng.choice(list(self.cluster.hosts)))

    # judgement

    def watch_reads(self) -> None:
        """P12: a linearizable read sees every transaction told committed before it was asked."""
        done = [request for request in self.reads if request in self.cluster.replies]
        for request in done:
            is_linearizable, must_see = self.reads.pop(request)
            result = self.cluster.replies[request]
            if isinstance(result, list) and is_linearizable:
                assert len(result) >= must_see, "I24: a linearizable read missed what was told before"

    def heal(self) -> None:
        """Everything works again: every waiter hears something, and every member ends with the same log (I14, I23)."""
        cluster = self.cluster
        cluster.heal()
        for host in cluster.hosts.values():
            host.holds_disk = False
            if host.node is None:
                host.boot()
            host.sync()
        for index in range(len(self.operators)):
            if self.operators[index].operator is None:
                self.operators[index] = cluster.start_operator(f"op{index}", PATIENCE)
        for _ in range(300):
            self._round()
            if self._is_calm():
                break
            self._swap_wiped()
        else:
            raise AssertionError(f"I23: no rest: {cluster.metadata()}")
        self._check_end()

    def _swap_wiped(self) -> None:
        """P14: who lost its data returns by a swap of its old self for its new one."""
        for each in self.cluster.metadata().ensemble:
            now = self.cluster[each.node].disk.state.member
            if now != each:
                swap = Reconfigure(Change(ChangeOp.SWAP, each, now))
                self.cluster.ask_operator(self.operators[0].name, swap)

    def _round(self) -> None:
        cluster = self.cluster
        cluster.settle()
        cluster.pass_time(20 * MILLISECOND)
        for operator in self.operators:
            operator.tick()
        for host in self.up():
            for name, at in sorted(host.timers.items()):
                if at <= cluster.now and name in host.timers:
                    host.fire(name)
        cluster.settle()

    def _is_calm(self) -> bool:
        metadata = self.cluster.metadata()
        if metadata.status is not Status.STEADY_STATE or metadata.leader is None:
            return False
        leader = self.cluster[metadata.leader.node].up
        if leader.leader is None or leader.epoch != metadata.epoch:
            return False
        hosts = self.cluster.hosts
        if any(hosts[each.node].disk.state.member != each for each in metadata.ensemble):
            return False
        is_told = all(self._is_told(request) for request in self.requests)
        return is_told and all(self._is_level(each.node) for each in metadata.ensemble)

    def _is_told(self, request: int) -> bool:
        """Nobody waits any more: it was answered, or its process died with it."""
        host, run = self.requests[request]
        is_gone = host.run != run or self.cluster.hosts[host.name] is not host
        return request in self.cluster.fates or is_gone

    def _is_level(self, name: NodeId) -> bool:
        metadata = self.cluster.metadata()
        assert metadata.leader is not None
        leader, node = self.cluster[metadata.leader.node].up, self.cluster[name].up
        has_all = node.log.head == leader.log.head and leader.replica.commit == leader.log.end
        return has_all and len(self.cluster[name].values) == len(self.cluster[metadata.leader.node].values)

    def _check_end(self) -> None:
        cluster = self.cluster
        cluster.judge.at_the_end()
        metadata = cluster.metadata()
        assert metadata.leader is not None
        leader = cluster[metadata.leader.node]
        for each in metadata.ensemble:
            assert cluster[each.node].values == leader.values, "I10"
        for request in self.requests:
            if request in cluster.fates:
                self._check_fate(request)
        final = [int(value) for value in leader.values]
        assert len(final) == len(set(final)), "I26: each takes effect once"

    def _check_fate(self, request: int) -> None:
        """I14: whatever could not be told, every node which answers resolves to what really happened."""
        cluster = self.cluster
        fate, entry = cluster.fates[request], cluster.ids[request]
        if not entry.offset:
            return
        really = Resolution.COMMITTED if cluster.judge.holds(entry) else Resolution.ABORTED
        for each in cluster.metadata().ensemble:
            answer = cluster.replies[cluster.ask(each.node, Resolve(entry))]
            assert answer in (really, Resolution.PENDING, Resolution.EXPIRED), (entry, answer, really, fate)
            is_leader = each == cluster.metadata().leader
            assert answer is not Resolution.PENDING or not is_leader, "P10: never PENDING once the barrier is committed"


def main(first: str, last: str, steps: str = "500") -> None:
    """`python -m tests.quorum.core.walk FIRST LAST [STEPS]`: many seeds; stops at the first which fails."""
    for seed in range(int(first), int(last)):
        try:
            Walk(seed).run(int(steps))
        except AssertionError:
            print(f"seed {seed} fails in {steps} steps")
            raise
    print(f"seeds {first} to {last}: clean")


if __name__ == "__main__":
    main(*sys.argv[1:])
