"""Starts worker.py as a process, and talks with it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.keyspace.shell.behaviours import WAIT_S

WORKER = Path(__file__).with_name("worker.py")


class Worker:
    """One run of worker.py."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            line = await self.process.stdout.readline()
        assert line, "the worker ended"
        return line.decode().strip()

    async def kill(self) -> list[str]:
        """kill -9; return its unread output."""
        assert self.process.stdout is not None
        self.process.kill()
        rest = (await self.process.stdout.read()).decode()
        await self.process.wait()
        return rest.splitlines()

    async def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        await self.process.stdin.drain()


@asynccontextmanager
async def worker(*arguments: object) -> AsyncIterator[Worker]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(WORKER),
        *map(str, arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=1 << 20,
    )
    try:
        yield Worker(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        assert process.stdin is not None
        process.stdin.close()
