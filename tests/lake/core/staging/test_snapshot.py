"""What a snapshot shows, against a dictionary."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.staging.lakes import MAIN, Lake, entry

from penstock.lake.core.staging.areas.folding import after_prefix, fold
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.snapshot import Snapshot

paths = st.text("ab/é\U0010ffff", min_size=1, max_size=5)


class DictTree:
    """A committed tree."""

    def __init__(self, tree: dict[str, Entry]) -> None:
        self.tree = tree

    def get(self, path: str) -> Entry | None:
        return self.tree.get(path)


@settings(max_examples=60)
@given(
    st.dictionaries(paths, st.just("old"), max_size=10),
    st.dictionaries(paths, st.sampled_from(["new", None]), max_size=10),
)
def test_what_is_shown_is_the_tree_overlaid_by_what_is_staged(
    committed: dict[str, str],
    staged: dict[str, str | None],
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
    assert dict(fold(snapshot.overlay, "", "", "", 100)) == {path: row for path, row in changes.items() if row}


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
    assert fold(before.overlay, "", "", "", 10) == [("a", entry("1"))]
    assert sealed.rows(announced.tokens) == {"a": None, "b": entry("2")}
    assert (before.head, sealed.head, lake.head) == ("c0", "c0", "c1")
