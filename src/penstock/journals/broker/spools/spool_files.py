"""The files of one replica's Spool: does on disk what the core's effects say. Design: journals.md J3, J11.

    {root}/{journal}/#spool/open-{begin}-{serial}        content of a Fragment which is not final
    {root}/{journal}/#spool/final/{postfix}/{name}       of one which is, until it is in the store
    {root}/{journal}/#spool/state                        the Spool's state, if it is kept
    {root}/{journal}/#aside/...                          what nobody can decide about: kept, never uploaded

A Spool is *kept* in one of two ways: synced before it is acknowledged, and then it survives any crash; or only as far
as the page cache does, which outlives this process but not this boot of the machine. What cannot be read back in full,
sums included, is dropped as a whole: the Spool starts anew, as another incarnation. '#' is in no journal's name.

What always holds for a Spool that is kept: all content of which the last durable state speaks is there. So bytes which
are cut off, and files which nobody wants any more, go only when a later state, without them, is durable.
"""

import os
import shutil
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

from penstock.journals.broker.spools.spool_file import CHUNK_BYTES, Buffer, SpoolFile
from penstock.journals.broker.spools.state_log import StateLog, boot_id, sync_folder
from penstock.journals.core.spool import SpoolState
from penstock.journals.records.fragment import Fragment, Sum
from penstock.journals.records.point import Point
from penstock.kernel.codec import Codec
from penstock.kernel.errors import InternalError, PenstockError
from penstock.kernel.ids import Offset

__all__ = ["Keeps", "Recovered", "SpoolFiles", "kept_journals"]

_SPOOL: Final = "#spool"
_ASIDE: Final = "#aside"
_STATE = Codec[SpoolState](SpoolState)


class Keeps(Enum):
    """What of a Spool is there after a crash."""

    NOTHING = "nothing"
    UNTIL_REBOOT = "until-reboot"  # this process may crash, the machine may not
    ALWAYS = "always"  # all is synced before it counts


class Recovered(msgspec.Struct, frozen=True):
    """What an earlier run left: a state all of whose content is there, and Fragments which are still to be stored."""

    state: SpoolState
    final: tuple[Fragment, ...]


class Save:
    """One state being made durable: `run` in a thread, then `end` on the event loop."""

    def __init__(
        self,
        keeps: Keeps,
        log: StateLog,
        state: bytes,
        files: list[SpoolFile],
        folders: list[Path],
        doomed: list[SpoolFile],
    ) -> None:
        self._keeps = keeps
        self._log = log
        self._state = state
        self._files = [file.hold() for file in files]
        self._folders = folders
        self._doomed = doomed  # of which the state does not speak, but the last one may

    def run(self) -> None:
        """Content first, then names, then the state: so that it speaks of nothing that is not there."""
        if self._keeps is Keeps.ALWAYS:
            for file in self._files:
                file.sync()
            for folder in self._folders:
                sync_folder(folder)
        self._log.save(self._state)
        for file in self._doomed:
            file.unlink()

    def end(self) -> None:
        for file in [*self._files, *self._doomed]:
            file.release()


