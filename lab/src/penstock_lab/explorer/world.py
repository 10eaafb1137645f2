"""A small world: nodes on their disks, operators, the metadata, the letters on their way, and the promises made.

The nodes and operators are the very cores the server runs; see `site.py` and `desk.py`. Each choice that the real world
does not determine is a step here: which message comes next, or never; when a write is durable; where a crash cuts;
which wait times out; when an operator loses patience. Bounds are in the `Setup`.

A state is one integer, made of the numbers of its parts. After every step the `Ledger` judges what the step means, and
`quorums.py` what needs several disks at once.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from penstock.kernel.ids import NodeId, Revision
from penstock.quorum.core.node import Node
from penstock.quorum.core.operator import Operator
from penstock.quorum.records.metadata import Metadata
from penstock.quorum.records.state import NodeState
from penstock_lab.explorer.desk import Cell, Desk
from penstock_lab.explorer.desks import DeskMove, Desks, member
from penstock_lab.explorer.disk_image import DiskImage
from penstock_lab.explorer.happenings import (
    AnswerHappened,
    Asked,
    DeliveryHappened,
    Happening,
    Restarted,
    Spoke,
    Submitted,
    Ticked,
    WriteHappened,
)
from penstock_lab.explorer.interned import Interned
from penstock_lab.explorer.ledger import EMPTY, Ledger
from penstock_lab.explorer.letters import Standing
from penstock_lab.explorer.mailbag import Bag, Mailbag
from penstock_lab.explorer.quorums import check_electable, check_resolutions, check_votes
from penstock_lab.explorer.search import Violation
from penstock_lab.explorer.setup import Left, Setup
from penstock_lab.explorer.site import ModelNode, SiteConfig
from penstock_lab.explorer.sites import Sites
from penstock_lab.explorer.wording import happening_text

__all__ = ["Action", "ExplorerWorld", "Parts"]

BITS = 24  # of each part's number
MASK = (1 << BITS) - 1
CELL, BAG, LEDGER, LEFT = -4, -3, -2, -1
Parts = list[int]  # nodes, operators, metadata, letters, ledger, the rest of the budget


class Action(NamedTuple):
    """Something happens to a party."""

    party: int  # a node's index, or an operator's behind those
    happening: int
    is_copied: bool = False  # the letter stays on its way: it comes twice


Step = tuple[Action, int | Violation]


class ExplorerWorld:
    """The model to search."""

    def __init__(
        self,
        setup: Setup,
        *,
        node_class: type[Node] = Node,
        operator_class: type[Operator] = Operator,
        is_checked: bool = True,
    ) -> None:
        self.setup = setup
        self.config = SiteConfig(node_class, setup.node_config(), is_checked, setup.shows_commit)
        nodes = setup.nodes + setup.spares
        self.node_count = len(nodes)
        self.names = [NodeId(name) for name in (*nodes, *(f"op{number + 1}" for number in range(setup.operators)))]
        self.happenings = Interned[Happening]()
        standings = Interned[Standing]()
        self.mail = Mailbag({name: index for index, name in enumerate(self.names)}, self.happenings, standings)
        self.sites = Sites(setup, self.happenings, self.mail.letters, standings)
        self.desks = Desks(setup, operator_class, self.happenings, self.mail.letters, standings)
        self.ledgers = Interned[Ledger]()
        self.lefts = Interned[Left]()
        self._spent: dict[tuple[int, str], int] = {}
        self._ledger_after: dict[tuple[int, int], int | Violation] = {}
        self._committed = Interned[object]()
        self._committed_of: list[int] = []  # by ledger
        self._electable: dict[tuple[int, ...], Violation | None] = {}
        self._resolved: dict[tuple[int, int], Violation | None] = {}
        number = self.happenings.id_of
        self._wrote, self._spoke, self._answered = number(WriteHappened()), number(Spoke()), number(AnswerHappened())
        self._late, self._early = number(Ticked(is_late=True)), number(Ticked(is_late=False))
        self._restarted = number(Restarted())
        self._submitted = [number(Submitted(txn)) for txn in range(len(setup.txns))]
        self._asked = number(Asked(*setup.change)) if setup.change is not None else -1

    # where it starts

    def starts(self) -> Iterable[int]:
        """A steady epoch 1, and then what the setup says has already happened."""
        return [self.follow(self.steady(), self.setup.prelude)]

    def steady(self) -> int:
        """The first node leads, everything is committed, applied and quiet; all operators watch."""
        return self._open_desks(self.calm(self.blank()), range(1, self.setup.operators))

    def follow(self, state: int, labels: Iterable[str]) -> int:
        """Take steps by how their labels begin."""
        for wanted in labels:
            steps = {self.label(action): after for action, after in self.steps(state)}
            after = next((after for label, after in steps.items() if label.startswith(wanted)), None)
            assert after is not None, f"no step {wanted!r} among {sorted(steps)}"
            if isinstance(after, Violation):
                raise after
            state = after
        return state

    def label(self, action: Action) -> str:
        """A step in words."""
        again = ", which will come again" if action.is_copied else ""
        return f"{self.names[action.party]} {happening_text(self.happenings[action.happening])}{again}"

    def blank(self) -> int:
        """No node has led yet, and the first operator has just started."""
        setup, ledger = self.setup, EMPTY
        parts: Parts = []
        for name in setup.nodes + setup.spares:
            disk = DiskImage(NodeState(member(name), is_formatted=name in setup.nodes))
            booted = ModelNode.boot(self.config, disk, is_slow=name in setup.slow)
            ledger = ledger.note(booted.facts)
            parts.append(self.sites.enter(booted).site)
        cell = Cell(Metadata(tuple(member(name) for name in setup.nodes)), Revision(1))
        parts += [0] * setup.operators
        parts += [self.desks.cells.id_of(cell), self.mail.bags.id_of(()), self._ledger_id(ledger)]
        parts.append(self.lefts.id_of(setup.left()))
        return self._open_desks(self.pack(parts), range(1))

    def _open_desks(self, state: int, which: Iterable[int]) -> int:
        parts = self.unpack(state)
        for number in which:
            index = self.node_count + number
            opened = Desk.open(self.names[index], self.desks.operator_class, self.setup.operator_config())
            move = self.desks.settle(opened, self.desks.cells[parts[CELL]])
            assert move is not None
            parts[index], parts[CELL] = move.desk, move.cell
            parts[BAG] = self._post(parts, self.mail.bags[parts[BAG]], move.letters)
        return self.pack(parts)

    def calm(self, state: int) -> int:
        """Finish every write and deliver every letter until nothing is under way."""
        calming = (DeliveryHappened, WriteHappened, AnswerHappened)
        while True:
            steps = [each for each in self.steps(state) if isinstance(self.happenings[each[0].happening], calming)]
            if not steps:
                return state
            after = steps[0][1]
            if isinstance(after, Violation):
                raise after
            state = after

    # a state as one number

    def pack(self, parts: Parts) -> int:
        state = 0
        for part in reversed(parts):
            state = state << BITS | part
        return state

    def unpack(self, state: int) -> Parts:
        return [state >> shift & MASK for shift in range(0, BITS * (len(self.names) + 4), BITS)]

    # steps

    def steps(self, state: int) -> list[Step]:
        """Everything that can happen next, and where it leads."""
        parts = self.unpack(state)
        left = self.lefts[parts[LEFT]]
        bag = self.mail.bags[parts[BAG]]
        found: list[Step] = []
        for action, spends in (*self._node_actions(parts, left), *self._operator_actions(parts, left)):
            self._take(parts, action, bag, spends, found)
        in_turn = self.mail.in_turn(bag)
        for letter in bag if left.overtakes else in_turn:
            _, party, happening, _, _ = self.mail.envelope(letter)
            rest = tuple([each for each in bag if each != letter])
            is_next = letter in in_turn
            self._take(parts, Action(party, happening), rest, None if is_next else "overtakes", found)
            if left.duplicates and is_next:
                self._take(parts, Action(party, happening, is_copied=True), bag, "duplicates", found)
        return found

    def _node_actions(self, parts: Parts, left: Left) -> list[tuple[Action, str | None]]:
        found: list[tuple[Action, str | None]] = []
        for index in range(self.node_count):
            view = self.sites.views[parts[index]]
            if view.is_writing:
                found.append((Action(index, self._wrote), None))
            if left.crashes:
                found += [(Action(index, happening), "crashes") for happening in view.crashes]
            if view.is_leading:
                if left.txns:
                    found.append((Action(index, self._submitted[-left.txns]), "txns"))
                if left.heartbeats:
                    found.append((Action(index, self._spoke), "heartbeats"))
                if left.timeouts:
                    found += [(Action(index, happening), "timeouts") for happening in view.timeouts]
        return found

    def _operator_actions(self, parts: Parts, left: Left) -> list[tuple[Action, str | None]]:
        found: list[tuple[Action, str | None]] = []
        for index in range(self.node_count, len(self.names)):
            view = self.desks.views[parts[index]]
            found.append((Action(index, self._late), None))
            if view.is_writing:
                found.append((Action(index, self._answered), None))
            if left.ticks:
                found.append((Action(index, self._early), "ticks"))
            if left.changes and view.is_watching:
                found.append((Action(index, self._asked), "changes"))
            if left.operator_crashes:
                found.append((Action(index, self._restarted), "operator_crashes"))
        return found

    def _take(self, parts: Parts, action: Action, bag: Bag, spends: str | None, found: list[Step]) -> None:
        """Add where an action leads, with these letters left in the bag; nowhere, if that is beyond the bounds."""
        following = parts.copy()
        if spends is not None:
            following[LEFT] = self._spend(parts[LEFT], spends)
        if action.party < self.node_count:
            broken = self._move_node(following, action, bag)
        else:
            move = self.desks.move(parts[action.party], parts[CELL], action.happening)
            if move is None:
                return
            broken = move if isinstance(move, Violation) else self._move_operator(following, action, bag, move)
        found.append((action, broken or self.pack(following)))

    def _spend(self, left: int, what: str) -> int:
        key = (left, what)
        known = self._spent.get(key)
        if known is None:
            known = self._spent[key] = self.lefts.id_of(self.lefts[left].less(what))
        return known

    def _move_operator(self, parts: Parts, action: Action, bag: Bag, move: DeskMove) -> Violation | None:
        views, before, cell = self.desks.views, parts[action.party], parts[CELL]
        parts[action.party], parts[CELL] = move.desk, move.cell
        is_changed = views[before].standing != views[move.desk].standing
        parts[BAG] = self._post(parts, bag, move.letters, is_changed=is_changed)
        return self._check_electable(parts) if move.cell != cell else None

    def _move_node(self, parts: Parts, action: Action, bag: Bag) -> Violation | None:
        site, ledger = parts[action.party], parts[LEDGER]
        move = self.sites.move(site, action.happening)
        if isinstance(move, Violation):
            return move
        parts[action.party] = move.site
        if move.facts:
            noted = self._note(ledger, move.facts)
            if isinstance(noted, Violation):
                return noted
            parts[LEDGER] = noted
        before, view = self.sites.views[site], self.sites.views[move.site]
        parts[BAG] = self._post(parts, bag, move.letters, is_changed=before.standing != view.standing)
        broken = None
        if move.commits:
            broken = _broken(lambda: check_votes(self.sites.facts[move.facts], self.disks(parts)))
        if broken is None and (before.log != view.log or move.commits):
            broken = self._check_electable(parts)
        return broken or self._check_resolutions(parts[LEDGER], move.site)

    def _post(self, parts: Parts, bag: Bag, sent: tuple[int, ...], *, is_changed: bool = True) -> int:
        def standing_of(party: int) -> int:
            views: Any = self.sites.views if party < self.node_count else self.desks.views
            standing: int = views[parts[party]].standing
            return standing

        if is_changed:
            bag = self.mail.sort_out(bag, standing_of)
        if sent:
            bag = self.mail.add(bag, sent, standing_of)
        return self.mail.bags.id_of(bag)

    # judgements, each once for its inputs

    def _note(self, ledger: int, facts: int) -> int | Violation:
        key = (ledger, facts)
        if key not in self._ledger_after:
            try:
                self._ledger_after[key] = self._ledger_id(self.ledgers[ledger].note(self.sites.facts[facts]))
            except AssertionError as broken:
                self._ledger_after[key] = Violation(str(broken))
        return self._ledger_after[key]

    def _ledger_id(self, ledger: Ledger) -> int:
        number = self.ledgers.id_of(ledger)
        if number == len(self._committed_of):
            self._committed_of.append(self._committed.id_of(ledger.committed))
        return number

    def disks(self, parts: Parts) -> Mapping[NodeId, DiskImage]:
        return {self.names[index]: self.sites[parts[index]].disk for index in range(self.node_count)}

    def _check_electable(self, parts: Parts) -> Violation | None:
        views = self.sites.views
        logs = [views[site].log for site in parts[: self.node_count]]
        key = (parts[CELL], self._committed_of[parts[LEDGER]], *logs)
        if key not in self._electable:
            final = self.desks.cells[parts[CELL]].metadata.final_ensemble
            ledger = self.ledgers[parts[LEDGER]]
            self._electable[key] = _broken(lambda: check_electable(final, ledger, self.disks(parts)))
        return self._electable[key]

    def _check_resolutions(self, ledger: int, site: int) -> Violation | None:
        key = (ledger, site)
        if key not in self._resolved:
            self._resolved[key] = _broken(lambda: check_resolutions(self.ledgers[ledger], self.sites[site].node))
        return self._resolved[key]


def _broken(check: Callable[[], None]) -> Violation | None:
    try:
        check()
    except AssertionError as broken:
        return Violation(str(broken))
    return None
