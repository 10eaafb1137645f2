"""Processes which write to a folder, for the tests: run as `python writers.py WHAT ROOT …`.

killed ROOT            for N = 1, 2, …: a process puts ROOT/N:a/b and is killed with SIGKILL ahead of its Nth call
held ROOT              stages an object, says so, and waits to be killed
absent ROOT NAME KEYS  puts KEYS keys if absent, all with its name as content; prints the numbers of those it won
count ROOT TIMES       adds one to the number in ROOT:count, TIMES times, by if_match
"""

import os
import signal
import sys
from contextlib import closing

from penstock.kernel.errors import PreconditionFailed
from penstock.plumbing.objects.folder.disk import FolderDisk
from penstock.plumbing.objects.folder.syscalls import Syscalls

LOCK_MS_MAX = 30_000
CALLS = [name for name in vars(Syscalls) if not name.startswith("_")]


class Killed(Syscalls):
    """Kills its process ahead of the Nth call."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __getattribute__(self, name: str) -> object:
        if name in CALLS:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__getattribute__(name)


def killed(root: str) -> None:
    for number in range(1, 100):
        pid = os.fork()
        if not pid:
            FolderDisk(f"{root}/{number}", LOCK_MS_MAX, Killed(number)).put("a/b", memoryview(b"x" * 100_000))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            print(number)
            return


def held(root: str) -> None:
    staged = FolderDisk(root, LOCK_MS_MAX).stage("a")
    staged.write(memoryview(b"half of it"))
    print("staged", flush=True)
    sys.stdin.read()


def absent(root: str, name: str, keys: str) -> None:
    won = []
    with closing(FolderDisk(root, LOCK_MS_MAX)) as disk:
        sys.stdin.readline()
        for number in range(int(keys)):
            try:
                disk.put(f"folder/{number}", memoryview(name.encode()), if_absent=True)
                won.append(number)
            except PreconditionFailed:
                pass
    print(*won)


def count(root: str, times: str) -> None:
    with closing(FolderDisk(root, LOCK_MS_MAX)) as disk:
        sys.stdin.readline()
        for _ in range(int(times)):
            while not _increment(disk):
                pass


def _increment(disk: FolderDisk) -> bool:
    file, meta = disk.open("count")
    number = int(os.pread(file, meta.size, 0))
    os.close(file)
    try:
        disk.put("count", memoryview(str(number + 1).encode()), if_match=meta.etag)
    except PreconditionFailed:
        return False
    return True


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
