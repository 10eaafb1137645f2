"""The changes that each record may make, judged by the states shown before and after it: I1, I2, I5, I6, I9 of lake.md;
and I14: what a rule of protection blocks did not happen while the rule was in force.

Nothing here asks the state machine's rules: it looks at trees, tokens and heads on both sides of one position.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from penstock.lake.core.refs.protection import ProtectionRule
from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.areas.run import Run
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.records import CommitId, Instance
from penstock.lake.core.staging.results import Result, Status
from penstock_lab.sim.checkers.lake_shelf import CheckedShelf, overlaid
from penstock_lab.sim.checkers.lake_view import BranchView, LakeView

__all__ = ["EffectChecks", "ProtectionChecks", "rows_of"]

Shown = Mapping[str, Entry]


class EffectChecks:
    """Compares one position with the next."""

    def __init__(self, shelf: CheckedShelf) -> None:
        self.shelf = shelf
        self._sealed: dict[tuple[Instance, str], Mapping[str, Entry | None]] = {}

    def nothing(self, record: r.Record, before: LakeView, after: LakeView) -> None:
        """I1: this record may change nothing that anyone can see."""
        assert after == before, f"I1: {type(record).__name__} changed what is there: {_difference(before, after)}"

    def announced(self, record: r.Announce, result: Result, before: LakeView, after: LakeView) -> None:
        """I1, I5: it only opens an area, and covers all areas before it."""
        self._only(record.instance, before, after)
        old, new = before.branches[record.instance], after.branches[record.instance]
        assert new.shown == old.shown, "I1: an ANNOUNCE changed what is shown"
        assert new.head == old.head
        covered = new.tokens[:-1]
        assert result.tokens == covered, f"I5: {covered} are sealed, but {result.tokens} are announced"
        assert result.commit == new.head

    def made(self, record: r.Changing, result: Result, before: LakeView, after: LakeView) -> None:
        """A record took effect: the state shown is the one that the record says."""
        match record:
            case r.Put() | r.Delete() | r.Reset() | r.HardReset() | r.Perform():
                self._only(record.instance, before, after)
                old, new = before.branches[record.instance], after.branches[record.instance]
                self._branch(record, old, new)
            case r.CreateBranch():
                self._only(record.instance, before, after)
                head = before.branches[record.branch].head if record.branch else record.commit
                assert head is not None
                assert after.branches[record.instance].shown == self.shelf.tree(head), "I1"
            case r.DeleteBranch():
                self._only(record.instance, before, after)
                assert record.instance not in after.branches, "I9"
            case r.CreateTag() | r.DeleteTag() | r.GcFence() | r.Condemn():
                assert after.branches == before.branches, f"I1: {type(record).__name__} changed a branch"
            case _:
                pass

    def _branch(
        self, record: r.Put | r.Delete | r.Reset | r.HardReset | r.Perform, old: BranchView, new: BranchView
    ) -> None:
        expected: Shown
        match record:
            case r.Put() | r.Delete():
                expected = overlaid(old.shown, rows_of(record))
            case r.Reset(paths=(), prefixes=()):
                expected = self.shelf.tree(old.head)
            case r.Reset():
                tree = self.shelf.tree(old.head)
                named = [path for path in {**old.shown, **tree} if path.startswith(record.prefixes)]
                expected = overlaid(old.shown, {path: tree.get(path) for path in [*record.paths, *named]})
            case r.HardReset():
                expected = self.shelf.tree(record.commit)
            case r.Perform():
                expected = self._performed(record, old, new)
        assert new.shown == expected, f"I1: {type(record).__name__} shows {_keys(new.shown, expected)}"

    def _performed(self, record: r.Perform, old: BranchView, new: BranchView) -> Shown:
        dropped = len(record.range)
        assert record.parent == old.head, "I2: a commit replaced a head which is not its parent"
        assert new.tokens == old.tokens[dropped:], "I2: other areas were dropped"
        if record.is_empty:
            assert new.head == old.head
            return old.shown
        tree = self.shelf.tree(record.commit)
        if record.attempt is not None:
            expected = overlaid(self.shelf.tree(old.head), *old.areas[:dropped])
            assert tree == expected, f"I2: a commit is not its parent under its areas: {_keys(tree, expected)}"
            return old.shown
        return overlaid(tree, *old.areas)

    def _only(self, instance: Instance, before: LakeView, after: LakeView) -> None:
        """I9: no other branch and no tag has changed."""
        for other in {*before.branches, *after.branches} - {instance}:
            assert after.branches.get(other) == before.branches.get(other), f"I9: {other} changed, not {instance}"
        assert after.tags == before.tags, "I9: a tag changed"

    def put(self, record: r.Put, result: Result, before: LakeView) -> None:
        """I6: a precondition held where the put took effect, and did not where it was refused."""
        if record.instance not in before.branches:
            return
        shown = before.branches[record.instance].shown
        holds = [row.when.holds(shown.get(row.path)) for row in record.rows if row.when is not None]
        if result.status is Status.OK:
            assert all(holds), f"I6: {record.rows} was put on {shown}"
        elif result.status is Status.PRECONDITION_FAILED:
            assert not all(holds), f"I6: {record.rows} was refused on {shown}"

    def areas(self, view: LakeView) -> None:
        """I5: tokens are unique, and an area sealed under one never changes."""
        for instance, branch in view.branches.items():
            assert len(set(branch.tokens)) == len(branch.tokens), f"I5: {branch.tokens}"
            for token, area in zip(branch.tokens[:-1], branch.areas, strict=False):
                first = self._sealed.setdefault((instance, token), area)
                assert area is first or area == first, f"I5: sealed area {token} changed"

    def references(self, view: LakeView) -> None:
        """I10: everything that is referred to exists."""
        for branch in view.branches.values():
            self._exists(branch.head)
            for area in branch.areas:
                for path, entry in area.items():
                    assert entry is None or entry.address in self.shelf.data, (
                        f"I10: {path} is staged, its bytes are gone"
                    )
        for commit in view.tags.values():
            self._exists(commit)

    def _exists(self, commit: CommitId) -> None:
        for path, entry in self.shelf.tree(commit).items():
            assert entry.address in self.shelf.data, f"I10: {path} is in {commit}, its bytes are gone"


class ProtectionChecks:
    """I14, with the rules as the records gave them. There is one repository."""

    def __init__(self) -> None:
        self._rules: tuple[ProtectionRule, ...] = ()

    def made(self, record: r.Changing) -> None:
        """A record took effect."""
        if isinstance(record, r.SetProtection):
            self._rules = record.rules
        for part in record.records if isinstance(record, r.Atomic) else (record,):
            for action in _actions_of(part):
                assert not self.blocks(getattr(part, "instance", ""), action), (
                    f"I14: {type(part).__name__} took effect on {getattr(part, 'instance', '')}, against {self._rules}"
                )

    def blocks(self, instance: str, action: str) -> bool:
        name = instance.partition("-")[0]
        return any(action in rule.blocks and fnmatchcase(name, rule.pattern) for rule in self._rules)


def _actions_of(record: r.Record) -> Iterable[str]:
    match record:
        case r.Put() | r.Delete() | r.Reset():
            return ("staging_write",)
        case r.Announce() | r.Perform(attempt=int()) | r.Perform(sink=r.SinkPart()):
            return ("commit",)
        case r.HardReset():
            return ("staging_write", "commit")
        case _:
            return ()


def rows_of(record: r.Put | r.Delete) -> dict[str, Entry | None]:
    """Return the rows that a record writes."""
    if isinstance(record, r.Delete):
        return dict.fromkeys(record.paths)
    batch = dict(Run.from_bytes(record.batch).changes()) if record.batch else {}
    return batch | {row.path: row.entry for row in record.rows}


def _keys(one: Shown, other: Shown) -> str:
    wrong = sorted(path for path in {**one, **other} if one.get(path) != other.get(path))
    return ", ".join(f"{path}: {one.get(path)} instead of {other.get(path)}" for path in wrong)


def _difference(before: LakeView, after: LakeView) -> str:
    for instance in {*before.branches, *after.branches}:
        old, new = before.branches.get(instance), after.branches.get(instance)
        if old != new:
            return f"{instance}: {old} became {new}"
    return "tags or the collector's epoch"
