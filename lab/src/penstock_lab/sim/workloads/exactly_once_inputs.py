"""The writers of the inputs of the exactly-once workload: producers that interleave, roll back, and repeat
themselves.
"""

from typing import Any

from penstock.kernel.ids import MILLISECOND
from penstock.messages.framing.framing import Framing
from penstock.messages.publisher import Publisher
from penstock.messages.uuid import producer_id
from penstock_lab.sim.workloads.exactly_once_journals import SimJournals
from penstock_lab.sim.world import World

__all__ = ["Inputs"]


class Inputs:
    """Three producers over two journals. Their commits are known here."""

    def __init__(self, world: World, journals: SimJournals, framing: Framing, wall: int, *, until_ns: int) -> None:
        self.world = world
        self.journals = journals
        self.framing = framing
        self.until_ns = until_ns
        self.committed: dict[str, tuple[str, Any]] = {}  # id -> journal, value
        self.transactions: list[list[str]] = []  # ids which were committed by one ACK
        self.marks: list[tuple[str, int, list[str]]] = []  # journal, its end when they were committed, ids
        rng = world.rng
        self._wall = wall
        self._publishers = [Publisher(producer_id(rng.getrandbits(48)), wall + rng.randrange(10**10)) for _ in range(3)]
        self._open: list[tuple[str, list[Any]] | None] = [None] * 3
        self._acks: list[dict[str, bytes]] = [{} for _ in range(3)]  # the last one into each journal
        self._last: list[tuple[str, bytes]] = [("in-0", b"")] * 3  # their last append
        self._ids = 0

    @property
    def is_over(self) -> bool:
        return self.world.now > self.until_ns and not any(self._open)

    def start(self) -> None:
        self.world.after(MILLISECOND, self._act)

    def _act(self) -> None:
        rng = self.world.rng
        who = rng.randrange(3)
        if self.world.now > self.until_ns:
            for each in range(3):
                self._acknowledge(each)
            return
        if self._open[who] is None:
            rng.choice((self._begin, self._begin, self._lone, self._repeat))(who)
        else:
            rng.choice((self._continue, self._continue, self._acknowledge, self._roll_back, self._repeat))(who)
        self.world.after(int(rng.random() * 4 * MILLISECOND) + 1, self._act)

    def _values(self) -> list[Any]:
        values = []
        for _ in range(self.world.rng.randint(1, 4)):
            self._ids += 1
            rng = self.world.rng
            values.append({"id": f"m{self._ids}", "key": str(rng.randrange(4)), "amount": rng.randrange(100)})
        return values

    def _append(self, who: int, journal: str, frames: bytes) -> None:
        self._last[who] = (journal, frames)
        self.journals.append(journal, frames)

    def _begin(self, who: int) -> None:
        self._publishers[who].update(self._wall + self.world.now)
        self._open[who] = (self.world.rng.choice(("in-0", "in-1")), [])
        self._continue(who)

    def _continue(self, who: int) -> None:
        span = self._open[who]
        assert span is not None
        journal, values = span
        fresh = self._values()
        values += fresh
        self._append(who, journal, self._publishers[who].uncommitted(journal, self.framing, fresh))

    def _lone(self, who: int) -> None:
        journal = self.world.rng.choice(("in-0", "in-1"))
        values = self._values()
        self._append(who, journal, self._publishers[who].committed(journal, self.framing, values))
        self._committed(journal, values)
        self._acks[who].pop(journal, None)  # an ACK from before it would be a deep rollback

    def _acknowledge(self, who: int) -> None:
        span, self._open[who] = self._open[who], None
        if span is None:
            return
        journal, values = span
        ack = self._publishers[who].ack_intents()[journal]
        self._append(who, journal, ack)
        self._acks[who][journal] = ack
        self._committed(journal, values)
        self.transactions.append([value["id"] for value in values])

    def _committed(self, journal: str, values: list[Any]) -> None:
        self.committed.update({value["id"]: (journal, value) for value in values})
        self.marks.append((journal, self.journals.size(journal), [value["id"] for value in values]))

    def _roll_back(self, who: int) -> None:
        """Roll back as a restoring process does: append the ACK before, again. Without one, it continues."""
        span = self._open[who]
        assert span is not None
        journal, _ = span
        if (ack := self._acks[who].get(journal)) is None:
            return
        self._publishers[who].ack_intents()  # forgotten with the transaction
        self._open[who] = None
        self._append(who, journal, ack)

    def _repeat(self, who: int) -> None:
        """Append the last frames a second time, as if their answer was lost."""
        journal, frames = self._last[who]
        self.journals.append(journal, frames)
