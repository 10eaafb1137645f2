"""PUT, DELETE and RESET: what changes the areas of a branch. Design: lake.md L4, L5, L12, L15.

Every put goes to the last area, whatever token its upload began with. A delete writes a tombstone, always: an entry in
an older area or in the committed tree would show through otherwise. What a reset touches gets a fresh token, so that a
commit under way cannot bring it back.
"""

from collections.abc import Iterable

from penstock.lake.core.staging.areas.area import StagingArea
from penstock.lake.core.staging.areas.entry_columns import MalformedBatch
from penstock.lake.core.staging.areas.run import Run
from penstock.lake.core.staging.branch import Branch
from penstock.lake.core.staging.entry import Change
from penstock.lake.core.staging.records import Delete, FromCommit, Put, Reset, Row, StagingToken
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.core.staging.tables import Plan, Tables

__all__ = ["Changes"]

_INT64_END = 1 << 63
RUN_ROWS_MIN = 256  # a smaller batch goes through the memtable, so that there are not many small runs


class Changes(Tables):
    """The rules of staging areas."""

    def _put(self, put: Put) -> Result | Plan:
        branch = self.branches.get(put.instance)
        if branch is None:
            return Result(Status.NO_BRANCH)
        blocked = self.is_blocked(branch, "staging_write")
        if blocked is not None:
            return blocked
        if put.pinned is not None and put.pinned != branch.last.token:
            return Result(Status.STALE_TOKEN)
        try:
            run = Run.from_bytes(put.batch) if put.batch else None
        except MalformedBatch as error:
            return Result(Status.MALFORMED, detail=str(error))
        if not all(_is_sound(row) for row in put.rows):
            return Result(Status.MALFORMED, detail="a path is empty, or a number is out of bounds")
        refusal = self._refuse(branch, put, 0 if run is None else len(run))
        return refusal or (lambda: self._link(branch, put, run))

    def _refuse(self, branch: Branch, put: Put, batch_rows: int) -> Result | None:
        repository = self.repositories[branch.repository]
        if _uploads(put) and put.link_epoch < repository.link_floor:
            return Result(Status.STALE_GC)
        if put.source is not None and not self.may_reference(repository, put.source.commit):
            return Result(Status.EXPIRED_COMMIT)
        if branch.rows + len(put.rows) + batch_rows > self.limits.staged_rows_max:
            return Result(Status.BUSY)
        for row in put.rows:
            refusal = self._refuse_source(branch, row) or self._refuse_row(branch, row)
            if refusal is not None:
                return refusal
        return None

    def _refuse_source(self, branch: Branch, row: Row) -> Result | None:
        """L15 b: a copy refers to bytes which something else holds, and must hold at this very position."""
        if row.source is None or row.entry is None:
            return None
        if isinstance(row.source, FromCommit):
            is_there = self.may_reference(self.repositories[branch.repository], row.source.commit)
            return None if is_there else Result(Status.EXPIRED_COMMIT)
        source = self.branches.get(row.source.instance)
        staged = None if source is None else source.find(row.source.path)
        is_there = bool(staged and staged[0] and staged[0].address == row.entry.address)
        return None if is_there else Result(Status.STALE_SOURCE, detail=row.source.path)

    def _refuse_row(self, branch: Branch, row: Row) -> Result | None:
        """L5: compare with the newest staged change, else with the basis if it is of this head."""
        if row.when is None:
            return None
        staged = branch.find(row.path)
        if staged is None and not self._is_basis_fresh(branch, row):
            return Result(Status.STALE_BASIS, branch.head, detail=row.path)
        shown = staged[0] if staged is not None else row.basis.entry if row.basis is not None else None
        return None if row.when.holds(shown) else Result(Status.PRECONDITION_FAILED, detail=row.path)

    def _is_basis_fresh(self, branch: Branch, row: Row) -> bool:
        return row.basis is not None and row.basis.head == branch.head

    def _link(self, branch: Branch, put: Put, run: Run | None) -> Result:
        repository = self.repositories[branch.repository]
        for source in [put.source, *(row.source for row in put.rows)]:
            if isinstance(source, FromCommit):
                self.touch(repository, source.commit)
        if run is not None and len(run) >= RUN_ROWS_MIN:
            self._flush(branch)
            self.total.change(branch.last.add_run(run))
            branch.index.add(run)
        elif run is not None:
            self._write(branch, run.changes())
        self._write(branch, ((row.path, row.entry) for row in put.rows))
        return Result(Status.OK)

    def _delete(self, delete: Delete) -> Result | Plan:
        branch = self.branches.get(delete.instance)
        if branch is None:
            return Result(Status.NO_BRANCH)
        blocked = self.is_blocked(branch, "staging_write")
        if blocked is not None:
            return blocked
        if branch.rows + len(delete.paths) > self.limits.staged_rows_max:
            return Result(Status.BUSY)
        if "" in delete.paths:
            return Result(Status.MALFORMED, detail="a path is empty")
        return lambda: self._bury(branch, delete.paths)

    def _bury(self, branch: Branch, paths: Iterable[str]) -> Result:
        self._write(branch, ((path, None) for path in paths))
        return Result(Status.OK)

    def _write(self, branch: Branch, changes: Iterable[Change]) -> None:
        area = branch.last
        for path, entry in changes:
            self.total.change(area.put(path, entry))
            if area.is_full:
                self._flush(branch)

    def _flush(self, branch: Branch) -> None:
        run, change = branch.last.flush()
        self.total.change(change)
        if run is not None:
            branch.index.add(run)

    # RESET

    def _reset(self, reset: Reset) -> Result | Plan:
        branch = self.branches.get(reset.instance)
        if branch is None:
            return Result(Status.NO_BRANCH)
        blocked = self.is_blocked(branch, "staging_write")
        if blocked is not None:
            return blocked
        tokens = branch.tokens
        fresh = [reset.token, *(self._fresh_token(reset, place) for place in range(len(tokens)))]
        if any(token in tokens for token in fresh):
            return Result(Status.STALE_TOKEN)
        return lambda: self._drop_rows(branch, reset)

    def _drop_rows(self, branch: Branch, reset: Reset) -> Result:
        if reset.paths or reset.prefixes:
            self._flush(branch)
            areas = [self._reset_area(area, reset, place) for place, area in enumerate(branch.areas)]
        else:
            areas = [StagingArea(branch.instance, reset.token)]
        self.replace_areas(branch, areas)
        return Result(Status.OK)

    def _reset_area(self, area: StagingArea, reset: Reset, place: int) -> StagingArea:
        runs = tuple(run.without(reset.paths, reset.prefixes) for run in area.runs)
        if runs == area.runs:
            return area
        return StagingArea(area.instance, self._fresh_token(reset, place), [run for run in runs if len(run)])

    def _fresh_token(self, reset: Reset, place: int) -> StagingToken:
        return StagingToken(f"{reset.token}.{place}")

    def replace_areas(self, branch: Branch, areas: list[StagingArea]) -> None:
        """Other areas, with the sum kept right."""
        with self.changing(branch):
            self.total.change(-branch.sum())
            branch.set_areas(areas)
            self.total.change(branch.sum())


def _is_sound(row: Row) -> bool:
    """Return whether a column can hold it."""
    numbers = () if row.entry is None else (row.entry.size, row.entry.mtime_ns)
    return bool(row.path) and all(-_INT64_END <= number < _INT64_END for number in numbers)


def _uploads(put: Put) -> bool:
    """Return whether it introduces objects of its own, which nothing else holds yet."""
    return bool(put.batch and put.source is None) or any(row.entry and row.source is None for row in put.rows)
