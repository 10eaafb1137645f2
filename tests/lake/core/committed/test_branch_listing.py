"""Lists of a branch, against a dictionary."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from tests.lake.core.committed.shelf import Shelf, entry
from tests.lake.core.committed.test_listing import oracle

from penstock.lake.core.committed import branch_listing
from penstock.lake.core.committed.branch_listing import (
    CommittedNames,
    FolderShown,
    ListLine,
    StagedNames,
    list_branch,
)
from penstock.lake.core.committed.metarange import MetaRange
from penstock.lake.core.staging.areas.folding import StagedChanges, fold
from penstock.lake.core.staging.areas.index import Index
from penstock.lake.core.staging.areas.run import Run
from penstock.lake.core.staging.entry import Entry

CASES = 300  # `make trees-long` has 10,000
NAMES = [
    "a",
    "a/",
    "a0",
    "c/0",
    "b0",
    "a//",
    "a//b",
    "a/b",
    "a/b/c",
    "a/c",
    "b",
    "b/a",
    "b/b/",
    "c//",
    "c//d",
    "\U0010ffff/x",
]

Changes = Mapping[str, Entry | None]


class BranchShelf(Shelf):
    """A tree on a shelf, with uncommitted changes over it."""

    def page(
        self, tree: MetaRange, staged: StagedChanges, prefix: str, after: str, delimiter: str, limit: int
    ) -> tuple[list[ListLine], str]:
        steps = list_branch(staged, after, limit + 1)
        answer: Any = None
        while True:
            try:
                asked = steps.send(answer)
            except StopIteration as done:
                found: list[ListLine] = done.value
                return found[:limit], found[limit - 1].path if len(found) > limit else ""
            match asked:
                case CommittedNames(last, many):
                    answer = self.list(tree, prefix, after=last, delimiter=delimiter, limit=many)
                case StagedNames(last, many):
                    answer = fold(staged, prefix, last, delimiter, many)
                case FolderShown(folder):
                    answer = self.shows(tree, staged, folder)

    def shows(self, tree: MetaRange, staged: StagedChanges, folder: str) -> bool:
        """Return what `folder_shown` of the member does, for ranges."""
        for row in tree.below(folder):
            low, high = tree.min_keys[row], tree.max_keys[row]
            is_inside = low.startswith(folder) and high.startswith(folder)
            if is_inside and not branch_listing.hides_all(staged, low, high, tree[row].count):
                return True
            paths = self.load(tree, row)["path"].filter(self.load(tree, row)["path"].str.starts_with(folder)).to_list()
            if not all(staged.covers(paths)):
                return True
        return False


def overlay_of(runs: list[Changes], random: Random) -> StagedChanges:
    *older, last = runs
    index = Index([Run.of(run.items()) for run in older], small_rows_max=random.choice([0, 100]))
    return index.overlay(dict(last))


def draw(random: Random) -> tuple[dict[str, Entry], list[Changes]]:
    names = NAMES + [f"d/{number}" for number in range(random.choice([0, 30]))]
    tree = {name: entry(1) for name in random.sample(names, random.randint(0, len(names)))}
    kinds: list[Entry | None] = [None] * random.choice([1, 4]) + [entry(2)]
    runs: list[Changes] = [
        {name: random.choice(kinds) for name in random.sample(names, random.randint(0, len(names)))} for _ in range(3)
    ]
    return tree, runs


def check(seed: int) -> None:
    """List a branch in pages of every size from 1 to 5, and compare with the oracle."""
    random = Random(seed)
    tree, runs = draw(random)
    shown = dict(tree)
    for run in runs:
        for name, change in run.items():
            if change is None:
                shown.pop(name, None)
            else:
                shown[name] = change
    shelf = BranchShelf()
    built = shelf.tree(tree)
    staged = overlay_of(runs, random)
    prefix, delimiter = random.choice(["", "", "a", "a/", "d/", "zz"]), random.choice(["", "/", "/", "//"])
    after = random.choice(["", "", *NAMES, "a/bb", "d/2"])
    expected = oracle(shown, prefix, after, delimiter)
    for limit in range(1, 6):
        found: list[ListLine] = []
        token = after
        while True:
            page, token = shelf.page(built, staged, prefix, token, delimiter, limit)
            assert len(page) <= limit
            found += page
            if not token:
                break
        assert [line.path for line in found] == expected, (seed, prefix, delimiter, after, limit)
        plain = {line.path: line.entry for line in found if line.entry is not None}
        assert plain == {name: shown[name] for name in plain}
        assert all(name.endswith(delimiter) for name in expected if name not in plain)


def test_a_branch_lists_as_the_oracle_shows() -> None:
    for seed in range(CASES):
        check(seed)


def test_no_committed_row_is_read_for_a_folder_of_many_files() -> None:
    shelf = BranchShelf()
    tree = shelf.tree({f"big/{number:04}": entry(1) for number in range(200)})
    staged = Index([Run.of([("big/0001", None)])]).overlay({})
    shelf.reads = 0

    page, _ = shelf.page(tree, staged, "", "", "/", 10)

    assert page == [ListLine("big/", None)]
    assert shelf.reads == 0  # the range has more entries than there are tombstones between its keys


@pytest.mark.parametrize("rule", ["tombstones outside the range count", "a folder is hidden by one tombstone"])
def test_without_a_rule_folders_vanish_or_cost_reads(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def hides(staged: StagedChanges, min_key: str, max_key: str, count: int) -> bool:
        return staged.changed_in("", None) >= count

    def shows(self: BranchShelf, tree: MetaRange, staged: StagedChanges, folder: str) -> bool:
        return False

    if rule.startswith("tomb"):
        monkeypatch.setattr(branch_listing, "hides_all", hides)
        with pytest.raises(AssertionError):
            test_a_range_with_few_tombstones_is_live_unread()
    else:
        monkeypatch.setattr(BranchShelf, "shows", shows)
        with pytest.raises(AssertionError):
            test_a_branch_lists_as_the_oracle_shows()


def test_a_range_with_few_tombstones_is_live_unread() -> None:
    shelf = BranchShelf()
    tree = shelf.tree({**{f"a/{number:04}": entry(1) for number in range(200)}, "b/1": entry(1)})
    many: Changes = {f"c/{number}": None for number in range(50)}
    staged = Index([Run.of(many.items())]).overlay({"a/0000x": None})
    shelf.reads = 0

    assert shelf.shows(tree, staged, "a/")
    assert shelf.reads == 0


@pytest.mark.parametrize("small_rows_max", [0, 1000])
def test_a_large_staged_folder_is_passed_over(small_rows_max: int) -> None:
    rows: Changes = {f"{letter}/{number:05}": entry(1) for letter in "abc" for number in range(300)}
    staged = Index([Run.of(rows.items())], small_rows_max=small_rows_max).overlay({"b": entry(1)})

    assert [name for name, _ in fold(staged, "", "", "/", 10)] == ["a/", "b", "b/", "c/"]
    assert [name for name, _ in fold(staged, "", "a/", "/", 2)] == ["b", "b/"]
    assert [name for name, _ in fold(staged, "a/0000", "", "/", 3)] == ["a/00000", "a/00001", "a/00002"]


@pytest.mark.parametrize("small_rows_max", [0, 1000])
def test_changes_come_some_at_a_time(small_rows_max: int) -> None:
    runs: list[Changes] = [{f"{number:03}": entry(1) for number in range(0, 300, step)} for step in (1, 2, 7)]
    runs.append({f"{number:03}": None for number in range(0, 300, 5)})
    expected = sorted({name: change for run in runs for name, change in run.items()}.items())
    index = Index([Run.of(run.items()) for run in runs[:-1]], small_rows_max=small_rows_max)
    overlay = index.overlay(runs[-1])
    found: list[tuple[str, Entry | None]] = []
    while some := overlay.changes_from(found[-1][0] + "\0" if found else "", 13):
        found += some
    assert found == expected
    assert overlay.changed_in("", None) >= len(expected)
    assert overlay.changed_in("100", "100\0") >= 1
    assert overlay.changed_in("1000", "1001") == 0
