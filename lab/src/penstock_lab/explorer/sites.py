"""Every node's every local state, each once, and every step from it, each taken once.

Worlds by the million are made of sites by the thousand: a node's step depends on its own state and on what happens to
it, on nothing else. So the core runs once for each such pair, and the search looks the rest up.
"""

from typing import NamedTuple

from penstock.kernel.effects import Received, TimerFired
from penstock.kernel.ids import RequestId
from penstock.quorum.core.leader import HEARTBEAT, LIMBO
from penstock.quorum.records.effects import Append, AppendRequest
from penstock.quorum.records.entry import ClientId
from penstock_lab.explorer.facts import CommitFact, Fact
from penstock_lab.explorer.happenings import (
    Crashed,
    DeliveryHappened,
    Happening,
    Spoke,
    Submitted,
    TimedOut,
    WriteHappened,
)
from penstock_lab.explorer.interned import Interned
from penstock_lab.explorer.letters import Letter, Standing, standing_of_site
from penstock_lab.explorer.search import Violation
from penstock_lab.explorer.setup import Setup
from penstock_lab.explorer.site import ModelNode, SiteStep

__all__ = ["SiteMove", "SiteView", "Sites"]


class SiteMove(NamedTuple):
    """A step of a site, in numbers."""

    site: int
    letters: tuple[int, ...]
    facts: int  # 0: none
    commits: bool  # whether a commit index rose


class SiteView(NamedTuple):
    """What a world wants to know of a site, worked out once."""

    standing: int
    log: int  # equal for sites whose durable logs are equal
    is_leading: bool
    is_writing: bool
    crashes: tuple[int, ...]  # happenings
    timeouts: tuple[int, ...]


class Sites:
    """The table of sites."""

    def __init__(
        self,
        setup: Setup,
        happenings: Interned[Happening],
        letters: Interned[Letter],
        standings: Interned[Standing],
    ) -> None:
        self.setup = setup
        self.happenings = happenings
        self.letters = letters
        self.facts = Interned[tuple[Fact, ...]]()
        self.facts.id_of(())
        self.standings = standings
        self.logs = Interned[object]()
        self.views: list[SiteView] = []
        self.audit_every = 16
        self.audited = 0  # steps which were taken a second time, by an equal site which came about in another way
        self._sites: list[ModelNode] = []
        self._twins: dict[int, ModelNode] = {}
        self._ids: dict[object, int] = {}
        self._moves: dict[tuple[int, int], SiteMove | Violation] = {}

    def __len__(self) -> int:
        return len(self._sites)

    def __getitem__(self, site: int) -> ModelNode:
        return self._sites[site]

    @property
    def steps_taken(self) -> int:
        """Return how often a core was run."""
        return len(self._moves) + self.audited

    def id_of(self, site: ModelNode) -> int:
        key = site.fingerprint()
        known = self._ids.get(key)
        if known is None:
            known = self._ids[key] = len(self._sites)
            self._sites.append(site)
            self.views.append(self._view(site))
        elif known not in self._twins and self._sites[known].node is not site.node:
            self._twins[known] = site
        return known

    def _view(self, site: ModelNode) -> SiteView:
        disk, is_slow = site.disk, site.is_slow
        name, setup = site.name, self.setup
        may_crash = setup.crashes > 0 and name in (setup.crash_of or setup.nodes + setup.spares)
        survivors = len(list(disk.survivors())) if may_crash else 0
        return SiteView(
            self.standings.id_of(standing_of_site(site)),
            self.logs.id_of((disk.state.member, disk.log(), disk.state.snapshot)),
            site.node.leader is not None,
            bool(disk.pending) and is_slow,
            tuple(self.happenings.id_of(Crashed(survivor)) for survivor in range(survivors)),
            tuple(self.happenings.id_of(TimedOut(index)) for index in range(len(site.deadlines()))),
        )

    def move(self, site: int, happening: int) -> SiteMove | Violation:
        """Return the results of this happening at this site."""
        known = self._moves.get((site, happening))
        if known is None:
            known = self._moves[site, happening] = self._take(self._sites[site], happening)
            if site in self._twins and len(self._moves) % self.audit_every == 0:
                self._audit(site, happening, known)
        return known

    def _audit(self, site: int, happening: int, known: SiteMove | Violation) -> None:
        """Sites with the same fingerprint take the same step, by whatever way they came to it."""
        self.audited += 1
        again = self._take(self._twins[site], happening)
        is_same = again == known or (isinstance(again, Violation) and isinstance(known, Violation))
        assert is_same, f"equal fingerprints, unequal steps: {self.happenings[happening]}"

    def _take(self, site: ModelNode, happening: int) -> SiteMove | Violation:
        try:
            step = self._step(site, self.happenings[happening])
        except Exception as broken:  # whatever a core raises on such input is a finding
            return Violation(f"{type(broken).__name__}: {broken}" if str(broken) else repr(broken))
        return self.enter(step)

    def enter(self, step: SiteStep) -> SiteMove:
        """Number everything a step led to."""
        letters = {self.letters.id_of(Letter(step.site.name, to, message)) for to, message in step.sent}
        commits = any(isinstance(fact, CommitFact) for fact in step.facts)
        return SiteMove(self.id_of(step.site), tuple(sorted(letters)), self.facts.id_of(step.facts), commits)

    def _step(self, site: ModelNode, happening: Happening) -> SiteStep:
        match happening:
            case DeliveryHappened(letter):
                return site.step(Received(letter.sender, letter.message))
            case WriteHappened():
                return site.finish_write()
            case Crashed(survivor):
                return site.crash(list(site.disk.survivors())[survivor])
            case Submitted(txn):
                return site.step(Append((self._request(txn),)))
            case TimedOut(deadline):
                return site.step(TimerFired(LIMBO), site.deadlines()[deadline])
            case Spoke():
                return site.step(TimerFired(HEARTBEAT))
            case _:
                raise AssertionError(f"not for a node: {happening}")

    def _request(self, txn: int) -> AppendRequest:
        spec = self.setup.txns[txn]
        return AppendRequest(
            RequestId(txn + 1), ClientId("c"), txn + 1, b"", spec.is_sync,
            timeout_ns=spec.patience_ms * 1_000_000, rolls_back=spec.rolls_back,
        )  # fmt: skip
