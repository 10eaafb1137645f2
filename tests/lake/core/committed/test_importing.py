import polars as pl
import pyarrow as pa
import pytest
from tests.lake.core.committed.shelf import Shelf, entry, tree_of

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.importing import import_changes, imported_entries
from penstock.lake.core.staging.entry import Entry


def listed(*names: str, **columns: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "path": list(names),
            "address": [f"s3://theirs/{name}" for name in names],
            "size": [len(name) for name in names],
            "etag": [f"etag-{name}" for name in names],
            "mtime_ns": [5 for _ in names],
            **columns,
        }
    )


def imported(name: str, content_type: str = "") -> Entry:
    return Entry(f"s3://theirs/{name}", len(name), f"etag-{name}", 5, content_type)


def test_a_listing_becomes_entries_below_the_destination() -> None:
    batches = [listed("c", "a"), listed("b", content_type=["text/plain"])]

    assert tree_of(imported_entries(iter(batches), "raw/")) == {
        "raw/a": imported("a"),
        "raw/b": imported("b", "text/plain"),
        "raw/c": imported("c"),
    }
    assert imported_entries([]).height == 0


def test_after_an_import_the_prefix_holds_what_was_imported_and_nothing_else() -> None:
    shelf = Shelf()
    tree = shelf.tree({"raw/a": entry(1), "raw/old": entry(2), "rawer": entry(3), "z": entry(4)})
    existing = shelf.list(tree, "raw/").entries["path"]

    built = shelf.build(tree, import_changes(imported_entries([listed("a", "b")], "raw/"), existing))

    assert shelf.contents(built) == {
        "raw/a": imported("a"),
        "raw/b": imported("b"),
        "rawer": entry(3),
        "z": entry(4),
    }


def test_an_object_listed_twice_counts_once() -> None:
    assert imported_entries([listed("a"), listed("a")])["path"].to_list() == ["a"]


def test_listings_which_cannot_be_imported_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="lacks etag"):
        imported_entries([listed("a").drop_columns(["etag"])])
    with pytest.raises(InvalidArgument, match="full address"):
        imported_entries([listed("a", address=["data/a"])])
    with pytest.raises(InvalidArgument, match="empty"):
        imported_entries([listed("")])
    assert import_changes(imported_entries([]), pl.Series([], dtype=pl.String)).height == 0
