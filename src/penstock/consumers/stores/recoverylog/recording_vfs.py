"""SQLite's files, recorded: a VFS between SQLite and the disk reports every change of them to the Recording.

Reads go straight to the disk, in C. Temporary files are not recorded. Locks are left to the disk's VFS, as is `fsync`,
which the store turns off: the log holds all durable data, and after a crash these files are not read again.
"""

from pathlib import Path
from typing import Any

import apsw

from penstock.consumers.stores.recoverylog.recording import Recording
from penstock.kernel.errors import InvalidArgument

__all__ = ["RecordingVfs"]

_PLAIN = apsw.SQLITE_OPEN_DELETEONCLOSE | apsw.SQLITE_OPEN_TEMP_DB | apsw.SQLITE_OPEN_TEMP_JOURNAL
_PLAIN |= apsw.SQLITE_OPEN_TRANSIENT_DB | apsw.SQLITE_OPEN_SUBJOURNAL


class RecordingVfs(apsw.VFS):
    """A VFS for the files of one folder. Its name is for `apsw.Connection(…, vfs=name)`; `unregister` ends it."""

    def __init__(self, name: str, recording: Recording) -> None:
        self._recording = recording
        self._folder = f"{recording.folder.resolve()}/"
        super().__init__(name, base="")

    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:
        filename = name.filename() if isinstance(name, apsw.URIFilename) else name
        if filename is None or flags[0] & _PLAIN:
            return apsw.VFSFile("", name, flags)
        is_new = not Path(filename).exists()
        file = _RecordedFile(self._recording, self._path(filename), name, flags)
        if is_new:
            self._recording.created(self._path(filename))
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self._recording.unlinked(self._path(filename))

    def _path(self, filename: str) -> str:
        if not filename.startswith(self._folder):
            raise InvalidArgument(f"{filename} is not in {self._folder}: it would not be recorded")
        return filename.removeprefix(self._folder)


class _RecordedFile(apsw.VFSFile):
    def __init__(self, recording: Recording, path: str, name: Any, flags: Any) -> None:
        self._recording = recording
        self._path = path
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        super().xWrite(data, offset)
        self._recording.wrote(self._path, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:
        if newsize != self.xFileSize():
            super().xTruncate(newsize)
            self._recording.truncated(self._path, newsize)
