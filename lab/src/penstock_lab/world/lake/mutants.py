"""Mutants of the lake's shells, front ends and client. Some put back a defect of before: its name says which."""

import asyncio
import contextlib
import sys
from typing import Any, Final

import msgspec
import polars as pl

from penstock.kernel.errors import ObjectStoreFailed, PenstockError
from penstock.lake.client import lake_api
from penstock.lake.core.staging.namespaces import Namespaces
from penstock.lake.core.staging.proposing.agreement import Agreement
from penstock.lake.core.staging.proposing.port import Write
from penstock.lake.core.staging.records import Put, Request
from penstock.lake.core.staging.refs import Refs
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.member import gathering, member_host, quorum_queue
from penstock.lake.member.checkpoints import Checkpoints
from penstock.lake.member.committed.files import TreeFiles
from penstock.lake.member.engine import Engine
from penstock.lake.member.garbage import garbage_marks, garbage_service
from penstock.lake.member.history import History
from penstock.lake.member.member_host import MemberHost
from penstock.lake.member.queue import START
from penstock.lake.member.services import commits_service, imports_service, objects
from penstock.lake.member.services.commits_service import CommitsService
from penstock.plumbing.http import client as http
from penstock_lab.world.mutants import Patch, WorldMutant

__all__ = ["MUTANTS", "SCHEDULED"]


def _reads_without_sync(patch: Patch) -> None:
    async def sync(self: Engine) -> None:
        return

    patch.set(Engine, "sync", sync)


def _answers_before_queue(patch: Patch) -> None:
    """A change is acknowledged as soon as the queue's client has it."""

    async def request(self: MemberHost, body: Any, *, to_the_end: bool = False) -> Any:
        if isinstance(body, Write) and isinstance(body.record, Put):
            task = asyncio.ensure_future(before(self, body))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            return Result(Status.OK)
        return await before(self, body, to_the_end=to_the_end)

    before = patch.set(MemberHost, "request", request)


def _time_out_is_success(patch: Patch) -> None:
    async def write(self: Engine, record: Any) -> Any:
        try:
            async with asyncio.timeout(1.0):
                return await self.host.request(Write(record))
        except TimeoutError:
            return Result(Status.OK)

    patch.set(Engine, "write", write)


def _upload_swallows_a_failure(patch: Patch) -> None:
    async def upload(shelf: Any, address: str, content: Any) -> Any:
        data = content if isinstance(content, bytes) else b"".join([bytes(chunk) async for chunk in content])

        try:
            return await before(shelf, address, data)
        except ObjectStoreFailed:
            from hashlib import md5

            return len(data), md5(data, usedforsecurity=False).hexdigest()

    before = patch.set(objects, "upload", upload)


def _tree_write_swallows_a_failure(patch: Patch) -> None:
    async def write(self: TreeFiles, files: Any) -> None:
        try:
            await before(self, files)
        except ObjectStoreFailed:
            return

    before = patch.set(TreeFiles, "write", write)


def _commit_write_swallows_a_failure(patch: Patch) -> None:
    async def save(self: History, commit: Any) -> Any:
        from penstock.lake.core.refs.commit import commit_id

        try:
            return await before(self, commit)
        except ObjectStoreFailed:
            return commit_id(commit)

    before = patch.set(History, "save", save)


def _if_absent_is_ignored(patch: Patch) -> None:
    async def link(self: Any, *given: Any) -> Any:
        return await before(self, *given[:5], None, *given[6:])

    before = patch.set(objects.Objects, "_link", link)


def _collector_forgets_staged(patch: Patch) -> None:
    def held_by(machine: Any, repository: Any) -> Any:
        return msgspec.structs.replace(before(machine, repository), staged=())

    before = garbage_marks.held_by
    patch.set(garbage_service, "held_by", held_by)


def _collector_takes_this_epoch(patch: Patch) -> None:
    """The collector sweeps objects that are newer than its fence, too."""

    def init(self: Any, runs: Any, gce: int, grace_s: float, now: float) -> None:
        begin(self, runs, gce, grace_s, now)

    async def listed(shelf: Any) -> Any:
        found = await before(shelf)
        return found.with_columns(epoch=pl.lit(0, pl.Int64))

    begin = garbage_service._Before.__init__
    patch.set(garbage_service._Before, "__init__", init)
    before = patch.set(garbage_service, "listed", listed)


