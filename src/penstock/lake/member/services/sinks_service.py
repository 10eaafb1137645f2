"""Sinks of the lake's service: batches of files, each committed once, however often asked for. Design: spark.md, L14.

Tasks have put files into the store; a batch's list names them; one PERFORM moves the head and the sink's register
together. `sink_rule` decides whether a batch is next, a replay or stale; the record checks that no other batch came in
between.
"""

from collections.abc import AsyncIterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import msgspec
import polars as pl

from penstock.kernel.errors import InvalidArgument, LimitExceeded, NotFound, PreconditionFailed
from penstock.lake.core.committed.changes import puts
from penstock.lake.core.committed.entry import ENTRY_SCHEMA, check_entries
from penstock.lake.core.committed.importing import import_changes
from penstock.lake.core.committed.metarange import EMPTY_TREE, Location, tree_key
from penstock.lake.core.refs.commit import Commit
from penstock.lake.core.staging.branch import Branch, SinkState
from penstock.lake.core.staging.proposing import port
from penstock.lake.core.staging.proposing.sink_rule import (
    BatchOffer,
    Register,
    SinkVerdict,
    part_of,
    register_of,
    state_of,
    verdict,
)
from penstock.lake.core.staging.records import Request, SinkRewind
from penstock.lake.core.staging.results import Status
from penstock.lake.member.engine import AGAIN_MAX
from penstock.lake.member.names import check_path
from penstock.lake.member.services.commits_service import CommitsService
from penstock.lake.member.services.staged_files import check_staged, store_mark
from penstock.lake.member.services.table_rule import check_table
from penstock.lake.member.services.uploads import link_epoch_of, upload
from penstock.lake.member.wishes import Draft, Made
from penstock.lake.records.sink_batch import (
    ANY_BASE,
    BatchBody,
    BatchFile,
    BatchOutcome,
    BatchTable,
    SinkBody,
    SinkPlace,
    TreePlace,
    decode_list,
    list_key,
)

__all__ = ["SinkWish", "Sinks"]

SINKS_MAX: Final = 10_000  # of one branch: they are in every member's state
NAME_MAX: Final = 500
CONTENT_TYPE: Final = "application/vnd.apache.parquet"


@dataclass(slots=True)
class SinkWish:
    """A batch's files laid over the branch; below replaced prefixes nothing else is left."""

    draft: Draft
    tables: tuple[BatchTable, ...]

    async def make(self, head: str, parent: Commit, location: Location) -> Made:
        trees = self.draft.shelf.trees
        for each in self.tables:
            await check_table(self.draft.shelf, each, head, parent)
        entries = check_entries(self._entries())
        existing = [await trees.paths_below(parent.tree, each.prefix) for each in self.tables if each.replaces]
        changes = import_changes(entries, pl.concat(existing).sort()) if existing else puts(entries)
        return Made(await trees.build(parent.tree, changes, location))

    def _entries(self) -> pl.DataFrame:
        files = [each for table in self.tables for each in table.files]
        columns = {
            "path": [each.path for each in files],
            "address": [each.address for each in files],
            "size": [each.size for each in files],
            "etag": [each.etag for each in files],
            "mtime_ns": [self.draft.created_ns] * len(files),
            "content_type": [CONTENT_TYPE] * len(files),
            "metadata": [f'{{"rows":"{each.rows}"}}' for each in files],
        }
        return pl.DataFrame(columns, schema=ENTRY_SCHEMA).sort("path")


