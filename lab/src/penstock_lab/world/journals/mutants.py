"""Mutants of the journals' shells and clients: each breaks one rule of shipped code, and some seed must catch it.

The first ones put defects of the first wave back: J-1, J-2, J-4, J-21. `tests/lab/world/seeds.toml` names a seed for
each. Rules of the judge: `judge.py`.
"""

import asyncio
import contextlib
from typing import Any, Final

import msgspec

from penstock.journals.broker import feed
from penstock.journals.broker.fragments import JournalFragments
from penstock.journals.broker.persister import Persister
from penstock.journals.broker.replica_host import ReplicaHost
from penstock.journals.broker.spools.room import Room
from penstock.journals.broker.spools.spool_file import SpoolFile
from penstock.journals.broker.spools.spool_files import Save, SpoolFiles
from penstock.journals.broker.spools.spool_saver import SpoolSaver
from penstock.journals.client import append_service, messages
from penstock.journals.client.journal import Journals
from penstock.journals.core.effects import TransactionEnd
from penstock.kernel.errors import Compacted, LeaseExpired, PenstockError, ProtocolViolation, Unavailable
from penstock.kernel.ids import Revision
from penstock.keyspace.core.records import WatchBatch
from penstock.keyspace.shell.lease_keeper import LeaseKeeper
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.messages.uuid import producer_id
from penstock_lab.world.mutants import Patch, WorldMutant

__all__ = ["MUTANTS"]


def _saves_after_a_failed_write(patch: Patch) -> None:
    prepare = SpoolFiles.prepare_save

    def save_anyway(files: SpoolFiles, state: Any) -> Save:
        files.failure = None
        return prepare(files, state)

    patch.set(SpoolFiles, "prepare_save", save_anyway)
    patch.set(ReplicaHost, "_has_room", lambda *_: True)
    patch.set(Room, "take", lambda *_: None)


def _removes_what_it_cannot_read(patch: Patch) -> None:
    def remove(files: SpoolFiles, _why: str) -> None:
        files._final = {}
        files._disk.remove_tree(files.folder)

    patch.set(SpoolFiles, "_set_apart", remove)


def _answers_of_the_clean_up(patch: Patch) -> None:
    patch.set(feed, "_unacknowledged", lambda response, _: response)


def _unavailable_is_lost(patch: Patch) -> None:
    def of_error(code: str) -> TransactionEnd:
        is_lost = code in (LeaseExpired.code, Unavailable.code)
        return TransactionEnd.LOST if is_lost else TransactionEnd.UNKNOWN

    patch.set(TransactionEnd, "of_error", of_error)


def _answers_early(patch: Patch) -> None:
    flush = ReplicaHost.flush

    def answer_first(host: ReplicaHost) -> None:
        host.feed.send_answers()
        flush(host)

    patch.set(ReplicaHost, "flush", answer_first)


def _swallows_failures(patch: Patch) -> None:
    async def run(saver: Any) -> None:
        while saver._waiting:
            batch, saver._waiting = saver._waiting, []
            with contextlib.suppress(PenstockError):
                save = saver._files.prepare_save(batch[-1][0])
                try:
                    await saver._write(save)
                finally:
                    save.end()
            for _, done in batch:
                done()
        saver._task = None

    patch.set(SpoolSaver, "_run", run)


def _forgets_unseen(patch: Patch) -> None:
    """A Fragment counts as stored whatever became of its upload: its file goes."""
    tried = Persister._attempt

    async def believe(persister: Any, job: Any) -> Any:
        stored = await tried(persister, job)
        if stored is None:
            return msgspec.structs.replace(job.fragment, backing_store=job.url, mod_time=1)
        return stored

    patch.set(Persister, "_attempt", believe)


def _resends_without_number(patch: Patch) -> None:
    append = Journals.append
    sent: set[Any] = set()

    async def once(journals: Any, journal: str, content: Any, *, txn: Any = None, **how: Any) -> Any:
        key = (id(journals), journal, txn)
        if txn is not None and key in sent:
            txn = None
        sent.add(key)
        return await append(journals, journal, content, txn=txn, **how)

    patch.set(Journals, "append", once)


def _forgets_its_revision(patch: Patch) -> None:
    apply = Journals.apply

    async def forget(journals: Any, *arguments: Any, **how: Any) -> Any:
        revision = await apply(journals, *arguments, **how)
        journals._revision = Revision(0)
        return revision

    patch.set(Journals, "apply", forget)
    patch.set(Journals, "_learn", lambda *_: None)


def _ignores_its_clock(patch: Patch) -> None:
    renew = LeaseKeeper._renew

    async def renew_for_ever(keeper: Any) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(renew(keeper), 3.5)
        keeper._good_until_ns = keeper._clock() + keeper.lease.ttl_ms * 1_000_000

    patch.set(LeaseKeeper, "_renew", renew_for_ever)


