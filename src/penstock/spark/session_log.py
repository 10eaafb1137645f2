"""Spark's own log: what the Java process of a session writes goes to a file, and not over our lines. spark-2.md P11.

The file is rotated: three of ten megabytes. A pipe leads to it, so it also has what Java writes before there is a
logger, and what a user's function prints in a worker.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

__all__ = ["captured", "reason_in"]

LOG_BYTES: Final = 10_000_000
LOGS: Final = 3
READ_BYTES: Final = 1 << 16
TAIL_BYTES: Final = 1 << 14
_REASONS: Final = ("JAVA_HOME", "No such file", "not found", "Unable to", "Could not", "Error", "Exception")


@contextmanager
def captured(file: Path) -> Iterator[None]:
    """Send the output of processes that start inside to a file, as long as they live."""
    file.parent.mkdir(parents=True, exist_ok=True)
    reading, writing = os.pipe()
    threading.Thread(target=_copy, args=(reading, file), name="penstock-spark-log", daemon=True).start()
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    try:
        for number in (1, 2):
            os.dup2(writing, number)
        os.close(writing)
        yield
    finally:
        for number, before in zip((1, 2), kept, strict=True):
            os.dup2(before, number)
            os.close(before)


def reason_in(file: Path) -> str:
    """Return the line that says why a process did not start: the first with a word of failure, or the last."""
    try:
        text = file.read_bytes()[-TAIL_BYTES:].decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = [line for line in lines if any(word in line for word in _REASONS) and not line.startswith("at ")]
    return (found or lines[-1:] or [""])[0]


def _copy(reading: int, file: Path) -> None:
    """Copy a pipe into the rotated file, until every writer has ended."""
    handler: Any = RotatingFileHandler(
        file, maxBytes=LOG_BYTES, backupCount=LOGS - 1, encoding="utf-8", errors="replace"
    )
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while data := pipe.read(READ_BYTES):
            try:
                if handler.stream.tell() + len(data) > LOG_BYTES:
                    handler.doRollover()
                handler.stream.write(data.decode("utf-8", "replace"))
                handler.stream.flush()
            except OSError:
                continue  # a full disk must not stop the process that writes
    handler.close()
