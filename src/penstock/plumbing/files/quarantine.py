"""The quarantine: files that could not be read are kept there, with a note that says why. Design: integrity.md D1.

    {data folder}/quarantine/{UTC}-{kind}-{id}/why.json     the reason, and the ranges
    {data folder}/quarantine/{UTC}-{kind}-{id}/...          the files, under the names that they had

Code that runs because bytes could not be read never removes, cuts or overwrites them: it moves them here. If that fails
it raises, and the files stay where they are. Nothing in Penstock removes an entry.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from penstock.kernel.errors import StorageError
from penstock.kernel.version import VERSION
from penstock.plumbing.ports.ports import Ports
from penstock.plumbing.process.logs import get_logger

__all__ = ["WHY", "Quarantine"]

WHY: Final = "why.json"
log = get_logger()


class Quarantine:
    """The quarantine of one data folder. Its calls block."""

    def __init__(self, folder: Path, ports: Ports) -> None:
        self.folder = folder
        self._ports = ports
        self._disk = ports.disk

    def take(self, kind: str, paths: Iterable[Path], root: Path, why: str, **facts: Any) -> Path:
        """Move files here; return the entry. Their names are those below `root`.

        `facts` go into the note. A `StorageError` says that some files are where they were.
        """
        paths = list(paths)
        moment = datetime.fromtimestamp(self._ports.clock.time_ns() / 1e9, UTC)
        entry = self.folder / f"{moment:%Y%m%dT%H%M%SZ}-{kind}-{self._ports.chance.token(4).hex()}"
        note = {
            "kind": kind,
            "why": why,
            "taken": moment.isoformat(timespec="seconds"),
            "release": VERSION,
            "folder": str(root),
            "files": [str(path.relative_to(root)) for path in paths],
            **facts,
        }
        try:
            self._disk.make_folders(entry)
            note_error = self._write_note(entry / WHY, note)
            for path in paths:
                target = entry / path.relative_to(root)
                self._disk.make_folders(target.parent)
                self._disk.rename(path, target)
            for folder in dict.fromkeys([entry, self.folder, *(path.parent for path in paths)]):
                self._disk.fsync_folder(folder)
        except OSError as error:
            raise StorageError(
                f"unreadable files of {root} cannot be moved into {self.folder}: {error.strerror or error}",
                next_step=f"free space on the disk of {self.folder}, and check who owns it",
            ) from error
        log.error("files quarantined", kind=kind, reason=why, entry=str(entry), note_error=note_error, **facts)
        return entry

    def notes(self, kind: str) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Return the entries of one kind with their notes, oldest first. A note that cannot be read is left out."""
        for path in self._disk.walk(self.folder):
            if path.name != WHY or f"-{kind}-" not in path.parent.name or path.parent.parent != self.folder:
                continue
            try:
                note = json.loads(self._disk.read_file(path))
            except (OSError, ValueError):
                continue
            if isinstance(note, dict) and note.get("kind") == kind:
                yield path.parent, note

    def count(self) -> int:
        """Return how many entries there are."""
        try:
            return sum(not name.startswith(".") for name in self._disk.names(self.folder))
        except FileNotFoundError:
            return 0

    def _write_note(self, path: Path, note: dict[str, Any]) -> str:
        """Write the note; return why that failed. On a full disk the files matter more: the log has the facts too."""
        data = (json.dumps(note, indent=2, default=str) + "\n").encode()
        try:
            fd = self._disk.create_new(path)
            try:
                done = 0
                while done < len(data):
                    done += self._disk.pwrite(fd, data[done:], done)
                self._disk.fdatasync(fd)
            finally:
                self._disk.close(fd)
        except OSError as error:
            return str(error)
        return ""
