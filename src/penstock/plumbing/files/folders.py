"""Folders of the data folder, and how the names in them become durable."""

import os
from pathlib import Path

__all__ = ["sync_folder"]


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
