"""Other readers find exactly a tree's rows by its nodes: two joins on file and row number, without our code."""

from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from tests.lake.core.committed.shelf import Tree, changes_of, edited, entry, tree_of
from tests.lake.member.committed.conftest import OPTIONS

from penstock.lake.core.committed.changes import puts
from penstock.lake.core.committed.entry import ENTRY_SCHEMA, entries_from
from penstock.lake.core.committed.metarange import EMPTY_TREE, location_of, tree_key
from penstock.lake.member.committed import Trees
from penstock.plumbing.objects import open_store

SQL = """
WITH nodes AS (SELECT pack, first, leaves FROM read_parquet('{root}') WHERE kind = 'node'),
     leaves AS (
         SELECT l.* FROM read_parquet('{folder}/*/*/*/index-*.parquet', filename = true, file_row_number = true) l
         JOIN nodes n ON ends_with(l.filename, n.pack) AND l.file_row_number >= n.first
                     AND l.file_row_number < n.first + n.leaves)
SELECT r.* EXCLUDE (filename, file_row_number)
FROM read_parquet('{folder}/*/*/*/pack-*.parquet', filename = true, file_row_number = true) r
JOIN leaves l ON ends_with(r.filename, l.pack) AND r.file_row_number >= l.first
             AND r.file_row_number < l.first + l."count"
"""


@pytest.fixture
async def stored(tmp_path: Path) -> tuple[Path, Path, Tree]:
    """A tree after three commits, so that packs hold rows of older trees too: its folder, its root, its entries."""
    tree: Tree = {f"table/p{number:04}": entry(number % 3) for number in range(600)}
    async with open_store(f"file://{tmp_path}/objects") as store, Trees(store, "", OPTIONS) as trees:
        head = await trees.build(EMPTY_TREE, puts(entries_from(tree.items())), location_of(1, "a"))
        for number in range(3):
            edit = {f"table/p{row:04}": entry(7) if row % 2 else None for row in range(number * 7, 600, 41)}
            head = await trees.build(head, changes_of(edit), location_of(1, f"b{number}"))
            tree = edited(tree, edit)
    return tmp_path / "objects", tmp_path / "objects" / tree_key(head), tree


def test_polars_reads_a_tree(stored: tuple[Path, Path, Tree]) -> None:
    folder, root, tree = stored

    def rows(places: pl.DataFrame) -> pl.DataFrame:
        found = [
            pl.scan_parquet(folder / pack, row_index_name="at").filter(
                pl.col("at").is_between(first, first + count - 1)
            )
            for pack, first, count in places.iter_rows()
        ]
        return pl.concat(pl.collect_all(found)).drop("at")

    nodes = pl.read_parquet(root).filter(pl.col("kind") == "node").select("pack", "first", "leaves")
    leaves = rows(nodes)
    found = rows(leaves.select("pack", "first", "count"))

    assert tree_of(found.sort("path").cast(ENTRY_SCHEMA)) == tree
    assert sum(pl.scan_parquet(each).select(pl.len()).collect().item() for each in folder.rglob("pack-*")) > len(tree)


def test_pyarrow_reads_a_tree_by_row_groups(stored: tuple[Path, Path, Tree]) -> None:
    folder, root, tree = stored
    paths: list[str] = []
    for node in pq.read_table(root, filters=[("kind", "=", "node")]).to_pylist():
        for leaf in pq.ParquetFile(folder / node["pack"]).read_row_group(node["group"]).to_pylist():
            pack = pq.ParquetFile(folder / leaf["pack"])
            before = sum(pack.metadata.row_group(group).num_rows for group in range(leaf["group"]))
            group = pack.read_row_group(leaf["group"], columns=["path"])
            paths += group.column("path").to_pylist()[leaf["first"] - before :][: leaf["count"]]

    assert paths == sorted(tree)


def test_duckdb_reads_a_tree(stored: tuple[Path, Path, Tree]) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is a reader for this test alone, and not installed")
    folder, root, tree = stored

    found = duckdb.sql(SQL.format(root=root, folder=folder)).pl()

    assert tree_of(found.sort("path").cast(ENTRY_SCHEMA)) == tree
