"""The people of the quorum workload, and bad luck aimed at it: hand-overs, swaps, expansions, contractions; operators
which die with a write of the metadata, nodes which die with a step, members cut off for a while, disks lost.

Faults stay inside the protocol's promises: disks are lost only while every possible next ensemble keeps a majority, and
a lost member comes back by a swap (id, old) → (id, new) (quorum-log.md P14).
"""

from collections.abc import Callable
from typing import Any

from penstock.kernel.effects import Reply, Requested
from penstock.kernel.ids import MILLISECOND, NodeId, RequestId
from penstock.kernel.probes import reached
from penstock.quorum.core.operator import Elect, Reconfigure
from penstock.quorum.records.member import Ensemble, Member, majority
from penstock.quorum.records.messages import Change, ChangeOp
from penstock.quorum.records.metadata import Metadata, PeerLost, Status
from penstock.quorum.records.reconfiguration import final_ensemble
from penstock_lab.sim.checkers.quorum import QuorumChecks
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.workloads.quorum_modes import Settings
from penstock_lab.sim.workloads.quorum_operator import MetadataCell
from penstock_lab.sim.world import World

__all__ = ["Admin"]

REPAIR_NS = 15 * MILLISECOND
MEMBERS_MAX = 5

KILLED_IN = {
    Status.ELECTION: "quorum.operator_killed_in_election",
    Status.RECONFIGURATION: "quorum.operator_killed_in_reconfiguration",
    Status.STEADY_STATE: "quorum.operator_killed_in_steady_state",
}
CHANGED = {
    ChangeOp.SWAP: "quorum.swapped",
    ChangeOp.EXPAND: "quorum.expanded",
    ChangeOp.CONTRACT: "quorum.contracted",
}


