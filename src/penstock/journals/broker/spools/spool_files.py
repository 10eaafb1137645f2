"""The files of one replica's Spool: does on disk what the core's effects say. Design: journals.md J3, J11.

    {root}/{journal}/#spool/open-{begin}-{serial}        content of a Fragment which is not final
    {root}/{journal}/#spool/final/{postfix}/{name}       of a final Fragment, until it is in the store
    {root}/{journal}/#spool/state                        the Spool's state, if it is kept
    {root}/{journal}/#aside/...                          undecidable content: kept, never uploaded

A Spool is *kept* in one of two ways: synced before it is acknowledged, and then it survives any crash; or only as far
as the page cache does, which outlives this process but not this boot of the machine. '#' is in no journal's name.

Invariant of a kept Spool: it has all content that the last durable state names. So bytes that are cut off, and unneeded
files, go only when a later state, without them, is durable. No state is saved after a write has failed.

If the open content or the state cannot be read back, sums included, they are moved into the quarantine, and the Spool
starts empty, as another incarnation. Final Fragments stay: the name of each says which sum it must have. A state that
another release wrote is refused, and nothing is changed.
"""

import contextlib
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

from penstock.journals.broker.spools.spool_file import CHUNK_BYTES, Buffer, SpoolFile
from penstock.journals.broker.spools.state_log import StateLog
from penstock.journals.core.spool import SpoolState
from penstock.journals.records.fragment import Fragment, Sum
from penstock.journals.records.point import Point
from penstock.kernel.codec import Codec
from penstock.kernel.errors import FormatTooNew, InternalError, PenstockError, Written
from penstock.kernel.ids import Offset, Revision
from penstock.plumbing.files.quarantine import Quarantine
from penstock.plumbing.ports.disk import FileSystem, is_full
from penstock.plumbing.ports.ports import Ports
from penstock.plumbing.wal.disk import storage_error, write_fully

__all__ = ["DamagedSpan", "Keeps", "Recovered", "SpoolFiles", "damages_in", "kept_journals"]

_SPOOL: Final = "#spool"
_ASIDE: Final = "#aside"
_KIND: Final = "spool"  # of our entries in the quarantine
_STATE = Codec[SpoolState](SpoolState)


class Keeps(Enum):
    """The part of a Spool that survives a crash."""

    NOTHING = "nothing"
    UNTIL_REBOOT = "until-reboot"  # this process may crash, the machine may not
    ALWAYS = "always"  # all is synced before it counts


class Recovered(msgspec.Struct, frozen=True):
    """The remains of an earlier run: a state, all of its content, and Fragments that are still to be stored."""

    state: SpoolState
    final: tuple[Fragment, ...]


class DamagedSpan(msgspec.Struct, frozen=True):
    """Offsets whose content is in the quarantine."""

    begin: Offset
    end: Offset
    entry: Path


class Save:
    """One state being made durable: `run` in a thread, then `end` on the event loop."""

    def __init__(
        self,
        disk: FileSystem,
        keeps: Keeps,
        log: StateLog,
        state: bytes,
        files: list[SpoolFile],
        folders: list[Path],
        doomed: list[SpoolFile],
    ) -> None:
        self._disk = disk
        self._keeps = keeps
        self._log = log
        self._state = state
        self._files = [file.hold() for file in files]
        self._folders = folders
        self._doomed = doomed  # of which the state does not speak, but the last one may
        self.is_content_synced = False

    def run(self) -> None:
        """Sync the content first, then names, then the state: so that the state names only content that exists."""
        if self._keeps is Keeps.ALWAYS:
            for file in self._files:
                file.sync()
        self.is_content_synced = True
        self._sync_names()
        self._log.save(self._state)
        for file in self._doomed:
            file.unlink()

    def _sync_names(self) -> None:
        """Make the Spool's folders, where the first content is still to come, and sync them."""
        if not self._folders:
            return
        try:
            self._disk.make_folders(self._folders[0])
            for folder in self._folders:
                self._disk.fsync_folder(folder)
        except OSError as error:
            raise storage_error(error, f"syncing names in {self._folders[0]}", written=Written.UNKNOWN) from error

    def end(self) -> None:
        for file in [*self._files, *self._doomed]:
            file.release()