def _skips_a_batch(patch: Patch) -> None:
    """After a compaction the mirror takes the present revision, and does not load."""

    async def follow(mirror: Any) -> None:
        try:
            while True:
                try:
                    await mirror._watch()
                except (Compacted, ProtocolViolation):
                    status = await mirror._keyspace.status()
                    mirror._applied(mirror._mirror.apply(WatchBatch(status.revision, ())))
        except PenstockError as error:
            mirror._fail(error)

    patch.set(KeySpaceMirror, "_follow", follow)


def _shows_above_the_mark(patch: Patch) -> None:
    """J-29: readers see bytes that are not committed."""
    find = JournalFragments.find

    def show(fragments: Any, offset: Any) -> Any:
        owner, mark = fragments._owner, fragments._owner.mark
        owner.mark = max(mark, fragments._files.end)
        try:
            return find(fragments, offset)
        finally:
            owner.mark = mark

    patch.set(JournalFragments, "find", show)


def _spools_in_one_place(patch: Patch) -> None:
    """J-29: the append service's file holds another batch than it believes."""
    sealed = append_service.AppendService.sealed

    def overwrite(service: Any, batch: Any) -> None:
        service._spool_end = 0
        sealed(service, batch)

    patch.set(append_service.AppendService, "sealed", overwrite)


def _shares_a_producer(patch: Patch) -> None:
    """J-29: every publisher has the same producer, so that readers take messages for repeats."""
    patch.set(messages, "producer_id", lambda _: producer_id(7))


def _stops_without_room(patch: Patch) -> None:
    """J-1's sibling: a disk without room ends the replica's appends for good."""

    def look(room: Any) -> None:
        room._timer = room._loop.call_later(3600, room._look)

    patch.set(Room, "_look", look)


def _keeps_descriptors(patch: Patch) -> None:
    """A file without a holder stays open."""

    def release(file: SpoolFile) -> None:
        file._holders -= 1

    patch.set(SpoolFile, "release", release)


MUTANTS: Final[dict[str, WorldMutant]] = {
    "saves-after-a-failed-write": WorldMutant(
        "J-1: a state is saved after a write has failed, and names bytes that the file lacks",
        "E",
        _saves_after_a_failed_write,
        ("disk-full", "kill"),
    ),
    "answers-of-the-clean-up": WorldMutant(
        "J-4: a replica that stops sends the answers that it had ready",
        "E5",
        _answers_of_the_clean_up,
        ("write-fails",),
    ),
    "unavailable-is-lost": WorldMutant(
        "J-21: an absent KeySpace counts as a compare that failed",
        "E4",
        _unavailable_is_lost,
        ("keyspace-unavailable", "kill"),
    ),
    "answers-early": WorldMutant("an answer leaves before the write", "E5", _answers_early, ("write-fails",)),
    "swallows-failures": WorldMutant(
        "a save that failed counts as done", "E1", _swallows_failures, ("write-fails", "power")
    ),
    "forgets-unseen": WorldMutant(
        "a fragment's file goes although no store has it", "E", _forgets_unseen, ("store-fails",)
    ),
    "resends-without-number": WorldMutant(
        "an append that is sent again has no number", "E2", _resends_without_number, ("reset", "kill")
    ),
    "ignores-its-clock": WorldMutant(
        "a broker believes in its lease while it cannot renew it", "lease", _ignores_its_clock, ("cut",)
    ),
    "skips-a-batch": WorldMutant(
        "after a compaction a mirror misses the changes in between",
        "E4",
        _skips_a_batch,
        ("compaction", "kill", "keyspace-lag"),
    ),
    "shows-above-the-mark": WorldMutant("J-29: readers see uncommitted bytes", "E3", _shows_above_the_mark, ("kill",)),
    "spools-in-one-place": WorldMutant(
        "J-29: the append service overwrites its own file", "E", _spools_in_one_place, ("kill",)
    ),
    "shares-a-producer": WorldMutant(
        "J-29: every publisher has the same producer", "E1", _shares_a_producer, ("freeze", "clock")
    ),
    "forgets-its-revision": WorldMutant(
        "a client forgets the revision of its creations", "E4", _forgets_its_revision, ("keyspace-lag",)
    ),
    "keeps-descriptors": WorldMutant("files are never closed", "E8", _keeps_descriptors, ()),
    "removes-unread-files": WorldMutant(
        "J-2: what cannot be read back is removed, finished fragments too",
        "E5",
        _removes_what_it_cannot_read,
        ("flip", "store-away"),
    ),
    "stops-without-room": WorldMutant(
        "a disk that was full takes nothing when it has room again", "E4", _stops_without_room, ("disk-full",)
    ),
}