def _collector_marks_no_contents(patch: Patch) -> None:
    """Trees are marked, and the objects that their entries name are not."""

    async def entries(shelf: Any, tree: Any, known: Any) -> Any:
        return
        yield

    patch.set(garbage_marks, "entries_of", entries)


def _commit_told_early(patch: Patch) -> None:
    """A commit is acknowledged although it was not performed."""

    async def performed(self: Any, wish: Any, shelf: Any, branch: str) -> Any:
        try:
            return await before(self, wish, shelf, branch)
        except PenstockError:
            head = self.engine.machine.branches[wish.instance].head
            found = await shelf.history.get(head)
            from penstock.lake.member.services.commits_service import shown

            fake = msgspec.structs.replace(found, message="never")
            return shown(await shelf.history.save(fake), fake)

    before = patch.set(CommitsService, "_performed", performed)


def _unknown_kinds_are_skipped(patch: Patch) -> None:
    """L-16: a batch with a record of an unknown kind is left out."""

    def decode_batch(data: Any, place: int) -> Any:
        try:
            return gathering._decode(data)
        except msgspec.DecodeError:
            return None

    patch.set(quorum_queue, "decode_batch", decode_batch)


def _checkpoint_skips(patch: Patch) -> None:
    """A checkpoint says that it holds a batch more than it does."""

    def take(self: Checkpoints, cursor: int, machine: Any) -> Any:
        return before(self, cursor + 1, machine)

    before = patch.set(Checkpoints, "take", take)


def _failed_checkpoint_ends_the_member(patch: Patch) -> None:
    """L-15: one failed save ends the member."""

    async def save(self: MemberHost, cursor: int, key: str, encode: Any) -> None:
        await self._checkpoints.save(key, encode)
        self._saved_cursor = max(self._saved_cursor, cursor)

    patch.set(MemberHost, "_save", save)


def _damaged_checkpoint_ends_the_start(patch: Patch) -> None:
    """L-7: a checkpoint that cannot be read stops the member, although older ones would do."""

    async def newest(self: Checkpoints) -> Any:
        from penstock.lake.core.staging.machine import StagingMachine
        from penstock.lake.member.checkpoints import _trusted

        for key in reversed(_trusted(await self._keys())):
            return await self._load(key)
        return START, StagingMachine()

    patch.set(Checkpoints, "newest", newest)


def _namespaces_overlap(patch: Patch) -> None:
    """L-2: only the member's own view says whether a namespace is taken; the record does not decide."""
    patch.set(Refs, "_refuse_namespace", lambda self, storage: None)


def _damage_is_served(patch: Patch) -> None:
    """L-4: bytes are served without a look at their sum."""
    patch.set(objects, "_known", lambda found: None)


def _numbers_are_unchecked(patch: Patch) -> None:
    """L-1: neither the service nor the queue's door looks at numbers."""
    for module in (commits_service, objects):
        patch.set(module, "nanoseconds", lambda seconds, what: int(seconds * 1e9))
    patch.set(member_host, "check_record", lambda record: None)

    def perform(self: MemberHost, effect: Any) -> None:
        try:
            before(self, effect)
        except OverflowError as error:
            self._fail(error)

    before = patch.set(MemberHost, "perform", perform)


def _imports_share(patch: Patch) -> None:
    """L-3: what lies in another repository's folder is named, not copied."""

    def overlapping(self: Namespaces, namespace: str, *, may_be_equal: bool = False) -> str | None:
        is_import = sys._getframe(1).f_globals["__name__"] == imports_service.__name__
        return None if is_import else before(self, namespace, may_be_equal=may_be_equal)

    before = patch.set(Namespaces, "overlapping", overlapping)


def _lost_is_absent(patch: Patch) -> None:
    patch.set(objects, "lost_if_absent", lambda what="": contextlib.nullcontext())


def _first_save_is_right(patch: Patch) -> None:
    """L-14: members compare nothing, and of two states the first that was saved counts."""
    patch.set(Agreement, "heard", lambda self, member, applied, hash_: False)


def _writes_are_sent_again(patch: Patch) -> None:
    """The client repeats a write whose answer did not come."""
    patch.set(http, "READS", ("GET", "HEAD", "PUT", "POST", "DELETE"))


def _errors_are_definite(patch: Patch) -> None:
    """The client tells a write whose answer did not come as one that was not done."""

    def lost(message: str, **how: Any) -> Any:
        from penstock.kernel.errors import Written

        return before(message, **{**how, "written": Written.NO})

    before = patch.set(http, "ConnectionLost", lost)


