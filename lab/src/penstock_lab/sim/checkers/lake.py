"""The lake's invariants over a whole run: I1 to I13 of lake.md and I14 (protection), by position.

Writes take effect at their record's position; a read must equal the state shown at a position that is not before any
answer given before the read arrived. That is exact for this design: no search over histories is needed.
"""

from dataclasses import dataclass, field

from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.areas.folding import fold
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import CommitId, Instance
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.core.staging.snapshot import Snapshot
from penstock_lab.sim.checkers.lake_effects import EffectChecks, ProtectionChecks, rows_of
from penstock_lab.sim.checkers.lake_shelf import CheckedShelf, DictTree
from penstock_lab.sim.checkers.lake_view import LakeView, Viewer

__all__ = ["LakeChecks", "Operation"]

EFFECTIVE = (Status.OK, Status.NO_CHANGES)


@dataclass
class Operation:
    """One wish of a client, through all its retries."""

    began_at: int  # every answer given before it began is at or before this position
    acknowledged: frozenset[str]  # requests answered before it began
    effects: int = 0
    told: Result | None = None


@dataclass
class LakeChecks:
    """Watches every member apply every record."""

    shelf: CheckedShelf
    views: list[LakeView] = field(default_factory=lambda: [LakeView({}, {}, 0)])
    hashes: list[int] = field(default_factory=lambda: [0])
    final: dict[str, Result] = field(default_factory=dict)
    final_at: dict[str, int] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)  # by request id; retries share one
    answered_at: int = 0  # the highest position any answer rests on
    sinks: dict[tuple[Instance, str], tuple[int, str]] = field(default_factory=dict)
    ever_heads: dict[CommitId, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.effects = EffectChecks(self.shelf)
        self.protection = ProtectionChecks()
        self._viewer = Viewer(self.shelf.tree)
        self._puts: dict[tuple[Instance, str, str], str] = {}  # the put of each row: instance, path, address
        self._live: dict[str, int] = {}  # request -> the highest attempt announced
        self._acknowledged: list[str] = []

    # members apply

    def applied(self, machine: StagingMachine, record: r.Record, result: Result) -> None:
        """A member applied the record at `machine.applied`."""
        position = machine.applied
        if position < len(self.views):
            assert machine.state_hash() == self.hashes[position], f"I8: members differ at {position}"
            return
        assert position == len(self.views)
        before = self.views[-1]
        after = self._viewer.view(machine, before)
        self.views.append(after)
        self.hashes.append(machine.state_hash())
        if isinstance(record, r.Sync | r.Tick | r.StateHash):
            self.effects.nothing(record, before, after)
        else:
            self._judge(record, result, before, after)
        self._condemned(machine)
        if after != before:  # else all this was looked at before, and holds
            self.effects.areas(after)
            self.effects.references(after)
            self._whole_batches(after)
            self.ever_heads.update(dict.fromkeys(branch.head for branch in after.branches.values()))

    def _condemned(self, machine: StagingMachine) -> None:
        """I10: a commit that is given up is no head and no tag, now or later."""
        for repository in machine.repositories.values():
            if repository.expired:
                held = [
                    *(each.head for each in repository.branches.values()),
                    *(each.commit for each in repository.tags.values()),
                ]
                assert repository.expired.keys().isdisjoint(held), (
                    "I10: something refers to a commit which is condemned"
                )

    def _judge(self, record: r.Changing, result: Result, before: LakeView, after: LakeView) -> None:
        id_ = record.request.id
        known = self.final.get(id_)
        if known is not None:
            self.effects.nothing(record, before, after)
            assert result.status is Status.EXPIRED or result == known, f"I4: {id_} was {known}, and is now {result}"
        elif result.status is Status.ANNOUNCED:
            self._on_announced(record, result, before, after)
        elif not result.status.is_final:
            self.effects.nothing(record, before, after)
            self._alive(record, result, before)
        else:
            self._on_final(record, result, before, after)

    def _on_announced(self, record: r.Changing, result: Result, before: LakeView, after: LakeView) -> None:
        assert isinstance(record, r.Announce)
        highest = self._live.get(record.request.id, -1)
        if record.attempt <= highest:
            assert record.attempt == highest, "I5: an older attempt was announced again"
            self.effects.nothing(record, before, after)
        else:
            self._live[record.request.id] = record.attempt
            self.protection.made(record)
            self.effects.announced(record, result, before, after)

    def _on_final(self, record: r.Changing, result: Result, before: LakeView, after: LakeView) -> None:
        id_ = record.request.id
        self.final[id_], self.final_at[id_] = result, len(self.views) - 1
        if isinstance(record, r.Put):
            self.effects.put(record, result, before)
        if result.status in EFFECTIVE and not self._is_replay(record, result, before):
            self._on_effect(id_)
            self.protection.made(record)
            self.effects.made(record, result, before, after)
            self._follow(record, before, after)
        else:
            self.effects.nothing(record, before, after)
        self._alive(record, result, before)

    def _is_replay(self, record: r.Changing, result: Result, before: LakeView) -> bool:
        """A sink's batch which another driver of the same query had committed: answered, not done again."""
        if not isinstance(record, r.Perform) or record.sink is None:
            return False
        return self.sinks.get((record.instance, record.sink.query)) == (record.sink.batch, record.sink.end)

    def _on_effect(self, id_: str) -> None:
        operation = self.operations.get(id_)
        if operation is None:
            return
        operation.effects += 1
        assert operation.effects == 1, f"I4: {id_} took effect twice"
        assert operation.told is None, f"I4: {id_} was told {operation.told}, and took effect later"

    def _follow(self, record: r.Changing, before: LakeView, after: LakeView) -> None:
        """Keep what later checks need."""
        match record:
            case r.Put() | r.Delete():
                for path, entry in rows_of(record).items():
                    if entry is not None:
                        self._puts[record.instance, path, entry.address] = record.request.id
            case r.Perform(attempt=int()):
                self._covers(record, after)
            case r.Perform(sink=r.SinkPart() as sink):
                self._sink(record.instance, sink)
            case _:
                pass

    def _covers(self, record: r.Perform, after: LakeView) -> None:
        """I3: nothing acknowledged before the commit was asked for is left out of it."""
        operation = self.operations.get(record.request.id)
        if operation is None:
            return
        for area in after.branches[record.instance].areas:
            for path, entry in area.items():
                put = None if entry is None else self._puts.get((record.instance, path, entry.address))
                assert put not in operation.acknowledged, f"I3: {put} was acknowledged before {record.request.id} began"

    def _sink(self, instance: Instance, sink: r.SinkPart) -> None:
        """I11: each batch once, and each begins where the one before ended."""
        last = self.sinks.get((instance, sink.query))
        if last is not None:
            assert sink.batch == last[0] + 1, f"I11: batch {sink.batch} after {last[0]}"
            assert sink.start == last[1], f"I11: batch {sink.batch} begins at {sink.start}, not at {last[1]}"
        self.sinks[instance, sink.query] = (sink.batch, sink.end)

    def _whole_batches(self, view: LakeView) -> None:
        """I11: nothing of a batch is shown before it is committed."""
        for (instance, query), (last, _) in self.sinks.items():
            branch = view.branches.get(instance)
            early = [path for path in branch.shown if path > f"{query}/{last:04d}~"] if branch is not None else []
            early = [path for path in early if path.startswith(f"{query}/")]
            assert not early, f"I11: {early} are shown, but batch {last} is the last committed one"

    def _alive(self, record: r.Changing, result: Result, before: LakeView) -> None:
        """I13: a plain put on a living branch never fails; a commit loses only to a real change."""
        if isinstance(record, r.Put) and record.instance in before.branches and record.pinned is None:
            is_plain = all(row.when is None and row.source is None for row in record.rows) and record.source is None
            is_young = record.link_epoch >= before.gce - 1
            may_be = (Status.OK, Status.EXPIRED, Status.BUSY) if is_plain and is_young else tuple(Status)
            may_be += (Status.PROTECTED,) if self.protection.blocks(record.instance, "staging_write") else ()
            assert result.status in may_be, f"I13: a plain put was refused: {result}"
        if result.status is Status.LOST:
            assert isinstance(record, r.Perform)
            branch = before.branches[record.instance]
            has_changed = record.parent != branch.head or record.range != branch.tokens[: len(record.range)]
            assert has_changed, "I13: a commit lost to nobody"

    # clients ask and are answered

    def asks(self, id_: str) -> Operation:
        """A client begins something under a request id."""
        if id_ not in self.operations:
            self.operations[id_] = Operation(self.answered_at, frozenset(self._acknowledged))
        return self.operations[id_]

    def told(self, id_: str, result: Result) -> None:
        """A client got the result of its request."""
        assert not result.status.is_retry, f"L2: {id_} was told {result.status}, which is for members only"
        assert isinstance(result, Result)
        operation = self.operations[id_]
        if result.status is Status.EXPIRED:
            return
        if result.status in EFFECTIVE:
            final = self.final.get(id_)
            assert final is not None, f"I4: {id_} was told {result.status} before it was"
            assert final.status in EFFECTIVE, f"I4: {id_} was told {result.status}, but was {final.status}"
            self._acknowledged.append(id_)
        else:
            assert operation.effects == 0, f"I4: {id_} took effect, and was told {result.status}"
            operation.told = result
        self.answered_at = max(self.answered_at, self.final_at.get(id_, 0))

    def read(self, asked_at: int, snapshot: Snapshot | None, name: str, *, stale_ok: bool) -> None:
        """I7: a read shows the lake at one position, not before any answer given before it arrived."""
        if snapshot is None:
            return
        if not stale_ok:
            assert snapshot.applied >= asked_at, f"I7: read at {snapshot.applied}, after an answer from {asked_at}"
            self.answered_at = max(self.answered_at, snapshot.applied)
        branch = self.views[snapshot.applied].branches.get(snapshot.instance)
        assert branch is not None, f"I7: {name} was not there at {snapshot.applied}"
        tree = DictTree(self.shelf.commits[snapshot.head].tree)
        listed = _listed(snapshot, tree)
        assert listed == branch.shown, f"I7: at {snapshot.applied} {name} shows {branch.shown}, the read {listed}"
        for path in sorted({*branch.shown, "a/1"}):
            assert snapshot.get(path, tree) == branch.shown.get(path), f"I7: {path}"


def _listed(snapshot: Snapshot, tree: DictTree) -> dict[str, Entry | None]:
    """Return what a list of the branch shows: the committed entries that no change hides, and the staged ones."""
    committed = tree.tree
    hidden = snapshot.overlay.covers(list(committed))
    shown = {path: entry for (path, entry), is_hidden in zip(committed.items(), hidden, strict=True) if not is_hidden}
    return shown | dict(fold(snapshot.overlay, "", "", "", len(committed) + 100_000))