class Sinks(CommitsService):
    """The part of the service which commits batches."""

    store_url: str

    async def sink_place(self, repository: str, branch: str) -> SinkPlace:
        found, _ = await self.engine.branch(repository, branch)
        folder = self.engine.shelves.of(found).folder
        mark = (
            await store_mark(self.engine.shelves.store, self.engine.ports.chance)
            if self.store_url.startswith("file:")
            else ""
        )
        return SinkPlace(self.store_url, folder, f"data/{found.gce:08d}/", mark)

    async def stage_file(self, repository: str, branch: str, address: str, content: AsyncIterable[bytes]) -> int:
        """Write a file of a batch for a task that cannot see the store; return its size.

        An address is written once. A task that lost the answer asks again and gets the size.
        """
        found, _ = await self.engine.branch(repository, branch)
        if link_epoch_of(address) > found.gce:
            raise InvalidArgument(f"{address[:200]!r} is of an epoch that has not begun", next_step="ask for a place")
        shelf = self.engine.shelves.of(found)
        try:
            return (await shelf.store.head(shelf.folder + address)).size
        except NotFound:
            size, _ = await upload(shelf, address, content)
            return size

    async def stage_list(self, repository: str, branch: str, id_: str, data: bytes) -> None:
        """Write the list of a batch for a driver that cannot see the store."""
        await self.engine.branch(repository, branch)
        decode_list(id_, data)
        await self.engine.shelves.store.put(list_key(id_), data)

    async def tree_place(self, repository: str, ref: str) -> TreePlace:
        """Return where the tree of a ref lies in the store; of a branch, the committed tree."""
        shelf, id_ = await self.engine.commit_of(repository, ref)
        tree = (await shelf.history.get(id_)).tree
        key = "" if tree.id == EMPTY_TREE.id else tree_key(tree)
        return TreePlace(id_, self.store_url, shelf.folder, shelf.storage, shelf.prefix, key)

    async def sinks(self, repository: str, branch: str) -> list[SinkBody]:
        _, known = await self.engine.branch(repository, branch)
        return [_shown(sink, state) for sink, state in sorted(known.sinks.items())]

    async def adopt_sink(self, repository: str, branch: str, body: SinkBody) -> None:
        """Let a query continue after a batch, whichever query had the sink before."""
        _, known = await self.engine.branch(repository, branch)
        self._check_room(known, body.sink)
        _check_guard(body.guard)
        register = Register(_named(body.query, "query"), body.batch, body.guard, body.ends)
        await self._rewind(repository, branch, body.sink, register)

    async def forget_sink(self, repository: str, branch: str, sink: str) -> None:
        """Forget a sink: the next batch of whatever query is its first."""
        await self._rewind(repository, branch, sink, None)

    async def _rewind(self, repository: str, branch: str, sink: str, register: Register | None) -> None:
        batch, end = (None, "") if register is None else state_of(register)
        await self.engine.write_to_branch(
            repository, branch, lambda _, known: SinkRewind(self.engine.request(), known.instance, sink, batch, end)
        )

    async def commit_batch(self, repository: str, branch: str, body: BatchBody) -> BatchOutcome:
        """Commit a batch, or say which commit it was."""
        data = (await self.engine.shelves.store.get(list_key(body.list))).data
        tables = checked_tables(decode_list(body.list, data))
        _named(body.query, "query")
        _check_guard(body.guard)
        if not body.sink:
            return await self._commit_alone(repository, branch, body, tables)
        batch = BatchOffer(body.query, body.batch, body.guard, body.begins, body.ends)
        is_checked = False
        for _ in range(AGAIN_MAX):
            found, known = await self.engine.branch(repository, branch)
            self._check_room(known, body.sink)
            state = known.sinks.get(body.sink)
            last = None if state is None else register_of(state)
            what = verdict(last, batch)
            if what is SinkVerdict.REPLAY and state is not None:
                return BatchOutcome("replayed", state.commit)
            if what is not SinkVerdict.COMMIT:
                raise _refusal(what, body, last)
            if not is_checked:
                await check_staged(self.engine.shelves.of(found), self.store_url, tables)
                is_checked = True
            draft = self._draft(self.engine.shelves.of(found), body.message or f"Batch {body.batch}", "", body.metadata)
            move = port.Move(
                self.engine.request(),
                known.instance,
                SinkWish(draft, _on_base(tables, "" if state is None else state.commit)),
                sink=part_of(body.sink, last, batch),
                link_epoch=_oldest_epoch(tables),
            )
            result = await self.engine.ask(move)
            if result.status in (Status.OK, Status.NO_CHANGES):
                return BatchOutcome("applied", result.commit)
            if result.status not in (Status.FENCED, Status.ALREADY):
                self.engine.judge(result, branch)
            # Another driver was faster: look again which one, and whether that was this very batch.
        raise PreconditionFailed(f"sink {body.sink}: others commit to it all the time")

    async def _commit_alone(
        self, repository: str, branch: str, body: BatchBody, tables: tuple[BatchTable, ...]
    ) -> BatchOutcome:
        """A job's only commit: its request is remembered for a day, so that asking again does nothing twice."""
        found, known = await self.engine.branch(repository, branch)
        draft = self._draft(self.engine.shelves.of(found), body.message or "Write", "", body.metadata)
        request = Request(f"txn/{body.query}", self.engine.machine.now)
        was_known = self.engine.machine.requests.get(request.id) is not None
        if not was_known:
            await check_staged(self.engine.shelves.of(found), self.store_url, tables)
        wish = SinkWish(draft, tuple(msgspec.structs.replace(each, expects=(), base=ANY_BASE) for each in tables))
        if not was_known:
            wish = SinkWish(draft, tables)
        result = await self.engine.ask(port.Move(request, known.instance, wish, link_epoch=_oldest_epoch(tables)))
        if result.status not in (Status.OK, Status.NO_CHANGES):
            self.engine.judge(result, branch)
        return BatchOutcome("replayed" if was_known else "applied", result.commit)

    def _check_room(self, branch: Branch, sink: str) -> None:
        _named(sink, "sink")
        if sink not in branch.sinks and len(branch.sinks) >= SINKS_MAX:
            raise LimitExceeded(
                f"{branch.name} has {SINKS_MAX} sinks already",
                next_step="run penstock pipeline adopt SINK --forget, for sinks that are no longer used",
            )


