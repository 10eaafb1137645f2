"""What a member's shell does for a PUT that was made on an old view: look again."""

import msgspec

from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import Basis, Changing, FromCommit, FromStaged, Put, Row
from penstock.lake.core.staging.results import Result, Status
from penstock_lab.sim.checkers.lake_shelf import CheckedShelf

__all__ = ["copied", "look_up", "with_basis"]


def look_up(shelf: CheckedShelf, machine: StagingMachine, record: Changing, result: Result) -> Changing | None:
    """Return the same request with the present values, or None."""
    assert isinstance(record, Put)
    if result.status is Status.STALE_BASIS:
        return with_basis(shelf, machine, record)
    rows = [_copied_again(shelf, machine, row) for row in record.rows]
    return None if None in rows else msgspec.structs.replace(record, rows=tuple(rows))


def with_basis(shelf: CheckedShelf, machine: StagingMachine, put: Put) -> Put:
    """Return the put with the committed entries under the paths that have preconditions, in the head that this member
    knows.
    """
    branch = machine.branches.get(put.instance)
    if branch is None or not shelf.has(branch.head):
        return put
    tree = shelf.tree(branch.head)
    rows = tuple(
        row if row.when is None else msgspec.structs.replace(row, basis=Basis(branch.head, tree.get(row.path)))
        for row in put.rows
    )
    return msgspec.structs.replace(put, rows=rows)


def copied(shelf: CheckedShelf, machine: StagingMachine, source: FromStaged, to: str) -> Row | None:
    """Return a row that copies the entry shown under a path of a branch."""
    branch = machine.branches.get(source.instance)
    if branch is None:
        return None
    staged = branch.find(source.path)
    entry: Entry | None
    if staged is not None:
        entry = staged[0]
        return None if entry is None else Row(to, entry, source=source)
    entry = shelf.commits[branch.head].tree.get(source.path)
    return None if entry is None else Row(to, entry, source=FromCommit(branch.head))


def _copied_again(shelf: CheckedShelf, machine: StagingMachine, row: Row) -> Row | None:
    return copied(shelf, machine, row.source, row.path) if isinstance(row.source, FromStaged) else row
