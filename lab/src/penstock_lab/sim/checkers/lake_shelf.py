"""The content of object storage, as plain dicts: data objects, ranges, commits.

A commit's tree is cut into ranges by the first letter of the path; a range is written once and then referred to. The
garbage collector deletes objects; a later read of a tree that no longer exists has found a broken I10.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.records import CommitId

__all__ = ["CheckedShelf", "DictTree", "Tree", "overlaid", "three_way"]

Tree = dict[str, Entry]


@dataclass(frozen=True)
class Stored:
    """A commit and its parts."""

    parents: tuple[CommitId, ...]
    ranges: Mapping[str, str]  # first letter -> where its range is
    tree: Mapping[str, Entry]  # its content when it was written, whatever became of its ranges
    generation: int
    contents: Mapping[str, str]  # first letter -> the content of its range


class DictTree:
    """A tree as readers of snapshots want it."""

    def __init__(self, tree: Mapping[str, Entry]) -> None:
        self.tree = tree

    def get(self, path: str) -> Entry | None:
        return self.tree.get(path)


def overlaid(tree: Mapping[str, Entry], *layers: Mapping[str, Entry | None]) -> Tree:
    """A tree under layers of changes."""
    rows: dict[str, Entry | None] = dict(tree)
    for layer in layers:
        rows |= layer
    return {path: entry for path, entry in rows.items() if entry is not None}


def three_way(base: Mapping[str, Entry], dest: Mapping[str, Entry], source: Mapping[str, Entry]) -> Tree:
    """The dictionary oracle of a merge in which the source wins conflicts."""
    merged: dict[str, Entry | None] = {}
    for path in {**base, **dest, **source}:
        changed = source.get(path) != base.get(path)
        merged[path] = source.get(path) if changed else dest.get(path)
    return {path: entry for path, entry in merged.items() if entry is not None}


class CheckedShelf:
    """Objects and their link epochs."""

    def __init__(self) -> None:
        self.data: dict[str, int] = {}
        self.ranges: dict[str, int] = {}
        self.commits: dict[CommitId, Stored] = {CommitId("c0"): Stored((), {}, {}, 0, {})}
        self._addresses = 0

    def upload(self, epoch: int) -> str:
        """A new data object; the epoch is signed into its address."""
        self._addresses += 1
        address = f"{epoch}/data{self._addresses}"
        self.data[address] = epoch
        return address

    def tree(self, commit: CommitId) -> Mapping[str, Entry]:
        """Return a commit's tree, if all of it still exists."""
        stored = self.commits[commit]
        for place in stored.ranges.values():
            assert place in self.ranges, f"I10: {commit} refers to range {place}, which was swept"
        return stored.tree

    def has(self, *commits: CommitId) -> bool:
        """Return whether the trees of these commits can still be read."""
        return all(place in self.ranges for commit in commits for place in self.commits[commit].ranges.values())

    def place(self, epoch: int, attempt: str, content: str) -> str:
        """Return where a range is stored: the content has an id, its place is of the attempt alone (L15)."""
        return f"{epoch}/{attempt}/{content}"

    def write(
        self, tree: Tree, parents: Sequence[CommitId], refers: Iterable[CommitId], epoch: int, attempt: str
    ) -> CommitId:
        """Write the ranges which no commit we may refer to has, and the commit."""
        known: dict[str, str] = {}
        for commit in refers:
            stored = self.commits[commit]
            for letter, place in stored.ranges.items():
                known.setdefault(stored.contents[letter], place)
        ranges: dict[str, str] = {}
        contents = _contents(tree)
        for letter, content in contents.items():
            place = known.get(content) or self.place(epoch, attempt, content)
            if content not in known:
                self.ranges.setdefault(place, epoch)
            ranges[letter] = place
        commit = CommitId(f"c{len(self.commits)}")
        generation = 1 + max(self.commits[parent].generation for parent in parents)
        self.commits[commit] = Stored(tuple(parents), ranges, tree, generation, contents)
        return commit

    def ancestors(self, commit: CommitId) -> set[CommitId]:
        found: set[CommitId] = set()
        queue = [commit]
        while queue:
            commit = queue.pop()
            if commit not in found:
                found.add(commit)
                queue += self.commits[commit].parents
        return found

    def merge_base(self, one: CommitId, other: CommitId) -> CommitId:
        common = self.ancestors(one) & self.ancestors(other)
        return max(common, key=lambda commit: (self.commits[commit].generation, commit))


def _contents(tree: Mapping[str, Entry]) -> dict[str, str]:
    """The tree cut into ranges, sorted, and what each is."""
    rows: dict[str, list[tuple[str, str, str]]] = {}
    for path in sorted(tree):
        rows.setdefault(path[0], []).append((path, tree[path].address, tree[path].etag))
    return {letter: repr(mine) for letter, mine in rows.items()}
