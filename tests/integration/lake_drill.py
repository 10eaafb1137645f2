"""A lake of real processes under load: members, writers that remember the acknowledgements, and the audit."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from tests.integration.test_quorum_faults import metadata_of
from tests.lake.rest.servers import KEY, SECRET

from penstock.kernel.errors import Indeterminate, NoChanges, PenstockError, Unavailable
from penstock.keyspace.shell.embedded.lock import is_stopped
from penstock.lake.client.lake_api import LakeApi
from penstock.lake.client.lake_place import LakePlace
from penstock.lake.client.lake_repository import AsyncBranch, AsyncRepository
from penstock.plumbing.objects.keys import RESERVED
from penstock.plumbing.process.ports import ReservedPorts
from penstock.server.cluster.local import LocalCluster

READY_S = 120.0
ANSWER_S = 5.0  # then another member is asked: this one may be frozen
AWAY_S = 0.2  # between two tries while a member is away
T = TypeVar("T")


class Members:
    """Members of one lake, each a process."""

    def __init__(self, folder: Path, cluster: LocalCluster, count: int) -> None:
        self.folder = folder
        self.cluster = cluster
        ports = ReservedPorts(count)
        weakref.finalize(self, ports.close)
        self.ports = ports.numbers
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    def start(self, port: int) -> None:
        environment = {
            **os.environ,
            "PENSTOCK_DATA_FOLDER": str(self.folder / "data"),
            "PENSTOCK_LAKE_ACCESS_KEY_ID": KEY,
            "PENSTOCK_LAKE_SECRET_ACCESS_KEY": SECRET,
            "PENSTOCK_LOG_LEVEL": "warning",
        }
        nodes = [word for address in self.cluster.addresses("node") for word in ("--node", address)]
        command = [sys.executable, "-m", "penstock", "lake", "serve", *nodes, "--listen", f"127.0.0.1:{port}"]
        with (self.folder / f"member-{port}.log").open("ab") as log:
            self._running[port] = subprocess.Popen(command, env=environment, stderr=log)

    def start_all(self) -> None:
        for port in self.ports:
            self.start(port)

    def signal(self, port: int, number: signal.Signals) -> None:
        self._running[port].send_signal(number)
        if number is signal.SIGKILL:
            self._running.pop(port).wait(30)

    def freeze(self, port: int) -> None:
        """SIGSTOP at a moment without names being given: a process frozen there keeps its turn, and all others wait."""
        with ExitStack() as held:
            for path in self._store_locks():
                lock = held.enter_context(path.open("rb+"))
                fcntl.flock(lock, fcntl.LOCK_EX)
            self.signal(port, signal.SIGSTOP)
            while not is_stopped(self._running[port].pid):
                time.sleep(0.001)

    def _store_locks(self) -> list[Path]:
        return sorted((self.folder / "data/objects" / RESERVED / "locks").iterdir())

    async def ended(self, port: int) -> None:
        """Wait until a member that was asked to end has ended."""
        await asyncio.to_thread(self._running[port].wait, READY_S)

    def kill_all(self) -> None:
        """At once."""
        for process in self._running.values():
            process.kill()
        for port in list(self._running):
            self._running.pop(port).wait(30)

    def start_again_what_ended(self) -> None:
        """Restart members: one that lost its queue for too long ends its process, for its supervisor to restart."""
        for port in self.ports:
            if port not in self._running or self._running[port].poll() is not None:
                self.start(port)

    def log(self) -> str:
        """The last of what everybody said."""
        members = [f"-- {path.name}\n{path.read_text()[-2000:]}" for path in sorted(self.folder.glob("member-*.log"))]
        others = [f"-- {each.name}\n{self.cluster.log_tail(each.name, 30)}" for each in self.cluster.plan.processes]
        inodes = {str(path.stat().st_ino) for path in self._store_locks()}
        locks = Path("/proc/locks").read_text().splitlines()
        held = [line for line in locks if inodes & {word.rpartition(":")[2] for word in line.split()}]
        return "\n".join([*members, *others, "-- locks of the object store", *held])


class Load:
    """Users of the lake, with all their answers."""

    def __init__(self, members: Members, name: str, seed: int = 1) -> None:
        self.members = members
        self.name = name
        self.rng = Random(seed)
        self.is_over = False
        self.puts: dict[str, bytes] = {}  # acknowledged
        self.commits: set[str] = set()
        self.unanswered: dict[str, set[bytes]] = {}  # by path: unknown; a frozen member may do it much later
        self.reads = 0
        self.lost_answers = 0
        self._apis = [LakeApi(LakePlace(url, KEY, SECRET)) for url in members.urls]
        self._grew = asyncio.Event()

    async def close(self) -> None:
        for api in self._apis:
            await api.close()

    def main(self) -> AsyncBranch:
        """The branch, through some member."""
        return AsyncRepository(self.rng.choice(self._apis), "drill").branch("main")

    async def again(self, call: Callable[[], Awaitable[T]]) -> T:
        """Ask some member after the other until one answers. For what may be done twice."""
        end = time.monotonic() + READY_S
        while True:
            try:
                return await asyncio.wait_for(call(), ANSWER_S)
            except (Unavailable, Indeterminate, TimeoutError) as error:
                self.lost_answers += 1
                if time.monotonic() > end:
                    raise AssertionError(f"the lake is away: {error}\n{self.members.log()}") from None
            await asyncio.sleep(AWAY_S)

    async def prepare(self) -> None:
        await self.again(lambda: AsyncRepository(self._apis[0], "drill").create(exists_ok=True))

    async def write(self, writer: int) -> None:
        """New objects, one after the other, each until it is acknowledged."""
        number = 0
        while not self.is_over:
            number += 1
            path, content = f"{self.name}/{writer}/{number:06d}", b"%d of %d" % (number, writer)
            await self.again(lambda path=path, content=content: self.main().put(path, content))  # type: ignore[misc]
            self.puts[path] = content
            self._grew.set()

    async def count(self, counter: int) -> None:
        """Overwrite one object again and again, and read it in between through any member: never an older one.

        Every try has a content of its own: an unanswered one is not over, and may still come.
        """
        path, number = f"{self.name}/counter-{counter}", 0

        async def put() -> None:
            nonlocal number
            number += 1
            content = b"%d" % number
            open_ = self.unanswered.setdefault(path, set())
            open_.add(content)
            await self.main().put(path, content)
            open_.remove(content)
            self.puts[path] = content

        while not self.is_over:
            await self.again(put)
            self.check(path, await self.again(lambda: self.main().read(path)))
            self.reads += 1

    def check(self, path: str, seen: bytes) -> None:
        """Check that the content is the last acknowledged one, or one that may have come since."""
        expected = {self.puts[path], *self.unanswered.get(path, ())}
        assert seen in expected, f"{path}: {self.puts[path]!r} was acknowledged, {seen!r} is read, not of {expected}"

    async def commit(self) -> None:
        """Commit now and then; acknowledged commits must be in the log for ever."""
        while not self.is_over:
            with suppress(NoChanges, Unavailable, Indeterminate, TimeoutError):
                made = await asyncio.wait_for(self.main().commit(f"{self.name}"), 2 * ANSWER_S)
                self.commits.add(made.id)
            await asyncio.sleep(AWAY_S)

    async def more(self, puts: int = 20) -> None:
        """Wait for `puts` more acknowledgements."""
        before, wanted = len(self.puts), len(self.puts) + puts
        try:
            async with asyncio.timeout(READY_S):
                while len(self.puts) < wanted:
                    self._grew.clear()
                    await self._grew.wait()
        except TimeoutError:
            done = f"{len(self.puts) - before} of {puts} puts within {READY_S:g} s, {self.lost_answers} answers lost"
            raise AssertionError(f"{done}\n{self.members.log()}") from None

    async def audit(self) -> None:
        """Check that everything acknowledged exists, through every member, and that all of them show the same."""
        shown = [await self.again(lambda api=api: self._shown_by(api)) for api in self._apis]  # type: ignore[misc]
        assert all(tree == shown[0] for tree in shown), "members show different trees"
        missing = [path for path in self.puts if path not in shown[0]]
        assert not missing, f"acknowledged and gone: {missing[:5]} of {len(missing)}"
        for path in [each for each in self.puts if "counter" in each] + self.rng.sample(sorted(self.puts), 10):
            self.check(path, await self.again(lambda path=path: self.main().read(path)))  # type: ignore[misc]
        log = await self.again(lambda: _log(self.main()))
        assert self.commits <= log, f"acknowledged commits which the log has not: {self.commits - log}"

    async def _shown_by(self, api: LakeApi) -> dict[str, str]:
        """Return the tree that one member shows. It may have lost its queue in the last fault, and ended: no supervisor
        starts it now.
        """
        self.members.start_again_what_ended()
        return await _tree(AsyncRepository(api, "drill").branch("main"))


async def _tree(branch: AsyncBranch) -> dict[str, str]:
    return {each.path: each.etag async for each in branch.list()}


async def _log(branch: AsyncBranch) -> set[str]:
    return {each.id async for each in branch.log()}


async def under_load(
    members: Members, name: str, drill: Callable[[Load], Coroutine[Any, Any, None]], *, writers: int = 2, seed: int = 1
) -> Load:
    """Run a drill while the lake is used; then the audit."""
    await metadata_of(members.cluster)
    load = Load(members, name, seed)
    try:
        await load.prepare()
        users = [*(load.write(number) for number in range(writers)), load.count(1), load.count(2), load.commit()]
        tasks = [asyncio.create_task(user) for user in users]
        working = asyncio.gather(*tasks)
        try:
            drilling = asyncio.create_task(drill(load))
            both: list[asyncio.Future[Any]] = [working, drilling]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not drilling.done():
                drilling.cancel()
                await working  # raises what broke the load
            await drilling
            load.is_over = True
            await asyncio.wait_for(working, READY_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await load.audit()
    except PenstockError as error:
        raise AssertionError(f"{error}\n{members.log()}") from error
    finally:
        await load.close()
    return load