class SpoolFiles:
    """Files of one journal. Make it with `open`. All of it belongs to the event loop, but for `Save.run`."""

    def __init__(self, ports: Ports, root: Path, journal: str, keeps: Keeps, quarantine: Quarantine) -> None:
        self.journal = journal
        self.keeps = keeps
        self._is_always_kept = keeps is Keeps.ALWAYS
        self._disk = ports.disk
        self._root = root
        self._folder = root / journal / _SPOOL
        self._aside = root / journal / _ASIDE
        self._log = StateLog(
            self._disk, self._folder / "state", is_synced=keeps is Keeps.ALWAYS, boot=ports.clock.boot()
        )
        self._run = f"{ports.clock.time_ns():016x}"  # so that no name of an earlier run comes again
        self._serial = 0
        self._open: list[SpoolFile] = [self._new_file(Offset(0))]  # by begin; the last is being written
        self._doomed: list[SpoolFile] = []  # which go as soon as the durable state does not speak of them
        self._final: dict[str, tuple[Fragment, SpoolFile]] = {}  # by content path
        self._unsynced_folders: dict[Path, None] = {}
        self._has_durable_folder = False  # its name, and those of the folders above it
        self._has_final_folder = False  # made before content is taken: a full disk has no room for it
        self._named: SpoolFile | None = None  # the newest file whose name is durable, or will be with the next save
        self.is_behind = False  # something was added since the last `write_out`
        self._has_state = False  # one is saved, or being saved, which speaks of content
        self._quarantine = quarantine
        self.life: Revision | None = None  # of the journal, to which final Fragments belong if no state was recovered
        self.damages: list[DamagedSpan] = []  # found when the files were opened
        self.failure: PenstockError | None = None  # of a write: nothing is saved or said to be here after it

    @classmethod
    def open(
        cls,
        ports: Ports,
        root: Path,
        journal: str,
        keeps: Keeps,
        *,
        quarantine: Quarantine | None = None,
    ) -> tuple["SpoolFiles", Recovered | None]:
        """Return the Spool's files, and the state of an earlier run if its content is complete.

        Without a state there may be final Fragments (`fragments`). Unreadable files are in the quarantine.
        `FormatTooNew`: another release wrote the state, and nothing was changed.
        """
        quarantine = quarantine or Quarantine(root.parent / "quarantine", ports)
        files = cls(ports, root, journal, keeps, quarantine)
        if keeps is Keeps.NOTHING:
            ports.disk.remove_tree(files._folder)  # an earlier run kept nothing on purpose
            return files, None
        return files, files._recover()

    # What the core asks for

    def reserve(self, length: int) -> bool:
        """Reserve room for so much more content, and for states; return whether there is room ahead of it too.

        The system's error says that there is none. Call this before the content is taken: afterwards it may be on its
        way to peers already.
        """
        is_ample = self._open[-1].reserve(length)
        self._log.reserve()
        if not self._has_final_folder and self.keeps is not Keeps.NOTHING:
            self._disk.make_folders(self._folder / "final")
            self._has_final_folder = True
        return is_ample

    def widen(self) -> bool:
        """Reserve ahead again after that has failed; return whether there is room ahead now."""
        return self._open[-1].widen()

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def free_bytes(self) -> int:
        """Return how many bytes may still be written on the disk of the folder."""
        return self._disk.free_bytes(self._folder)

    def add(self, content: Buffer) -> None:
        """WriteContent: with the next `write_out`."""
        self._open[-1].add(content)
        self.is_behind = True

    def add_summed(self, content: Buffer) -> Sum:
        """The same, and the current Fragment's sum with it."""
        self.is_behind = True
        current = self._open[-1]
        current.add(content)
        return current.sum

    def write(self, *contents: Buffer) -> None:
        """The same, at once."""
        for content in contents:
            self.add(content)
        self.write_out()

    def write_out(self) -> None:
        """Write out before a reader sees the content, or a peer learns that it is here."""
        self.is_behind = False
        try:
            self._open[-1].write_out()
        except PenstockError as error:
            self.failure = self.failure or error
            raise

    @property
    def sum(self) -> Sum:
        """SHA-1 of the current Fragment, with all that was written."""
        return self._open[-1].sum

    @property
    def end(self) -> Offset:
        return self._open[-1].end

    def cut(self, point: Point) -> None:
        """CutSpool."""
        while len(self._open) > 1 and self._open[-1].begin > point.begin:
            self._remove(self._open.pop())
        current = self._open[-1]
        if current.begin != point.begin or current.end < point.end:
            raise InternalError(f"{self.journal}: no content at {point}, only [{current.begin}, {current.end})")
        current.cut(point.end - point.begin, point.sum, frees=not self._has_state)

    def roll(self, point: Point) -> None:
        """RollSpool."""
        self.write_out()
        if self._open[-1].size:
            self._open[-1].release_reserved()
        else:
            self._remove(self._open.pop())
        self._open.append(self._new_file(point.begin))

    def drop(self) -> None:
        """DropSpool. Content set aside stays."""
        self._log.remove()
        for file in self._files():
            file.unlink()
            file.release()
        self._open, self._final, self._doomed = [self._new_file(Offset(0))], {}, []
        self._has_state = self._has_durable_folder = self._has_final_folder = False
        self._named = None
        self._disk.remove_tree(self._folder)

    def finish(self, fragment: Fragment) -> SpoolFile:
        """Upload: the Fragment is final. The file, held for the caller; `forget` the Fragment when it is stored."""
        index = next((at for at, file in enumerate(self._open) if file.begin == fragment.begin), None)
        if index is None or self._open[index].size < fragment.length:
            raise InternalError(f"{self.journal}: the content of [{fragment.begin}, {fragment.end}) is not here")
        self.write_out()
        for file in self._open[:index]:
            self._remove(file)  # Fragments become final in order: an older file that did not is no longer needed
        file = self._open[index]
        self._open = self._open[index + 1 :] or [self._new_file(fragment.end)]
        if file.size > fragment.length:
            file.cut(fragment.length, fragment.sum, frees=not self._has_state)
        file.release_reserved()
        if self.keeps is not Keeps.NOTHING:
            self._rename_final(file, fragment)
            self._unsynced_folders.update(dict.fromkeys([file.path.parent, self._folder]))
        self._final[fragment.content_path] = (fragment, file)
        return file.hold()

    def _rename_final(self, file: SpoolFile, fragment: Fragment) -> None:
        """Give a file the name that says its sum. If the disk has no room for another folder, do without it."""
        try:
            try:
                file.rename(self._final_path(fragment))
            except OSError as error:
                if not is_full(error):
                    raise
                file.rename(self._folder / "final" / fragment.content_name)
        except OSError as error:
            raise storage_error(error, f"naming {fragment.content_name}", written=Written.UNKNOWN) from error

    def forget(self, fragment: Fragment) -> None:
        """The Fragment is in the store, or no longer needed: its file goes when the last reader has released it."""
        known = self._final.pop(_local(fragment).content_path, None)
        if known is not None:
            self._remove(known[1])

    def set_aside(self, fragment: Fragment, mark: Offset) -> Path:
        """SetAside: copy the content above the mark to a place where nothing ever removes it."""
        self.write_out()
        file = self.at(mark)
        if file is None or file.end < fragment.end:
            raise InternalError(f"{self.journal}: the content of [{mark}, {fragment.end}) is not here")
        try:
            return self._copied_aside(file, fragment, mark)
        except OSError as error:
            raise storage_error(error, f"setting aside [{mark}, {fragment.end})", written=Written.UNKNOWN) from error

    def _copied_aside(self, file: SpoolFile, fragment: Fragment, mark: Offset) -> Path:
        self._disk.make_folders(self._aside)
        path = self._aside / f"{mark:016x}-{fragment.end:016x}-of-{fragment.begin:016x}"
        copy = self._disk.create(path)
        try:
            first, last = mark - file.begin, fragment.end - file.begin
            for at in range(first, last, CHUNK_BYTES):
                write_fully(self._disk, copy, file.read(at, min(CHUNK_BYTES, last - at)), at - first)
            self._disk.fdatasync(copy)
        finally:
            self._disk.close(copy)
        self._disk.fsync_folder(self._aside)
        return path

    # Reading

    def at(self, offset: Offset) -> SpoolFile | None:
        """The file with the content at this offset. A caller that uses it after an await must hold it."""
        for file in [*reversed(self._open), *(file for _, file in self._final.values())]:
            if file.begin <= offset < file.end:
                return file
        return None

    def fragments(self) -> list[Fragment]:
        """Final Fragments which are not in the store yet, in order."""
        return sorted((fragment for fragment, _ in self._final.values()), key=lambda fragment: fragment.begin)

    def hold(self, fragment: Fragment) -> SpoolFile | None:
        """The file of a final Fragment, held for the caller."""
        known = self._final.get(_local(fragment).content_path)
        return None if known is None else known[1].hold()

    # The kept state

    def prepare_save(self, state: SpoolState) -> Save:
        """SaveState: the work to be done in a thread, for one state at a time, in order."""
        assert self.keeps is not Keeps.NOTHING
        self.write_out()
        if self.failure is not None:
            raise self.failure  # the state may speak of bytes that were not written
        self._has_state = True
        spoken_of = {point.begin for point in state.points}
        doomed = [file for file in self._doomed if file.begin not in spoken_of]
        self._doomed = [file for file in self._doomed if file.begin in spoken_of]
        folders = self._folders_to_sync()
        unsynced = [file for file in self._files() if not file.is_synced] if self.keeps is Keeps.ALWAYS else []
        return Save(self._disk, self.keeps, self._log, _STATE.encode(state), unsynced, folders, doomed)

    def _folders_to_sync(self) -> list[Path]:
        """Return the folders with names that are not durable. The first one is the Spool's, if it is among them."""
        folders, self._unsynced_folders = self._unsynced_folders, {}
        if not self._is_always_kept:
            return []
        newest = next((file for file in reversed(self._open) if file.fd is not None), None)
        if newest is not None and newest is not self._named:
            folders, self._named = {self._folder: None, **folders}, newest
        if not self._has_durable_folder:
            above = [self._folder, *self._folder.parents]
            folders = {**dict.fromkeys(above[: above.index(self._root) + 1]), **folders}
            self._has_durable_folder = True
        return list(folders)

    def forget_state(self) -> None:
        """Remove the state, so that from now on a crash leaves nothing, for a Spool that only a clean exit keeps."""
        self._log.remove()
        if self._disk.exists(self._folder):
            self._disk.fsync_folder(self._folder)
        self._has_state = False
        doomed, self._doomed = self._doomed, []
        for file in doomed:
            self._remove(file)

    def close(self) -> None:
        """Release all files; a kept Spool stays."""
        for file in self._files():
            if self.keeps is Keeps.NOTHING:
                file.unlink()
            file.release()
        self._log.close()
        if self.keeps is Keeps.NOTHING:
            self._disk.remove_tree(self._folder)

    def _files(self) -> list[SpoolFile]:
        return [*self._open, *(file for _, file in self._final.values()), *self._doomed]

    def _remove(self, file: SpoolFile) -> None:
        """Now, or when the durable state does not speak of it any more."""
        if not self._has_state or file.fd is None:
            file.unlink()
            file.release()
        else:
            self._doomed.append(file)

    # Recovery

    def _here(self, prefix: str = "") -> list[Path]:
        """Return the files in the folder itself whose names begin so, sorted."""
        return [
            path
            for path in self._disk.walk(self._folder)
            if path.parent == self._folder and path.name.startswith(prefix)
        ]

    def _size(self, path: Path) -> int:
        fd = self._disk.open(path)
        try:
            return self._disk.size(fd)
        finally:
            self._disk.close(fd)

    def _recover(self) -> Recovered | None:
        """Recover the state and the files of an earlier run; remove no file that a state may name."""
        value = self._log.load()
        state = self._decoded(value) if value is not None else None
        problem = self._log.problem
        final = dict(self._recovered_final())
        opened = self._recovered_open(state, final) if state is not None else None
        if state is not None and opened is None:
            problem = "its content is not the one that its state names"
        self._final = final
        if state is None or opened is None:
            self.life = self._last_life()
            self._set_apart(problem or "there is no state")
            return None
        self._open, self._has_state = opened, True
        names = {file.path for file in self._files()}
        for path in self._here("open-"):
            if path not in names:
                self._disk.unlink(path)  # begun after the state was saved, so that nothing in it was acknowledged
        return Recovered(state, tuple(self.fragments()))

    def _decoded(self, value: bytes) -> SpoolState:
        try:
            return _STATE.decode(value)
        except PenstockError as error:
            raise FormatTooNew(
                f"{self._log.path} was written by another release: {error.message}",
                next_step="start the release that wrote it",
                path=str(self._log.path),
            ) from error

    def _last_life(self) -> Revision | None:
        """The life of the journal that the newest readable state names."""
        for record in reversed(self._log.states()):
            with contextlib.suppress(PenstockError):
                return _STATE.decode(record).create_revision
        return None

    def keep_final(self, life: Revision) -> None:
        """Keep the final Fragments that were found without a state, if they are of this life of the journal."""
        if self.life == life:
            return
        paths = [file.path for _, file in self._final.values()]
        spans = [(fragment.begin, fragment.end) for fragment in self.fragments()]
        for _, file in self._final.values():
            file.release()
        self._final = {}
        if paths:
            self._take(paths, "no state names the life of the journal to which its finished fragments belong", spans)

    def _set_apart(self, why: str) -> None:
        """Move the state and the open content into the quarantine."""
        sizes = {path: self._size(path) for path in self._here()}
        if any(sizes.values()):
            spans = [_span_of(path, size) for path, size in sizes.items() if path.name.startswith("open-")]
            self._take(list(sizes), why, spans)

    def _take(self, paths: list[Path], why: str, spans: Sequence[tuple[int, int]]) -> None:
        entry = self._quarantine.take(_KIND, paths, self._folder, why, journal=self.journal, ranges=spans)
        self.damages += [DamagedSpan(Offset(begin), Offset(end), entry) for begin, end in spans]

    def _recovered_open(
        self, state: SpoolState, final: dict[str, tuple[Fragment, SpoolFile]]
    ) -> list[SpoolFile] | None:
        """Return the files of a state's points; None unless each has its sum."""
        opened: list[SpoolFile] = []
        became_final: list[str] = []  # after the state was saved
        for point in {point.begin: point for point in state.points}.values():  # the last of each Fragment
            file = self._recovered_file(point)
            if file is None:
                span = (point.begin, point.end, point.sum)
                key = next((key for key, (each, _) in final.items() if (each.begin, each.end, each.sum) == span), None)
                if key is None:
                    for other in opened:
                        if other not in [known for _, known in final.values()]:
                            other.release()
                    return None
                became_final.append(key)
                file = final[key][1]
            opened.append(file)
        for key in became_final:
            fragment, file = final.pop(key)
            file.rename(self._new_file(fragment.begin).path)  # it may be written to again
        return opened

    def _recovered_file(self, point: Point) -> SpoolFile | None:
        """The content of a point in a file which was open."""
        if point.is_empty:
            return self._new_file(point.begin)
        for path in self._here(f"open-{point.begin:016x}-"):
            file = SpoolFile.recover(self._disk, path, point.begin, point.end - point.begin, point.sum)
            if file is not None:
                return file
        return None

    def _recovered_final(self) -> Iterator[tuple[str, tuple[Fragment, SpoolFile]]]:
        root = self._folder / "final"
        for path in self._disk.walk(root):
            try:
                fragment = Fragment.parse_path(self.journal, f"{self.journal}/{path.relative_to(root)}")
            except PenstockError:
                continue  # a foreign file
            file = SpoolFile.recover(self._disk, path, fragment.begin, fragment.length, fragment.sum)
            if file is not None:
                yield fragment.content_path, (fragment, file)
                continue
            why = f"the content of {fragment.content_name} is not the one that its name says"
            self._take([path], why, [(fragment.begin, fragment.end)])

    def _new_file(self, begin: Offset) -> SpoolFile:
        self._serial += 1
        return SpoolFile(self._disk, self._folder / f"open-{begin:016x}-{self._run}-{self._serial}", begin)

    def _final_path(self, fragment: Fragment) -> Path:
        return self._folder / "final" / fragment.path_postfix / fragment.content_name


def _local(fragment: Fragment) -> Fragment:
    """Return the Fragment without its store."""
    return msgspec.structs.replace(fragment, backing_store="", mod_time=0)


def _span_of(path: Path, size: int) -> tuple[int, int]:
    """The offsets of a file of open content, by its name and its length."""
    begin = int(path.name.split("-")[1], 16)
    return begin, begin + size


def damages_in(quarantine: Quarantine) -> dict[str, list[DamagedSpan]]:
    """Return the damage that earlier runs found, by journal. Blocks."""
    found: dict[str, list[DamagedSpan]] = {}
    for entry, note in quarantine.notes(_KIND):
        for begin, end in note["ranges"]:
            found.setdefault(note["journal"], []).append(DamagedSpan(begin, end, entry))
    return found


def kept_journals(disk: FileSystem, root: Path) -> list[str]:
    """Return the journals with files of an earlier run. Blocks."""
    names = [path.relative_to(root).parts for path in disk.walk(root)]
    return sorted({"/".join(parts[: parts.index(_SPOOL)]) for parts in names if _SPOOL in parts[:-1]})
