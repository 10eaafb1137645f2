"""Builds trees for members, as the shell does with ranges and metaranges, but with dicts. Design: lake.md L9, L13."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.proposing.port import Build, BuildMove, Built, Rebuild
from penstock.lake.core.staging.records import CommitId
from penstock_lab.sim.checkers.lake_shelf import CheckedShelf, Tree, overlaid, three_way

__all__ = ["Import", "Merge", "Revert", "SimBuilder"]


@dataclass(frozen=True)
class Merge:
    """Merge a commit into the branch, its side winning conflicts."""

    source: CommitId


@dataclass(frozen=True)
class Revert:
    """Undo a commit."""

    commit: CommitId


@dataclass(frozen=True)
class Import:
    """Add files: an import, or a sink's batch."""

    files: tuple[tuple[str, Entry], ...]


class SimBuilder:
    """Builds trees as the shell of a member would."""

    def __init__(self, shelf: CheckedShelf) -> None:
        self.shelf = shelf

    def run(self, effect: Build | Rebuild | BuildMove) -> Built | None:
        """Build the commit; None if it cannot be built."""
        match effect:
            case Build() if self.shelf.has(effect.parent):
                return self.build(effect)
            case Rebuild() if self.shelf.has(effect.parent, effect.old_parent, effect.built.commit):
                return self.rebuild(effect)
            case BuildMove() if self.shelf.has(effect.parent):
                return self.move(effect)
            case _:
                return None  # the head has moved on meanwhile, and the old one is swept

    def build(self, effect: Build) -> Built:
        parent = self.shelf.tree(effect.parent)
        tree = overlaid(parent, effect.snapshot.rows(effect.range))
        return self._built(effect, tree, parent, [effect.parent])

    def rebuild(self, effect: Rebuild) -> Built:
        """L9: patch the finished tree at (D + K) - keys(rest) with what the new parent has there."""
        parent = self.shelf.tree(effect.parent)
        built = self.shelf.tree(effect.built.commit)
        rest = effect.snapshot.rows(effect.rest)
        keys = (self.differing(effect.old_parent, effect.parent) | self.gone(effect)) - rest.keys()
        tree = overlaid(built, {path: parent.get(path) for path in sorted(keys)})
        return self._built(effect, tree, parent, [effect.built.commit, effect.parent])

    def differing(self, old: CommitId, new: CommitId) -> set[str]:
        """D: keys whose stored entry differs, address included."""
        before, after = self.shelf.tree(old), self.shelf.tree(new)
        return {path for path in {**before, **after} if before.get(path) != after.get(path)}

    def gone(self, effect: Rebuild) -> set[str]:
        """K: keys of the areas which are no longer staged."""
        return set(effect.snapshot.rows(effect.gone))

    def _built(self, effect: Build | Rebuild, tree: Tree, parent: Mapping[str, Entry], refers: list[CommitId]) -> Built:
        attempt = f"{effect.commit.request.id}.{effect.attempt}"
        commit = self.shelf.write(tree, [effect.parent], refers, effect.link_epoch, attempt)
        return Built(effect.waiting, commit, is_same=tree == parent)

    def _can_revert(self, commit: CommitId) -> bool:
        parents = self.shelf.commits[commit].parents
        return bool(parents) and self.shelf.has(parents[0], commit)

    def move(self, effect: BuildMove) -> Built | None:
        """A merge, a revert or an import on top of a head; None if it cannot be done."""
        parent = self.shelf.tree(effect.parent)
        parents, sources = [effect.parent], list[CommitId]()
        match effect.move.what:
            case Merge(source) if self.shelf.has(source):
                base = self.shelf.merge_base(effect.parent, source)
                tree = three_way(self.shelf.commits[base].tree, parent, self.shelf.tree(source))
                parents, sources = [effect.parent, source], [source]
            case Revert(commit) if self._can_revert(commit):
                before = self.shelf.commits[commit].parents[0]
                tree = three_way(self.shelf.commits[commit].tree, parent, self.shelf.tree(before))
                sources = [before]
            case Import(files):
                tree = overlaid(parent, dict(files))
            case _:
                return None
        request = effect.move.request.id
        commit = self.shelf.write(tree, parents, [effect.parent, *sources], effect.link_epoch, f"{request}.move")
        return Built(effect.waiting, commit, is_same=tree == parent, sources=tuple(sources))
