"""The quarantine: files that could not be read are kept there, with a note that says why. Design: integrity.md D1.

    {data folder}/quarantine/{UTC}-{kind}-{id}/why.json     the reason, and the ranges
    {data folder}/quarantine/{UTC}-{kind}-{id}/...          the files, under the names that they had

Code that runs because bytes could not be read never removes, cuts or overwrites them: it moves them here. If that fails
it raises, and the files stay where they are. Nothing in Penstock removes an entry.
"""

import json
import os
import secrets
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from penstock.kernel.errors import StorageError
from penstock.kernel.version import VERSION
from penstock.plumbing.files.folders import sync_folder
from penstock.plumbing.process.logs import get_logger

__all__ = ["WHY", "Quarantine"]

WHY: Final = "why.json"
log = get_logger()


class Quarantine:
    """The quarantine of one data folder. Its calls block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def take(self, kind: str, paths: Iterable[Path], root: Path, why: str, **facts: Any) -> Path:
        """Move files here; return the entry. Their names are those below `root`.

        `facts` go into the note. A `StorageError` says that some files are where they were.
        """
        paths = list(paths)
        moment = datetime.now(UTC)
        entry = self.folder / f"{moment:%Y%m%dT%H%M%SZ}-{kind}-{secrets.token_hex(4)}"
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
            entry.mkdir(parents=True)
            note_error = _write_note(entry / WHY, note)
            for path in paths:
                target = entry / path.relative_to(root)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.rename(target)
            for folder in {entry, self.folder, *(path.parent for path in paths)}:
                sync_folder(folder)
        except OSError as error:
            raise StorageError(
                f"unreadable files of {root} cannot be moved into {self.folder}: {error.strerror or error}",
                next_step=f"free space on the disk of {self.folder}, and check who owns it",
            ) from error
        log.error("files quarantined", kind=kind, reason=why, entry=str(entry), note_error=note_error, **facts)
        return entry

    def notes(self, kind: str) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Return the entries of one kind with their notes, oldest first. A note that cannot be read is left out."""
        for path in sorted(self.folder.glob(f"*-{kind}-*/{WHY}")):
            try:
                note = json.loads(path.read_bytes())
            except (OSError, ValueError):
                continue
            if isinstance(note, dict) and note.get("kind") == kind:
                yield path.parent, note

    def count(self) -> int:
        """Return how many entries there are."""
        try:
            return sum(not name.startswith(".") for name in os.listdir(self.folder))
        except FileNotFoundError:
            return 0


def _write_note(path: Path, note: dict[str, Any]) -> str:
    """Write the note; return why that failed. On a full disk the files matter more: the log has the facts too."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(json.dumps(note, indent=2, default=str) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return str(error)
    return ""
