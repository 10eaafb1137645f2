"""Refuse a batch whose table has changed since its author read it. Design: spark-2.md S13, T3.

The check is made on the head that the batch's commit follows, whenever that commit is built. So no commit lies between
the check and the batch.
"""

from contextlib import aclosing

from penstock.kernel.errors import TableChanged
from penstock.lake.core.refs.commit import Commit
from penstock.lake.member.shelves import LakeShelf
from penstock.lake.records.sink_batch import ANY_BASE, BatchTable

__all__ = ["check_table"]


async def check_table(shelf: LakeShelf, table: BatchTable, head: str, parent: Commit) -> None:
    """Refuse what a batch does to a table, if the head is not as its author saw it."""
    for path, etag in table.expects:
        entry = await shelf.trees.get(parent.tree, path)
        found = "" if entry is None else entry.etag
        if found != etag:
            raise TableChanged(
                f"{path} has changed: it is {found or 'missing'}, and the batch was made for {etag or 'no such file'}",
                next_step="read the table's columns again, and repeat the batch",
            )
    if not table.replaces or table.base in (ANY_BASE, head):
        return
    if not table.base:
        if (await shelf.trees.paths_below(parent.tree, table.prefix)).len():
            raise TableChanged(
                f"table {table.prefix} has rows, and the rewrite does not say which commit it read",
                next_step="give the commit that was read as base; or `any`, to remove all rows of all writers",
            )
        return
    base = (await shelf.history.get(table.base)).tree
    async with aclosing(shelf.trees.diff(base, parent.tree, table.prefix)) as changes:
        async for _ in changes:
            raise TableChanged(
                f"{table.prefix} has changed between commit {table.base} and {head}: the rewrite would remove rows",
                next_step="read it again and repeat the rewrite; penstock.spark.rewrite_table does that",
            )
