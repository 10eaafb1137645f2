"""A real process, killed by the system in the middle of its appends: what it said was durable is there."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.plumbing.wal import Wal, WalOptions

OPTIONS = WalOptions(segment_bytes=64 * 1024)

CHILD = """
import asyncio, sys
from pathlib import Path
from penstock.plumbing.wal import Wal
from tests.plumbing.wal.test_kill import OPTIONS

async def write(wal, name):
    number = 0
    while True:
        lsn = await wal.append([f"{name}.{number}".encode().ljust(300, b"."), b"second"])
        print(lsn, name, number, flush=True)
        number += 1

async def main():
    wal = await Wal.open(Path(sys.argv[1]), OPTIONS)
    await asyncio.gather(*(write(wal, name) for name in range(8)))

asyncio.run(main())
"""


def said_before_the_kill(folder: Path, lines: int) -> list[str]:
    """Run the child until it has said so many lines, kill it, and return all it said."""
    command = [sys.executable, "-c", CHILD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as child:
        try:
            assert child.stdout is not None
            said = [child.stdout.readline() for _ in range(lines)]
        finally:
            child.kill()
        said += [line for line in child.stdout if line.endswith("\n")]
    assert child.returncode == -signal.SIGKILL
    return said


@pytest.mark.parametrize("lines", [1, 100, 1500])
async def test_kill_9(tmp_path: Path, lines: int) -> None:
    said = said_before_the_kill(tmp_path, lines)
    async with await Wal.open(tmp_path, OPTIONS) as wal:
        found = [bytes(record) async for records in wal.walk(wal.first_lsn) for record in records]
        assert wal.last_lsn == len(found)
        for line in said:
            lsn, name, number = map(int, line.split())
            assert found[lsn - 2 : lsn] == [f"{name}.{number}".encode().ljust(300, b"."), b"second"]
        assert await wal.append([b"and on"]) == len(found) + 1
