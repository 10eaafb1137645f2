from penstock.lake.core.committed.entry import check_entries
from penstock_lab.bench.lake_rows import appended, clustered, made_rows, scattered


def test_rows_are_entries_in_disorder_and_the_same_each_time() -> None:
    rows = made_rows(1000)

    assert not rows["path"].is_sorted()
    assert check_entries(rows.sort("path")).height == 1000
    assert rows.equals(made_rows(1000))


def test_changes_are_neighbours_or_spread() -> None:
    rows = made_rows(1000).sort("path")

    near, far = clustered(rows, 10), scattered(rows, 10)

    assert near["path"].equals(rows["path"].slice(495, 10))
    assert far["path"].equals(rows["path"].gather_every(100))
    assert not set(near["etag"]) & set(rows["etag"])


def test_new_entries_come_behind_all_others() -> None:
    rows = made_rows(1000).sort("path")

    new = check_entries(appended(rows, 10))

    assert new.height == 10
    assert new["path"][0] > rows["path"][-1]
