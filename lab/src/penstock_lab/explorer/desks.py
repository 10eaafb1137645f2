"""Every operator's every local state, each once, and every step from it, each taken once. See `sites.py`."""

from typing import NamedTuple

from penstock.kernel.effects import Received, Requested
from penstock.kernel.ids import Incarnation, NodeId, RequestId
from penstock.quorum.core.operator import Activity, Operator, Reconfigure
from penstock.quorum.records.member import Member
from penstock.quorum.records.messages import Change
from penstock_lab.explorer.desk import Cell, Desk, DeskStep
from penstock_lab.explorer.happenings import AnswerHappened, Asked, DeliveryHappened, Happening, Restarted, Ticked
from penstock_lab.explorer.interned import Interned
from penstock_lab.explorer.letters import Letter, Standing, standing_of_desk
from penstock_lab.explorer.search import Violation
from penstock_lab.explorer.setup import Setup

__all__ = ["DeskMove", "DeskView", "Desks", "member"]


def member(name: str) -> Member:
    return Member(NodeId(name), Incarnation("i1"))


class DeskMove(NamedTuple):
    """A step of an operator, with all the KeySpace's answers it led to, in numbers."""

    desk: int
    cell: int
    letters: tuple[int, ...]


class DeskView(NamedTuple):
    """What a world wants to know of an operator, worked out once."""

    standing: int
    epoch: int
    is_writing: bool
    is_watching: bool


class Desks:
    """The table of operators, and of what the metadata ever was."""

    def __init__(
        self,
        setup: Setup,
        operator_class: type[Operator],
        happenings: Interned[Happening],
        letters: Interned[Letter],
        standings: Interned[Standing],
    ) -> None:
        self.setup = setup
        self.operator_class = operator_class
        self.happenings = happenings
        self.letters = letters
        self.standings = standings
        self.cells = Interned[Cell]()
        self.views: list[DeskView] = []
        self.audit_every = 16
        self.audited = 0  # see `Sites.audited`
        self._desks: list[Desk] = []
        self._twins: dict[int, Desk] = {}
        self._ids: dict[object, int] = {}
        self._moves: dict[tuple[int, int, int], DeskMove | Violation | None] = {}

    def __len__(self) -> int:
        return len(self._desks)

    def __getitem__(self, desk: int) -> Desk:
        return self._desks[desk]

    def id_of(self, desk: Desk) -> int:
        key = desk.fingerprint()
        known = self._ids.get(key)
        if known is None:
            known = self._ids[key] = len(self._desks)
            self._desks.append(desk)
            is_watching = desk.operator.activity is Activity.WATCHING
            standing = self.standings.id_of(standing_of_desk(desk))
            self.views.append(DeskView(standing, desk.epoch, bool(desk.writes), is_watching))
        elif self._desks[known].operator is not desk.operator:
            self._twins.setdefault(known, desk)
        return known

    def move(self, desk: int, cell: int, happening: int) -> DeskMove | Violation | None:
        """Return the results of this happening, with the metadata as it is; None: an epoch beyond the bound."""
        key = (desk, cell, happening)
        if key not in self._moves:
            known = self._take(self._desks[desk], self.cells[cell], self.happenings[happening])
            self._moves[key] = known
            if desk in self._twins and len(self._moves) % self.audit_every == 0:
                self.audited += 1
                again = self._take(self._twins[desk], self.cells[cell], self.happenings[happening])
                is_same = again == known or (isinstance(again, Violation) and isinstance(known, Violation))
                assert is_same, f"equal fingerprints, unequal steps: {self.happenings[happening]}"
        return self._moves[key]

    def _take(self, desk: Desk, cell: Cell, happening: Happening) -> DeskMove | Violation | None:
        try:
            if isinstance(happening, AnswerHappened):
                cell, written = cell.write(desk.writes[0])
                step = desk.written(written)
            else:
                step = self._step(desk, happening)
            return self.settle(step, cell)
        except Exception as broken:
            return Violation(f"{type(broken).__name__}: {broken}" if str(broken) else repr(broken))

    def settle(self, step: DeskStep, cell: Cell) -> DeskMove | None:
        """Let the KeySpace answer until the operator wants nothing more of it."""
        sent = list(step.sent)
        while step.reads or (step.desk.writes and not self.setup.has_slow_keyspace):
            if step.reads:
                step = step.desk.read(cell)
            else:
                cell, written = cell.write(step.desk.writes[0])
                step = step.desk.written(written)
            sent += step.sent
        if max([cell.metadata.epoch, *(write.metadata.epoch for write in step.desk.writes)]) > self.setup.epochs:
            return None
        letters = {self.letters.id_of(Letter(step.desk.name, to, message)) for to, message in sent}
        return DeskMove(self.id_of(step.desk), self.cells.id_of(cell), tuple(sorted(letters)))

    def _step(self, desk: Desk, happening: Happening) -> DeskStep:
        match happening:
            case DeliveryHappened(letter):
                return desk.step(Received(letter.sender, letter.message))
            case Ticked(is_late):
                return desk.tick(is_late=is_late)
            case Restarted():
                return Desk.open(desk.name, self.operator_class, self.setup.operator_config())
            case Asked(op, old, new):
                change = Change(op, member(old) if old else None, member(new) if new else None)
                return desk.step(Requested(RequestId(1), Reconfigure(change)))
            case _:
                raise AssertionError(f"not for an operator: {happening}")
