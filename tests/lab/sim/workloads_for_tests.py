"""A workload for tests of the runner: clients add numbers to a `Counter`; answered ones must never be lost."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tests.lab.sim.machines import Add, Counter, CounterProgram, Done

from penstock.kernel.effects import Effect, Event, Persist, Received, Send
from penstock.kernel.ids import MILLISECOND, Instant, NodeId
from penstock.kernel.machine import Machine
from penstock.kernel.probes import reached
from penstock_lab.sim.disk import DiskContent
from penstock_lab.sim.faults import Atlas, Swarm
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.world import World

SERVER, CLIENT = NodeId("server"), NodeId("client")


class HastyCounter(Counter):
    """The mutant: answers before the number is durable."""

    def step(self, event: Event, now: Instant) -> Sequence[Effect]:
        effects = super().step(event, now)
        match effects:
            case [Persist() as persist, Send() as answer]:
                return [answer, persist]
            case _:
                return effects


class Client:
    """Asks again until it is answered."""

    def __init__(self, numbers: int) -> None:
        self.numbers = range(numbers)
        self.waiting = list(self.numbers)
        self.answered: list[int] = []

    def step(self, event: Event, now: Instant) -> Sequence[Effect]:
        match event:
            case Received(_, Done(number)) if number in self.waiting:
                self.waiting.remove(number)
                self.answered.append(number)
        return []

    def check(self) -> None:
        pass


class ClientProgram:
    def __init__(self, client: Client) -> None:
        self.client = client

    def boot(self, node: SimNode, found: DiskContent) -> tuple[Machine, Sequence[Effect]]:
        return self.client, []

    def perform(self, node: SimNode, effect: Effect) -> None:
        raise AssertionError(effect)


class HastyProgram(CounterProgram):
    def boot(self, node: SimNode, found: DiskContent) -> tuple[Machine, Sequence[Effect]]:
        return HastyCounter(node.name, found), []


class AddNumbers:
    name: ClassVar[str] = "add-numbers"
    about: ClassVar[str] = "a client adds numbers to a counter that crashes"
    mutants: ClassVar[Mapping[str, str]] = {"answer-first": "an answer stands behind its Persist"}
    probes: ClassVar[tuple[str, ...]] = ("add.twice",)

    def __init__(self, *, mutant: str | None = None) -> None:
        self.atlas = Atlas(down_max=1)
        self.safety_ns = 300 * MILLISECOND
        self.liveness_ns = 500 * MILLISECOND
        self.program = HastyProgram() if mutant else CounterProgram()
        self.client = Client(20)

    def setup(self, world: World, swarm: Swarm) -> list[NodeId]:
        self.world = world
        world.add_node(SERVER, self.program, clock=swarm.clock(world.rng)).boot()
        world.add_node(CLIENT, ClientProgram(self.client)).boot()
        world.after(MILLISECOND, self._ask)
        return [SERVER]

    def _ask(self) -> None:
        for number in self.client.waiting[:3]:
            self.world.send(CLIENT, SERVER, Add(number))
        self.world.after(10 * MILLISECOND, self._ask)

    def check(self, node: SimNode) -> None:
        server = self.world.nodes[SERVER]
        if isinstance(server.machine, Counter):
            numbers = server.machine.numbers
            if len(numbers) > len(set(numbers)):
                reached("add.twice")
            lost = [number for number in self.client.answered if number not in numbers]
            assert not lost, f"{lost} were answered and are lost"

    def is_settled(self) -> bool:
        return not self.client.waiting

    def finish(self) -> None:
        assert sorted(self.client.answered) == list(self.client.numbers)