def _one_request_id(patch: Patch) -> None:
    """Every change of a member has the same request id: the second one counts as a repeat."""

    def request(self: Engine) -> Request:
        return Request("always", self.machine.now)

    patch.set(Engine, "request", request)


def _pages_end_early(patch: Patch) -> None:
    """A list of the client has its first page only."""
    patch.set(lake_api, "PAGE", 3)

    async def pages(self: Any, api: str, *, limit: int | None = None, **query: Any) -> Any:
        page = await self.call("GET", api, after="", amount=lake_api.PAGE, **query)
        for each in page["results"]:
            yield each

    patch.set(lake_api.LakeApi, "pages", pages)


STORE_FAILS: Final = ("store-fails", "kill")
MUTANTS: Final[dict[str, WorldMutant]] = {
    "reads-without-sync": WorldMutant("a read does not wait for what others wrote (L-19)", "E6", _reads_without_sync),
    "answers-before-queue": WorldMutant(
        "a change is acknowledged before the queue has it", "E6", _answers_before_queue, ("kill", "kill-all")
    ),
    "time-out-is-success": WorldMutant("a change that timed out is acknowledged", "E6", _time_out_is_success, ()),
    "upload-swallows": WorldMutant("an upload swallows a failure", "E", _upload_swallows_a_failure, STORE_FAILS),
    "tree-write-swallows": WorldMutant("a tree's write swallows one", "E", _tree_write_swallows_a_failure, STORE_FAILS),
    "commit-write-swallows": WorldMutant(
        "a commit's write swallows one", "E", _commit_write_swallows_a_failure, STORE_FAILS
    ),
    "if-absent-ignored": WorldMutant("an object is replaced where there must be none", "E6", _if_absent_is_ignored, ()),
    "collector-forgets-staged": WorldMutant(
        "the collector does not mark uncommitted objects", "E5", _collector_forgets_staged, ()
    ),
    "collector-takes-new": WorldMutant(
        "the collector sweeps objects that are newer than its fence", "E5", _collector_takes_this_epoch, ()
    ),
    "collector-marks-trees": WorldMutant(
        "the collector marks no object of a commit", "E5", _collector_marks_no_contents, ()
    ),
    "commit-told-early": WorldMutant("an aborted commit is acknowledged", "E6", _commit_told_early),
    "checkpoint-skips": WorldMutant("a checkpoint skips a batch", "E", _checkpoint_skips, ("kill", "kill-all")),
    "checkpoint-ends": WorldMutant(
        "L-15: a failed checkpoint ends the member",
        "E4",
        _failed_checkpoint_ends_the_member,
        ("store-fails", "store-away"),
    ),
    "writes-sent-again": WorldMutant("the client repeats writes", "E", _writes_are_sent_again, ("reset", "kill")),
    "errors-definite": WorldMutant(
        "the client calls an unknown outcome definite", "E2", _errors_are_definite, ("reset", "kill")
    ),
    "one-request-id": WorldMutant("all changes have one request id", "E", _one_request_id, ()),
    "pages-end-early": WorldMutant("a list ends with its first page", "E6", _pages_end_early, ()),
}
SCHEDULED: Final[dict[str, WorldMutant]] = {
    "numbers-unchecked": WorldMutant("L-1: numbers have no bounds", "", _numbers_are_unchecked),
    "namespaces-overlap": WorldMutant("L-2: the record does not decide on a namespace", "", _namespaces_overlap),
    "imports-share": WorldMutant("L-3: an import names another repository's objects", "", _imports_share),
    "damage-served": WorldMutant("L-4: damaged bytes are served", "", _damage_is_served),
    "lost-is-absent": WorldMutant("L-4: lost bytes look like an absent object", "", _lost_is_absent),
    "damaged-checkpoint-ends": WorldMutant(
        "L-7: a damaged checkpoint ends the start", "", _damaged_checkpoint_ends_the_start
    ),
    "first-save-is-right": WorldMutant("L-14: the first checkpoint counts as right", "", _first_save_is_right),
    "checkpoint-ends": WorldMutant("L-15: a failed checkpoint ends the member", "", _failed_checkpoint_ends_the_member),
    "unknown-kinds-skipped": WorldMutant("L-16: unknown kinds are skipped", "", _unknown_kinds_are_skipped),
    "reads-without-sync": WorldMutant("L-19: a list does not wait", "", _reads_without_sync),
}
