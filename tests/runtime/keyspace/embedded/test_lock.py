"""The writer lock: one at a time, also within a process, and never for ever."""

import time
from pathlib import Path

import pytest

from penstock.base.errors import Overloaded, Written
from penstock.runtime.keyspace.embedded.lock import WriterLock


def test_one_holds_it_and_the_other_waits_no_longer_than_it_may(tmp_path: Path) -> None:
    one, other = WriterLock(tmp_path / "lock", 50), WriterLock(tmp_path / "lock", 50)
    one.acquire()
    started = time.monotonic()
    with pytest.raises(Overloaded, match="50 ms") as refused:
        other.acquire()
    assert 0.05 <= time.monotonic() - started < 5
    assert (refused.value.written, refused.value.retryable) == (Written.NO, True)
    one.release()
    other.acquire()
    other.close()  # closing frees it, as the end of a process does
    one.acquire()
    one.close()