def _on_base(tables: tuple[BatchTable, ...], last: str) -> tuple[BatchTable, ...]:
    """Let a sink replace a table as its own last commit left it; before its first one, whatever there is."""
    return tuple(
        msgspec.structs.replace(each, base=last or ANY_BASE) if each.replaces and not each.base else each
        for each in tables
    )


def checked_tables(tables: tuple[BatchTable, ...]) -> tuple[BatchTable, ...]:
    """The tables themselves, if each file lies in its own table and no table in another."""
    prefixes = sorted(each.prefix for each in tables)
    for prefix, following in pairwise(prefixes):
        if following.startswith(prefix):
            raise InvalidArgument(f"table {following!r} lies in table {prefix!r}: one commit cannot write both")
    for table in tables:
        if not table.prefix.endswith("/"):
            raise InvalidArgument(f"table {table.prefix!r}: expected a prefix which ends in /")
        for each in table.files:
            _check_file(table, each)
    return tables


def _check_file(table: BatchTable, file: BatchFile) -> None:
    check_path(file.path)
    if not file.path.startswith(table.prefix) or file.size < 0:
        raise InvalidArgument(f"{file.path!r} is no file of table {table.prefix!r}")
    link_epoch_of(file.address)


def _oldest_epoch(tables: tuple[BatchTable, ...]) -> int | None:
    return min((link_epoch_of(each.address) for table in tables for each in table.files), default=None)


def _named(name: str, what: str) -> str:
    if not 0 < len(name) <= NAME_MAX or ":" in name:
        raise InvalidArgument(f"{what} {name[:100]!r}: expected 1 to {NAME_MAX} characters, and no colon")
    return name


def _shown(sink: str, state: SinkState) -> SinkBody:
    register = register_of(state)
    return SinkBody(sink, register.query, register.batch, register.guard, state.commit, register.ends)


def _check_guard(guard: str) -> None:
    if ":" in guard:
        raise InvalidArgument(f"guard {guard[:100]!r}: expected no colon")


def _refusal(what: SinkVerdict, body: BatchBody, last: Register | None) -> PreconditionFailed:
    assert last is not None
    adopt = f"penstock pipeline adopt {body.sink}"
    match what:
        case SinkVerdict.OTHER_QUERY:
            why = (
                f"sink {body.sink} belongs to query {last.query}, at batch {last.batch}: "
                f"the checkpoint was reset, or two queries share the sink (this is {body.query}, batch {body.batch})"
            )
            if last.ends and body.begins and not body.batch:
                why += f"; that batch ended at {last.ends[:500]}, and this one begins at {body.begins[:500]}"
        case SinkVerdict.OTHER_PLAN:
            why = f"batch {body.batch} of sink {body.sink} was committed with other offsets: the checkpoint was rewound"
        case SinkVerdict.OTHER_BEGIN:
            why = (
                f"batch {body.batch} of sink {body.sink} begins at {body.begins[:500]}, "
                f"and batch {last.batch} ended at {last.ends[:500]}: "
                "the checkpoint was changed, or another query wrote in between"
            )
        case _:
            why = (
                f"batch {body.batch} of sink {body.sink} is neither {last.batch} nor {last.batch + 1}: "
                "a stale driver, or a rewound checkpoint"
            )
    return PreconditionFailed(why, next_step=f"{adopt}, if this query is the right one", verdict=what.value)
