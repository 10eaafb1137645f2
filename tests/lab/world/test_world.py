"""The rules of a world: order, turns, workers, kills, freezes, links, the guard."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock_lab.world.guard import guarded
from penstock_lab.world.ports.links import Links
from penstock_lab.world.ports.transport import WINDOW_BYTES
from penstock_lab.world.process import Computer, Life
from penstock_lab.world.world import World, WorldFailed

SECOND = 1_000_000_000


class Site:
    """A world with some machines."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.links = Links(self.world)
        self.machines: dict[str, Computer] = {}

    def start(self, name: str, main: Callable[[Life], Coroutine[Any, Any, None]]) -> Life:
        if name not in self.machines:
            self.machines[name] = Computer(self.world, self.links, name)
        self.links.machines(lambda name: not self.machines[name].is_on)
        return self.machines[name].start(main)

    def run(self, seconds: float) -> None:
        self.world.run(lambda: False, until_ns=self.world.now_ns + int(seconds * SECOND))


async def server(process: Life, heard: list[bytes], *, reads: bool = True) -> None:
    class Server(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            if not reads:
                transport.pause_reading()

        def data_received(self, data: bytes) -> None:
            heard.append(data)
            self.transport.write(data.upper())

        def connection_lost(self, exc: Exception | None) -> None:
            heard.append(f"lost {type(exc).__name__}".encode())

    await process.loop.create_server(Server, "s", 7)
    await asyncio.Event().wait()


class Client(asyncio.Protocol):
    def __init__(self) -> None:
        self.heard = b""
        self.lost: list[Exception | None] = []
        self.is_paused = False

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False


async def dial(process: Life, made: list[Any]) -> None:
    made.append(await process.loop.create_connection(Client, "s", 7))
    await asyncio.Event().wait()


def connected(site: Site, **how: Any) -> tuple[Life, Life, Any, Client, list[bytes]]:
    heard: list[bytes] = []
    made: list[Any] = []
    serving = site.start("s", lambda process: server(process, heard, **how))
    site.run(0.1)
    dialling = site.start("c", lambda process: dial(process, made))
    site.run(0.1)
    ((transport, client),) = made
    return serving, dialling, transport, client, heard


def test_bytes_arrive_in_order_once_and_cut_anywhere() -> None:
    site = Site()
    _, _, transport, client, heard = connected(site)
    sent = [bytes([97 + number % 26]) * (number % 9 + 1) for number in range(200)]
    for piece in sent:
        transport.write(piece)
    site.run(1)
    assert b"".join(heard) == b"".join(sent)
    assert client.heard == b"".join(sent).upper()
    assert 1 < len(heard) < 200
    transport.close()
    site.run(1)
    assert (client.lost, heard[-1]) == ([None], b"lost NoneType")


def test_a_cut_link_delivers_in_order_when_it_heals() -> None:
    site = Site()
    _, _, transport, client, heard = connected(site)
    transport.write(b"before ")
    site.run(0.1)
    site.links.cut("c", "s")
    transport.write(b"while ")
    site.run(5)
    assert b"".join(heard) == b"before "
    site.links.heal("c", "s")
    transport.write(b"after")
    site.run(5)
    assert b"".join(heard) == b"before while after"
    assert client.heard == b"BEFORE WHILE AFTER"


def test_a_reader_that_pauses_fills_the_window() -> None:
    site = Site()
    _, _, transport, client, _ = connected(site, reads=False)
    transport.write(bytes(WINDOW_BYTES))
    site.run(0.1)
    assert not client.is_paused
    transport.write(bytes(100_000))
    site.run(0.1)
    assert (client.is_paused, transport.get_write_buffer_size()) == (True, 100_000)


def test_a_frozen_process_hears_it_all_later() -> None:
    site = Site()
    serving, _, transport, client, heard = connected(site)
    serving.freeze()
    transport.write(b"hello")
    site.run(10)
    assert (heard, client.lost) == ([], [])
    serving.thaw()
    site.run(0.1)
    assert (b"".join(heard), client.heard) == (b"hello", b"HELLO")


def test_a_kill_is_heard_and_a_loss_of_power_is_not() -> None:
    site = Site()
    serving, _, _, client, _ = connected(site)
    serving.kill()
    site.run(0.1)
    assert client.lost == [None]

    site = Site()
    serving, _, transport, client, _ = connected(site)
    serving.machine.lose_power()
    transport.write(b"is there anybody")
    site.run(10)
    assert client.lost == []
    site.start("s", lambda process: server(process, []))
    transport.write(b"?")
    site.run(1)
    assert [type(error) for error in client.lost] == [ConnectionResetError]


def test_no_listener_refuses_and_no_machine_says_nothing() -> None:
    site = Site()
    ended: list[str] = []

    async def main(process: Life) -> None:
        for host in ("here", "off"):
            try:
                async with asyncio.timeout(3):
                    await process.loop.create_connection(Client, host, 7)
            except OSError as error:
                ended.append(f"{host} {type(error).__name__} {round(site.world.now_ns / SECOND)}")

    site.machines = {name: Computer(site.world, site.links, name) for name in ("here", "off")}
    site.machines["off"].is_on = False
    site.start("c", main)
    site.run(10)
    assert ended == ["here ConnectionRefusedError 0", "off TimeoutError 3"]


def test_the_dead_do_nothing_more() -> None:
    site = Site()
    done: list[str] = []

    async def main(process: Life) -> None:
        try:
            await asyncio.sleep(1)
            done.append("woke")
        finally:
            done.append("finally")

    process = site.start("m", main)
    site.run(0.5)
    process.kill()
    site.run(5)
    assert done == []


def test_a_worker_is_a_later_event_and_takes_the_time_of_its_disk() -> None:
    site = Site()
    seen: list[Any] = []

    async def main(process: Life) -> None:
        process.disk.files.trouble.sync_ns = (2 * SECOND, 2 * SECOND)
        beats = asyncio.create_task(beat(seen))

        def write() -> str:
            seen.append("works")
            fd = process.disk.temporary(None)
            process.disk.fdatasync(fd)
            return "done"

        began = process.clock.monotonic_ns()
        seen.append(await asyncio.to_thread(write))
        seen.append(round((process.clock.monotonic_ns() - began) / SECOND))
        beats.cancel()

    async def beat(seen: list[Any]) -> None:
        while True:
            await asyncio.sleep(0.9)
            seen.append("beats")

    site.start("m", main)
    site.run(5)
    assert seen == ["works", "beats", "beats", "done", 2]


def test_a_task_that_dies_unheard_fails_the_world() -> None:
    site = Site()

    async def dies() -> None:
        raise ZeroDivisionError

    async def main(process: Life) -> None:
        task = asyncio.create_task(dies())
        await asyncio.sleep(0.1)
        del task
        await asyncio.sleep(0.1)

    site.start("m", main)
    with pytest.raises(WorldFailed, match="ZeroDivisionError"):
        site.run(1)


DOORS: dict[str, Callable[[], object]] = {
    "socket": socket.socket,
    "subprocess": lambda: subprocess.Popen(["true"]),
    "a file elsewhere": Path("/etc/hostname").read_bytes,
    "a file to write": lambda: Path("new file").write_bytes(b""),
    "a native library": lambda: __import__("sqlite3"),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_real_door_is_an_error_with_its_stack(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sqlite3", raising=False)
    site = Site()

    async def main(process: Life) -> None:
        DOORS[door]()

    site.start("m", main)
    with guarded(site.world), pytest.raises(WorldFailed, match=r"left the world(.|\n)*test_world.py"):
        site.run(1)


def test_a_callback_that_spins_ends_the_world() -> None:
    site = Site()

    async def main(process: Life) -> None:
        while True:
            sum(range(1000))

    site.start("m", main)
    with guarded(site.world, seconds=0.3), pytest.raises(WorldFailed, match=r"processor time(.|\n)*in main"):
        site.run(1)


DIGESTS = """
import sys; sys.path[:0] = {path!r}
from tests.lab.world.test_world import digest
print(digest())
"""


def digest() -> str:
    """A world with sets of tasks and futures, which iterate by hash."""
    site = Site(7)
    connected(site)

    async def main(process: Life) -> None:
        tasks = {asyncio.create_task(asyncio.sleep(number % 3)) for number in range(50)}
        await asyncio.wait(tasks)
        for number, _ in enumerate(tasks):
            process.disk.make_folders(process.folder / str(number))

    site.start("m", main)
    site.run(5)
    return site.world.digest


def test_a_seed_has_one_digest_in_every_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", DIGESTS.format(path=sys.path)],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("0", "77")
    }
    assert found == {digest()}
