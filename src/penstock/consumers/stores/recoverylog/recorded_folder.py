"""A folder whose every change is recorded: done on the disk, then said to the Recording.

For stores which handle files themselves. (SQLite does so through `recording_vfs.py`.)
"""

import os

from penstock.consumers.stores.recoverylog.recording import Recording

__all__ = ["RecordedFolder"]


class RecordedFolder:
    """Operations on files, by their paths within the folder."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.folder = recording.folder

    def create(self, path: str, content: bytes = b"") -> None:
        """A new file. An older file is gone, also for other paths that led to it: those keep the old file."""
        target = self.folder / path
        target.unlink(missing_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        self.recording.created(path)
        if content:
            self.recording.wrote(path, 0, content)

    def write(self, path: str, offset: int, content: bytes) -> None:
        """Write into an existing file, and lengthen it with zeros if it ends before."""
        with (self.folder / path).open("r+b") as file:
            os.pwrite(file.fileno(), content, offset)
        self.recording.wrote(path, offset, content)

    def truncate(self, path: str, size: int) -> None:
        os.truncate(self.folder / path, size)
        self.recording.truncated(path, size)

    def link(self, path: str, new_path: str) -> None:
        os.link(self.folder / path, self.folder / new_path)
        self.recording.linked(path, new_path)

    def unlink(self, path: str) -> None:
        (self.folder / path).unlink()
        self.recording.unlinked(path)

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file; a file at the new path is gone."""
        os.replace(self.folder / path, self.folder / new_path)
        self.recording.renamed(path, new_path)
