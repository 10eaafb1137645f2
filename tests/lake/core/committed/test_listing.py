import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.committed.shelf import PATHS, TREES, Shelf, Tree, entry, tree_of

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.boundary import Chunking
from penstock.lake.core.committed.listing import LISTING_MAX, TreeListing
from penstock.lake.core.committed.metarange import EMPTY

PREFIXES = st.sampled_from(["", "a", "a/", "b/", "b/ä/", "b/ä", "zz", "c1"])


def oracle(tree: Tree, prefix: str, after: str, delimiter: str) -> list[str]:
    """Return a listing, in order: paths, and folders in place of their contents. All come after `after`."""
    shown = set()
    for path in tree:
        if path.startswith(prefix):
            at = path.find(delimiter, len(prefix)) if delimiter else -1
            shown.add(path if at < 0 else path[: at + len(delimiter)])
    return sorted(name for name in shown if name > after)


@settings(deadline=None, max_examples=60)
@given(
    TREES, PREFIXES, st.sampled_from(["", "a/", "b/", "b/c"]) | PATHS, st.sampled_from(["", "/"]), st.integers(1, 50)
)
def test_a_page_is_what_the_oracle_shows(tree: Tree, prefix: str, after: str, delimiter: str, limit: int) -> None:
    shelf = Shelf()
    expected = oracle(tree, prefix, after, delimiter)

    page = shelf.list(shelf.tree(tree), prefix, after=after, delimiter=delimiter, limit=limit)

    assert sorted([*page.entries["path"], *page.folders]) == expected[:limit]
    assert page.next_after == (expected[limit - 1] if len(expected) > limit else "")
    assert tree_of(page.entries) == {path: tree[path] for path in page.entries["path"]}


@settings(deadline=None, max_examples=25)
@given(TREES, PREFIXES, st.sampled_from(["", "/"]), st.integers(1, 5))
def test_pages_follow_each_other_without_gaps(tree: Tree, prefix: str, delimiter: str, limit: int) -> None:
    shelf = Shelf()
    built = shelf.tree(tree)
    shown: list[str] = []
    after = ""
    while True:
        page = shelf.list(built, prefix, after=after, delimiter=delimiter, limit=limit)
        shown += sorted([*page.entries["path"], *page.folders])
        after = page.next_after
        if not after:
            break

    assert shown == oracle(tree, prefix, "", delimiter)


def test_a_large_folder_is_skipped_not_read() -> None:
    shelf = Shelf(Chunking(rows_mean=20))
    tree = shelf.tree({"a": entry(1), **{f"big/{number:05}": entry(1) for number in range(3000)}, "z": entry(1)})
    shelf.reads = 0

    page = shelf.list(tree, delimiter="/")

    assert (page.entries["path"].to_list(), page.folders) == (["a", "z"], ("big/",))
    assert len(tree) > 100
    assert shelf.reads == 2


def test_a_range_that_begins_in_a_folder_is_not_read_for_it() -> None:
    shelf = Shelf(Chunking(rows_mean=20))
    tree = shelf.tree({f"f{number // 500:02}/{number:05}": entry(1) for number in range(5000)})
    shelf.reads = 0

    page = shelf.list(tree, delimiter="/", limit=5)

    assert page.folders == tuple(f"f{number:02}/" for number in range(5))
    assert shelf.reads <= 5


def test_a_short_page_reads_little() -> None:
    shelf = Shelf(Chunking(rows_mean=20))
    tree = shelf.tree({f"p/{number:05}": entry(1) for number in range(3000)})
    shelf.reads = 0

    page = shelf.list(tree, "p/01", limit=5)

    assert page.entries["path"].to_list() == [f"p/{number:05}" for number in range(1000, 1005)]
    assert shelf.reads <= 2


def test_a_delimiter_may_be_more_than_a_letter() -> None:
    shelf = Shelf()
    tree = shelf.tree({"a--b": entry(1), "a--c": entry(1), "a-d": entry(1)})

    assert shelf.list(tree, delimiter="--").folders == ("a--",)


def test_limits_are_refused_at_the_edge() -> None:
    for limit in (0, LISTING_MAX + 1):
        with pytest.raises(InvalidArgument):
            TreeListing(EMPTY, limit=limit)