class SpoolFiles:
    """Files of one journal. Make it with `open`. All of it belongs to the event loop, but for `Save.run`."""

    def __init__(self, root: Path, journal: str, keeps: Keeps, boot: bytes) -> None:
        self.journal = journal
        self.keeps = keeps
        self._is_always_kept = keeps is Keeps.ALWAYS
        self._root = root
        self._folder = root / journal / _SPOOL
        self._aside = root / journal / _ASIDE
        self._log = StateLog(self._folder / "state", is_synced=keeps is Keeps.ALWAYS, boot=boot)
        self._run = f"{time.time_ns():016x}"  # so that no name of an earlier run comes again
        self._serial = 0
        self._open: list[SpoolFile] = [self._new_file(Offset(0))]  # by begin; the last is being written
        self._doomed: list[SpoolFile] = []  # which go as soon as the durable state does not speak of them
        self._final: dict[str, tuple[Fragment, SpoolFile]] = {}  # by content path
        self._unsynced_folders: dict[Path, None] = {}
        self.is_behind = False  # something was added since the last `write_out`
        self._has_state = False  # one is saved, or being saved, which speaks of content

    @classmethod
    def open(
        cls, root: Path, journal: str, keeps: Keeps, *, boot: bytes | None = None
    ) -> tuple["SpoolFiles", Recovered | None]:
        """The Spool's files, and what an earlier run left in them; what cannot be used is removed."""
        files = cls(root, journal, keeps, boot_id() if boot is None else boot)
        recovered = files._recover() if keeps is not Keeps.NOTHING else None
        if recovered is None:
            shutil.rmtree(files._folder, ignore_errors=True)
            files._open, files._final = [files._new_file(Offset(0))], {}
        return files, recovered

    # What the core asks for

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
        """Before anybody reads, or is told that it is here."""
        self.is_behind = False
        current = self._open[-1]
        is_new = self._is_always_kept and current.fd is None
        current.write_out()
        if is_new and current.fd is not None:
            above = [self._folder, *self._folder.parents]
            self._unsynced_folders.update(dict.fromkeys(above[: above.index(self._root) + 1]))

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
        if not self._open[-1].size:
            self._remove(self._open.pop())
        self._open.append(self._new_file(point.begin))

    def drop(self) -> None:
        """DropSpool. What is set aside stays."""
        self._log.remove()
        for file in self._files():
            file.unlink()
            file.release()
        self._open, self._final, self._doomed = [self._new_file(Offset(0))], {}, []
        self._has_state = False
        shutil.rmtree(self._folder, ignore_errors=True)

    def finish(self, fragment: Fragment) -> SpoolFile:
        """Upload: the Fragment is final. The file, held for the caller; `forget` the Fragment when it is stored."""
        index = next((at for at, file in enumerate(self._open) if file.begin == fragment.begin), None)
        if index is None or self._open[index].size < fragment.length:
            raise InternalError(f"{self.journal}: the content of [{fragment.begin}, {fragment.end}) is not here")
        self.write_out()
        for file in self._open[:index]:
            self._remove(file)  # Fragments become final in order: what is older and did not is wanted by nobody
        file = self._open[index]
        self._open = self._open[index + 1 :] or [self._new_file(fragment.end)]
        if file.size > fragment.length:
            file.cut(fragment.length, fragment.sum, frees=not self._has_state)
        if self.keeps is not Keeps.NOTHING:
            file.rename(self._final_path(fragment))
            self._unsynced_folders.update(dict.fromkeys([file.path.parent, self._folder]))
        self._final[fragment.content_path] = (fragment, file)
        return file.hold()

    def forget(self, fragment: Fragment) -> None:
        """The Fragment is in the store, or nobody wants it: its file goes when the last reader has let go."""
        known = self._final.pop(_local(fragment).content_path, None)
        if known is not None:
            self._remove(known[1])

    def set_aside(self, fragment: Fragment, mark: Offset) -> Path:
        """SetAside: a copy of what is above the mark, where nothing ever removes it."""
        self.write_out()
        file = self.at(mark)
        if file is None or file.end < fragment.end:
            raise InternalError(f"{self.journal}: the content of [{mark}, {fragment.end}) is not here")
        self._aside.mkdir(parents=True, exist_ok=True)
        path = self._aside / f"{mark:016x}-{fragment.end:016x}-of-{fragment.begin:016x}"
        with path.open("wb") as copy:
            for at in range(mark - file.begin, fragment.end - file.begin, CHUNK_BYTES):
                copy.write(file.read(at, min(CHUNK_BYTES, fragment.end - file.begin - at)))
            copy.flush()
            os.fsync(copy.fileno())
        sync_folder(self._aside)
        return path

    # Reading

    def at(self, offset: Offset) -> SpoolFile | None:
        """The file with the content at this offset. Who goes on using it after an await holds it."""
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

    # What is kept

    def prepare_save(self, state: SpoolState) -> Save:
        """SaveState: the work to be done in a thread, for one state at a time, in order."""
        assert self.keeps is not Keeps.NOTHING
        self.write_out()
        self._has_state = True
        spoken_of = {point.begin for point in state.points}
        doomed = [file for file in self._doomed if file.begin not in spoken_of]
        self._doomed = [file for file in self._doomed if file.begin in spoken_of]
        folders, self._unsynced_folders = list(self._unsynced_folders), {}
        unsynced = [file for file in self._files() if not file.is_synced] if self.keeps is Keeps.ALWAYS else []
        return Save(self.keeps, self._log, _STATE.encode(state), unsynced, folders, doomed)

    def forget_state(self) -> None:
        """From now on a crash leaves nothing: of a Spool which a clean exit has kept, and nothing else does."""
        self._log.remove()
        if self._folder.exists():
            sync_folder(self._folder)
        self._has_state = False
        doomed, self._doomed = self._doomed, []
        for file in doomed:
            self._remove(file)

    def close(self) -> None:
        """Let go of all files; what is kept stays."""
        for file in self._files():
            if self.keeps is Keeps.NOTHING:
                file.unlink()
            file.release()
        self._log.close()
        if self.keeps is Keeps.NOTHING:
            shutil.rmtree(self._folder, ignore_errors=True)

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

    def _recover(self) -> Recovered | None:
        value = self._log.load()
        if value is None:
            return None
        try:
            state = _STATE.decode(value)
        except PenstockError:
            return None  # of a version which we cannot read
        final = dict(self._recovered_final())
        opened: list[SpoolFile] = []
        for point in {point.begin: point for point in state.points}.values():  # the last of each Fragment
            file = self._recovered_file(point, final)
            if file is None:
                for other in [*opened, *(file for _, file in final.values())]:
                    other.release()
                return None
            opened.append(file)
        self._open, self._final = opened, final
        self._has_state = True
        names = {file.path for file in self._files()}
        for path in self._folder.glob("open-*"):
            if path not in names:
                path.unlink()
        return Recovered(state, tuple(self.fragments()))

    def _recovered_file(self, point: Point, final: dict[str, tuple[Fragment, SpoolFile]]) -> SpoolFile | None:
        """The content of a point: in a file which was open, or in one which became final after the state was saved."""
        if point.is_empty:
            return self._new_file(point.begin)
        size = point.end - point.begin
        for path in sorted(self._folder.glob(f"open-{point.begin:016x}-*")):
            file = SpoolFile.recover(path, point.begin, size, point.sum)
            if file is not None:
                return file
        for key, (fragment, file) in final.items():
            if (fragment.begin, fragment.end, fragment.sum) == (point.begin, point.end, point.sum):
                del final[key]
                file.rename(self._new_file(point.begin).path)  # it may be written to again
                return file
        return None

    def _recovered_final(self) -> Iterator[tuple[str, tuple[Fragment, SpoolFile]]]:
        root = self._folder / "final"
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            try:
                fragment = Fragment.parse_path(self.journal, f"{self.journal}/{path.relative_to(root)}")
            except PenstockError:
                continue  # not one of ours
            file = SpoolFile.recover(path, fragment.begin, fragment.length, fragment.sum)
            if file is not None:
                yield fragment.content_path, (fragment, file)

    def _new_file(self, begin: Offset) -> SpoolFile:
        self._serial += 1
        return SpoolFile(self._folder / f"open-{begin:016x}-{self._run}-{self._serial}", begin)

    def _final_path(self, fragment: Fragment) -> Path:
        return self._folder / "final" / fragment.path_postfix / fragment.content_name


def _local(fragment: Fragment) -> Fragment:
    """As it was before a store took it."""
    return msgspec.structs.replace(fragment, backing_store="", mod_time=0)


def kept_journals(root: Path) -> list[str]:
    """Journals of which an earlier run left a state. Blocks."""
    return sorted(str(path.parent.parent.relative_to(root)) for path in root.rglob(f"{_SPOOL}/state"))
