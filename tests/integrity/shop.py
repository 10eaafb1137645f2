"""A data folder with a file of every kind, and everything in it that was acknowledged."""

import asyncio
import random
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import msgspec

from penstock.journals.client.journal import Journals
from penstock.journals.records.fragment import CompressionCodec
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import PenstockError
from penstock.kernel.formats import CREDENTIALS
from penstock.lake.client.lake_place import LakePlace
from penstock.lake.client.lake_repository import AsyncLake
from penstock.lake.member.quorum_queue import QuorumQueue
from penstock.plumbing.files.data_folder import check_folder, enter_folder
from penstock.plumbing.files.sealed import read_sealed
from penstock.plumbing.process.running import hold
from penstock.server.machine import roles
from penstock.server.machine.plan import plan_alone
from penstock.server.machine.running import RunningMachine, running_machine
from penstock.server.session import Session

LENGTH = 400_000  # of a fragment
READ_S = 20.0
_noise = random.Random(23).randbytes


@dataclass
class Truth:
    """Everything that was acknowledged."""

    journals: dict[str, bytes] = field(default_factory=dict)
    objects: dict[tuple[str, str], bytes] = field(default_factory=dict)  # by ref and path


SPECS = (
    JournalSpec(name="shop/raw", replication=1, fragment=FragmentSpec(length=LENGTH)),
    JournalSpec(
        name="shop/packed",
        replication=1,
        fragment=FragmentSpec(length=LENGTH, compression_codec=CompressionCodec.ZSTANDARD),
    ),
    JournalSpec(  # no store takes its fragments
        name="shop/waiting", replication=1, fragment=FragmentSpec(length=50_000, stores=("file:///dev/null/store/",))
    ),
)
OBJECTS = {"tiny.csv": 100, "middle.bin": 200_000, "large.bin": 700_000, "parts/huge.bin": 9 << 20}


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[RunningMachine]:
    """Run `penstock up` in this process, as its command does."""
    listen = ("wire.listen=127.0.0.1:0", "lake.listen=127.0.0.1:0")
    session = Session(settings=(f"data.folder={folder}", *listen, "wal.segment_bytes=1MiB", "log.level=info"))
    check_folder(folder)
    with hold(folder) as place:
        enter_folder(folder)
        async with running_machine(session, plan_alone(session.effective.config)) as machine:
            await machine.ready()
            place.tell(machine.running)
            yield machine


@asynccontextmanager
async def clients(folder: Path, machine: RunningMachine) -> AsyncIterator[tuple[Journals, AsyncLake]]:
    keys = read_sealed(CREDENTIALS, folder / CREDENTIALS.where)
    assert keys is not None
    place = LakePlace(machine.lake_url, keys["access_key_id"], keys["secret_access_key"])
    async with Journals([machine.wire]) as journals, AsyncLake(place) as lake:
        yield journals, lake


def copy(folder: Path, to: Path) -> None:
    """Copy a folder that is in use, as a crash leaves it: without pipes and with all that the page cache has."""
    shutil.copytree(folder, to, ignore=shutil.ignore_patterns("*.fifo", "up.json"))


async def build(folder: Path, before: Path) -> Truth:
    """Fill the folder, and leave it as a crash does. `before` gets a copy from half-way."""
    truth = Truth()
    config = msgspec.structs.replace(roles.NODE_CONFIG, snapshot_entries=30, retain_entries=10)
    live = folder.with_name("live")
    with patch.object(roles, "NODE_CONFIG", config), patch.object(QuorumQueue, "checkpoint_span", 10):
        for half in (1, 2):
            async with opened(live) as machine, clients(live, machine) as (journals, lake):
                if half == 1:
                    await journals.create(*SPECS)
                    await lake.repository("shop").create()
                await fill(journals, lake, truth, half)
                if half == 2:
                    copy(live, folder)
            if half == 1:
                copy(live, before)
    return truth


async def fill(journals: Journals, lake: AsyncLake, truth: Truth, half: int) -> None:
    """Append to each journal, put objects and commit them, and put others."""
    for name in ("shop/raw", "shop/packed", "shop/waiting"):
        for size in (LENGTH, 3_000):  # the first finishes a fragment
            content = _noise(size)
            await journals.append(name, content, timeout=READ_S)
            truth.journals[name] = truth.journals.get(name, b"") + content
    main = lake.repository("shop").branch("main")
    for ref in ("main", "staged"):
        for path, size in OBJECTS.items():
            content = _noise(size if ref == "main" else min(size, 700_000))
            at = f"{ref}-{half}/{path}"
            await main.put(at, content)
            truth.objects["main", at] = content
        if ref == "main":
            await main.commit(f"half {half}")
    for number in range(15):
        await main.put("counter", str(number).encode())
    truth.objects["main", "counter"] = b"14"
    await stored(journals, half)


async def stored(journals: Journals, fragments: int) -> None:
    """Wait until the store has the finished fragments."""
    for name in ("shop/raw", "shop/packed"):
        async with asyncio.timeout(READ_S):
            while sum(bool(one.backing_store) for one in (await journals.fragments(name)).fragments) < fragments:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@dataclass
class Finding:
    """The result of a start on a damaged folder."""

    refused: str = ""  # why it did not start
    wrong: list[str] = field(default_factory=list)  # reads that gave other bytes with success
    errors: dict[str, str] = field(default_factory=dict)  # of reads, by their place


async def read_everything(folder: Path, truth: Truth) -> Finding:
    """Start, read everything acknowledged, and compare."""
    found = Finding()
    try:
        async with asyncio.timeout(READ_S), opened(folder) as machine, clients(folder, machine) as (journals, lake):
            await _read_journals(journals, truth, found)
            await _read_lake(lake, truth, found)
    except PenstockError as error:
        found.refused = f"{error.describe()}"
    except TimeoutError:
        found.wrong.append(f"neither ready nor ended within {READ_S:g} s")
    return found


async def _read_journals(journals: Journals, truth: Truth, found: Finding) -> None:
    listed = {each.spec.name for each in await journals.list()}
    found.wrong += [f"{name} is not listed" for name in truth.journals if name not in listed]
    for name, content in truth.journals.items():
        offset = 0
        while offset < len(content):
            got = b""
            try:
                async with asyncio.timeout(5):
                    async for chunk in journals.read(name, offset):
                        got += chunk.content
                problem = "ended early"
            except PenstockError as error:
                found.errors[f"{name}@{offset + len(got)}"] = error.describe()
                problem = ""
            except TimeoutError:
                problem = "hangs"
            if content[offset : offset + len(got)] != got:
                found.wrong.append(f"{name} [{offset}, {offset + len(got)}) has other bytes")
            offset += len(got)
            if offset < len(content):
                if problem:
                    found.wrong.append(f"{name} {problem} at {offset}")
                    break
                offset = offset - offset % 50_000 + 50_000  # the rest must be readable, or refused too


async def _read_lake(lake: AsyncLake, truth: Truth, found: Finding) -> None:
    repository = lake.repository("shop")
    for (ref, path), content in truth.objects.items():
        for start, end in ((0, len(content)), (len(content) // 2, len(content) // 2 + 10)):
            try:
                got = await repository.ref(ref).read(path, start, end)
                if got != content[start:end]:
                    found.wrong.append(f"{path} [{start}, {end}) has other bytes")
            except PenstockError as error:
                found.errors[f"{path}@{start}"] = error.describe()
    try:
        messages = [commit.message async for commit in repository.ref("main").log()]
        if messages[:2] != ["half 2", "half 1"]:
            found.wrong.append(f"the log is {messages}")
    except PenstockError as error:
        found.errors["log"] = error.describe()
