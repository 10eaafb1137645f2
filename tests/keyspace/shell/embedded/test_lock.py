"""The writer lock: one at a time, also within a process, and never for ever."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.kernel.errors import Overloaded, Written
from penstock.keyspace.shell.embedded.lock import WriterLock


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


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux says who holds a lock")
def test_who_waits_in_vain_is_told_which_process_is_in_the_way(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            lock = WriterLock(tmp_path / "lock", 1)
            with pytest.raises(Overloaded, match=f"for 1 ms: process {holder.pid}"):
                lock.acquire()
            holder.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
            with pytest.raises(Overloaded, match=f"process {holder.pid} holds .* and is stopped") as refused:
                lock.acquire()
            assert refused.value.next_step == f"kill -CONT {holder.pid}, or kill -KILL {holder.pid}"
        finally:
            holder.kill()
    lock.acquire()  # the kernel has freed it
    lock.close()
