"""Get and list over a snapshot, against a dictionary."""

from collections.abc import Iterator, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.staging.lakes import MAIN, Lake, entry

from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.snapshot import Listed, Snapshot, after_prefix

paths = st.text("ab/é\U0010ffff", min_size=1, max_size=5)


class DictTree:
    """A committed tree, read in small blocks."""

    def __init__(self, tree: dict[str, Entry]) -> None:
        self.tree = tree

    def get(self, path: str) -> Entry | None:
        return self.tree.get(path)

    def scan(self, start: str, stop: str | None) -> Iterator[Sequence[tuple[str, Entry]]]:
        rows = sorted((path, row) for path, row in self.tree.items() if path >= start and (stop is None or path < stop))
        for place in range(0, len(rows), 2):
            yield rows[place : place + 2]


def listed(shown: dict[str, Entry], prefix: str, after: str, delimiter: str, limit: int) -> list[Listed]:
    lines: dict[str, Entry | None] = {}
    for path in sorted(shown):
        if path.startswith(prefix):
            cut = path.find(delimiter, len(prefix)) if delimiter else -1
            line = path if cut < 0 else path[: cut + 1]
            lines[line] = shown[path] if cut < 0 else None
    return [Listed(line, found) for line, found in lines.items() if line > after][:limit]


@settings(max_examples=60)
@given(
    st.dictionaries(paths, st.just("old"), max_size=10),
    st.dictionaries(paths, st.sampled_from(["new", None]), max_size=10),
    st.one_of(st.just(""), paths),
    st.one_of(st.just(""), paths),
    st.sampled_from(["", "/"]),
    st.integers(1, 8),
)
def test_what_is_shown_is_the_tree_overlaid_by_what_is_staged(
    committed: dict[str, str],
    staged: dict[str, str | None],
    prefix: str,
    after: str,
    delimiter: str,
    limit: int,
) -> None:
    lake = Lake()
    if staged:
        lake.put("1", *staged.items())
    snapshot = lake.machine.capture(MAIN)
    assert isinstance(snapshot, Snapshot)
    tree = {path: entry(name) for path, name in committed.items()}
    changes = {path: None if name is None else entry(name) for path, name in staged.items()}
    shown = {path: row for path, row in (tree | changes).items() if row is not None}
    for path in [*tree, *staged, "none"]:
        assert snapshot.get(path, DictTree(tree)) == shown.get(path)
    found = snapshot.list(DictTree(tree), prefix=prefix, after=after, delimiter=delimiter, limit=limit)
    assert found == listed(shown, prefix, after, delimiter, limit)


def test_pages_join_without_holes() -> None:
    lake = Lake()
    lake.put("1", *((f"{letter}/{number}", "x") for letter in "abc" for number in range(3)), ("b", "x"))
    snapshot = lake.machine.capture(MAIN)
    assert snapshot is not None
    after, lines = "", list[str]()
    while page := snapshot.list(DictTree({}), after=after, delimiter="/", limit=1):
        lines += [line.path for line in page]
        after = lines[-1]
    assert lines == ["a/", "b", "b/", "c/"]


@given(paths, paths)
def test_what_begins_with_a_prefix_comes_before_what_is_after_it(prefix: str, rest: str) -> None:
    after = after_prefix(prefix)
    assert after is None or prefix + rest < after
    assert after is None or not after.startswith(prefix)
    assert (after is None) == (set(prefix) == {"\U0010ffff"})


def test_a_snapshot_does_not_change() -> None:
    lake = Lake()
    lake.put("1", ("a", "1"))
    before = lake.machine.capture(MAIN)
    assert before is not None
    lake.put("2", ("a", None), ("b", "2"))
    announced = lake.announce("c")
    sealed = lake.machine.capture(MAIN)
    assert sealed is not None
    lake.perform("c", announced, "c1")
    assert before.list(DictTree({})) == [Listed("a", entry("1"))]
    assert sealed.rows(announced.tokens) == {"a": None, "b": entry("2")}
    assert (before.head, sealed.head, lake.head) == ("c0", "c0", "c1")


def test_a_list_goes_on_behind_the_whole_common_prefix() -> None:
    """Whatever was asked for last below it: a line is never shown again on a later page."""
    lake = Lake()
    lake.put("1", ("b/a", "x"), ("b/b", "x"), ("c", "x"))
    snapshot = lake.machine.capture(MAIN)
    assert snapshot is not None
    for after in ("b/", "b/a"):
        assert [line.path for line in snapshot.list(DictTree({}), after=after, delimiter="/")] == ["c"]