class Admin:
    """Asks operators for elections and changes, and makes trouble."""

    def __init__(self, world: World, checks: QuorumChecks, cell: MetadataCell, settings: Settings) -> None:
        self.world = world
        self.checks = checks
        self.cell = cell
        self.settings = settings
        self.operators: list[NodeId] = []
        self.nodes: list[NodeId] = []
        self.is_over = False  # the faults are; repairs continue
        self._asked: dict[RequestId, tuple[NodeId, int, Any]] = {}  # the process asked, its run, and the request
        self._requests = 0
        self._wipes_left = settings.wipes

    def start(self) -> None:
        settings = self.settings
        self._every(settings.election_ns, self._ask_election)
        self._every(settings.change_ns, self._ask_change)
        self._every(settings.cut_ns, self._cut_off)
        self._every(REPAIR_NS, self._repair, goes_on=True)
        if settings.damage_ns:
            self.world.after(1 + int(self.world.rng.random() * settings.damage_ns), self._damage)
        if settings.wipes:
            self._every(settings.safety_ns // 3, self._lose_disk)
        self.cell.lose = settings.lose_metadata
        self.cell.on_write = self._on_metadata_written

    def end(self) -> None:
        """The faults are over."""
        self.is_over = True
        self.cell.lose = 0.0
        for name in self.operators:
            node = self.world.nodes[name]
            node.resume()
            if not node.is_up:
                node.boot()

    def _every(self, mean_ns: int, do: Callable[[], None], *, goes_on: bool = False) -> None:
        def fire() -> None:
            if goes_on or not self.is_over:
                do()
                self.world.after(1 + int(self.world.rng.random() * 2 * mean_ns), fire)

        if mean_ns:
            self.world.after(1 + int(self.world.rng.random() * 2 * mean_ns), fire)

    # asking operators

    def ask(self, body: Any) -> None:
        up = [name for name in self.operators if self.world.nodes[name].is_up]
        if up:
            name = self.world.rng.choice(up)
            node = self.world.nodes[name]
            self._requests += 1
            request = RequestId(self._requests)
            self._asked[request] = (name, node.run, body)
            node.deliver(Requested(request, body))

    def granted(self, reply: Reply) -> None:
        _, _, body = self._asked.pop(reply.request)
        if isinstance(reply.result, Metadata) and isinstance(body, Reconfigure):
            reached(CHANGED[body.change.op])

    def _ask_election(self) -> None:
        rng = self.world.rng
        self.ask(Elect(rng.choice([None, *self.nodes]), aborts=rng.random() < 0.3))

    def _ask_change(self) -> None:
        change = self._some_change(self.cell.metadata)
        if change is not None:
            self.ask(Reconfigure(change))

    def _some_change(self, metadata: Metadata) -> Change | None:
        """Something which fits, or would have fitted a moment ago."""
        rng, ensemble = self.world.rng, metadata.ensemble
        if self.lost(ensemble):
            return None  # first things first
        members = {member.node for member in ensemble}
        spare = [host.member for name, host in self.checks.hosts.items() if name not in members]
        others = [member for member in ensemble if member != metadata.leader]
        ops: list[Change] = []
        if spare and others:
            ops += [Change(ChangeOp.SWAP, rng.choice(others), rng.choice(spare))] * 3
        if spare and len(ensemble) < MEMBERS_MAX:
            ops += [Change(ChangeOp.EXPAND, None, rng.choice(spare))]
        if others and len(ensemble) > rng.choice((1, 2, 2, 2)):
            ops += [Change(ChangeOp.CONTRACT, rng.choice(others), None)]
        return rng.choice(ops) if ops else None

    def lost(self, ensemble: Ensemble) -> list[Member]:
        """Members whose disk is gone."""
        hosts = self.checks.hosts
        return [member for member in ensemble if hosts[member.node].member != member]

    def _repair(self) -> None:
        """A lost member is swapped for what its node is now."""
        metadata = self.cell.metadata
        lost = self.lost(metadata.ensemble)
        if lost and metadata.status is Status.STEADY_STATE:
            old = self.world.rng.choice(lost)
            new = self.checks.hosts[old.node].member
            self.ask(Reconfigure(Change(ChangeOp.SWAP, old, new)))

    # bad luck

    def _on_metadata_written(self, node: SimNode, metadata: Metadata) -> None:
        rng, settings = self.world.rng, self.settings
        if self.is_over:
            return
        if settings.kill_operator and rng.random() < settings.kill_operator:
            reached(KILLED_IN[metadata.status])
            self.kill(node, self.world.now + int(rng.random() * 10 * MILLISECOND))
        elif settings.kill_operator and rng.random() < settings.kill_operator:
            reached("quorum.operator_paused")
            self._pause(node)
        if settings.split and rng.random() < settings.split:
            self.world.after(int(rng.random() * 10 * MILLISECOND), lambda: self._split(metadata))

    def _split(self, metadata: Metadata) -> None:
        """Part the leader, and the new node of a change, from everybody: it does not know that it is over."""
        change = metadata.reconfiguration.change if metadata.reconfiguration is not None else None
        side = [member.node for member in (metadata.leader, change.new if change is not None else None) if member]
        if side and not self.is_over:
            reached("quorum.leader_split_off")
            self._isolate(side, [name for name in (*self.nodes, *self.operators) if name not in side])

    def _pause(self, node: SimNode) -> None:
        """A zombie: it believes, when it wakes, that nothing has happened since."""
        run = node.run
        node.pause()

        def resume() -> None:
            if node.run == run:
                node.resume()

        self.world.after(MILLISECOND + int(self.world.rng.random() * 60 * MILLISECOND), resume)

    def kill(self, node: SimNode, at: int) -> None:
        """Crash a process at a time, and boot it again later."""
        rng, run = self.world.rng, node.run

        def crash() -> None:
            if node.run == run and node.is_up and not self.is_over:
                node.crash()
                self._tell_operators(node.name)
                self.world.after(MILLISECOND + int(rng.random() * 40 * MILLISECOND), boot)

        def boot() -> None:
            if not node.is_up and not self.is_over:
                node.boot()

        self.world.after(at - self.world.now, crash)

    def _tell_operators(self, name: NodeId) -> None:
        """Close the connections of a process that has ended, as its machine does; some operators dial again."""
        rng = self.world.rng
        for each in self.operators if name in self.nodes else ():
            lost = PeerLost(name, rng.random() < 0.7)
            operator, run = self.world.nodes[each], self.world.nodes[each].run

            def tell(operator: SimNode = operator, run: int = run, lost: PeerLost = lost) -> None:
                if operator.run == run:
                    operator.deliver(lost)

            self.world.after(int(rng.random() * 2 * MILLISECOND), tell)

    def _cut_off(self) -> None:
        """Part some nodes from the others; operators still reach everybody."""
        rng, leader = self.world.rng, self.cell.metadata.leader
        side = rng.sample(self.nodes, rng.randint(1, max(1, len(self.nodes) // 2)))
        if leader is not None and rng.random() < 0.6:
            side = [leader.node]  # what its customers bring now is in no other log
        self._isolate(side, [name for name in self.nodes if name not in side])

    def _isolate(self, side: list[NodeId], others: list[NodeId]) -> None:
        rng, network = self.world.rng, self.world.network
        self.world.note("world", "!", f"cut off {' '.join(side)}")
        network.isolate(side, others)

        def heal() -> None:
            if not self.is_over:
                network.heal()

        self.world.after(MILLISECOND + int(rng.random() * 40 * MILLISECOND), heal)

    def _lose_disk(self) -> None:
        node = self.world.nodes[self.world.rng.choice(self.nodes)]
        if self._wipes_left and node.is_up and self._may_lose(self.checks.hosts[node.name].member):
            self._wipes_left -= 1
            reached("quorum.disk_lost")
            self.world.note(node.name, "!", "disk lost")
            node.crash()
            node.disk.wipe()
            node.boot()

    def _damage(self) -> None:
        """Damage one state machine, of the leader or of a follower."""
        rng, leader = self.world.rng, self.cell.metadata.leader
        name = leader.node if leader is not None and rng.random() < 0.4 else rng.choice(self.nodes)
        node = self.world.nodes[name]
        if node.is_up and not self.is_over:
            reached("quorum.damaged")
            self.world.note(name, "!", "state machine damaged")
            program: Any = node.program
            program.damage()

    def _may_lose(self, member: Member) -> bool:
        """Return whether a majority keeps its disks in every possible next ensemble."""
        metadata = self.cell.metadata
        if self._has_open_changes():
            return False
        ensembles = [metadata.ensemble, metadata.final_ensemble]
        if metadata.reconfiguration is not None:
            ensembles.append(final_ensemble(metadata.ensemble, metadata.reconfiguration.change))
        for ensemble in ensembles:
            lost = {*self.lost(ensemble), *self._empty(ensemble), *([member] if member in ensemble else [])}
            if len(lost) > len(ensemble) - majority(len(ensemble)):
                return False
        return True

    def _empty(self, ensemble: Ensemble) -> list[Member]:
        """Members which have never had data: until a snapshot comes they are no help to anybody."""
        hosts = self.checks.hosts
        return [member for member in ensemble if not hosts[member.node].node.disk.state.is_formatted]

    def _has_open_changes(self) -> bool:
        """May an operator still write a change which nobody sees yet?"""
        return any(
            isinstance(body, Reconfigure) and self.world.nodes[name].run == run
            for name, run, body in self._asked.values()
        )
