"""The table of integrity.md: for each kind of file and each damage, what a start and a read of everything give.

No cell is silent: bytes that were acknowledged are read back right, or refused by name. The column of newer versions is
in `test_newer_formats.py`.
"""

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from pyarrow import parquet
from structlog.testing import capture_logs
from tests.integrity.shop import Finding, Truth, build, copy, read_everything

from penstock.kernel.formats import FILES, NODE_STATE
from penstock.plumbing.files.versions import kind_of
from penstock.plumbing.objects import open_store
from penstock.plumbing.wal import StateFile
from penstock.quorum.records.state import NodeState
from penstock.server.fsck.folder import look_into_folder
from penstock.server.fsck.lake import look_into_lake
from penstock.server.fsck.report import DamagedFile, FsckReport

# R range refused, S start refused, D made again and named in the log, = harmless, - cannot be;
# r: R, or harmless where no read needs the byte.
# For each kind: flip, cut, deleted, older copy.
TABLE = {
    "data folder": "SS=-",  # each other file says its version too
    "keys of the lake": "SSS-",
    "note of the KeySpace": "SS==",  # it lags by ten seconds at any time
    "KeySpace": "SSS-",
    "KeySpace log": "SSS-",
    "KeySpace map": "===-",
    "KeySpace lock": "--=-",
    "witness": "=SS=",  # its other record counts; a power cut may leave an older one
    "node name": "SSS-",
    "node registers": "SSSS",
    "WAL segment": "SSSS",
    "WAL witness": "====",
    "WAL lock": "--=-",
    "snapshot": "SSS-",
    "Spool state": "RRRR",
    "open content of a Spool": "RRR-",
    "finished fragment in a Spool": "RRR-",
    "stored fragment": "RRR-",
    "sums of an object": "DDD-",
    "checkpoint of the lake": "DD=-",
    "commit of the lake": "RRR-",
    "tree of the lake": "rRR-",
    "index of a tree of the lake": "RRR-",
    "pack of a tree of the lake": "RRR-",
    "bytes of the lake": "RRR-",
    "lock of an object store": "--=-",
    "unfinished object": "--=-",
    "lock of the folder": "--=-",
}
ELSEWHERE = {  # of kinds that such a folder does not have: the test that damages one
    "quarantined file": "tests/journals/broker/test_damaged_spool.py",
    "KeySpace pipe": "tests/keyspace/shell/embedded/test_wakeups.py",
    "lost transactions": "tests/quorum/node/test_storage.py",
    "replica set aside": "tests/quorum/node/test_divergence.py",
    "content set aside": "tests/journals/broker/spools/test_spool_files.py",
    "range of the lake": "tests/lake/member/committed/test_files.py",
    "note of the garbage collector": "tests/lake/member/garbage/test_garbage_service.py",
    "scratch of the lake": "tests/lake/member/services/test_scratch.py",
    "addresses of the roles": "tests/plumbing/process/test_running.py",
    "log of the server": "tests/cli/machines/test_up.py",
}
UNSEEN = {  # by fsck, which asks no KeySpace how far a journal has come; lost sums are made again
    ("Spool state", "cut"),
    ("Spool state", "older"),
    ("finished fragment in a Spool", "deleted"),
    ("stored fragment", "deleted"),
    ("sums of an object", "deleted"),
    ("tree of the lake", "flip"),  # it opens each root, and does not read all of its columns
}
DAMAGES = ("flip", "cut", "deleted", "older")
CELLS = [
    (kind, damage) for kind, row in TABLE.items() for damage, cell in zip(DAMAGES, row, strict=True) if cell != "-"
]


@dataclass
class Shop:
    """Images of a folder, and the place where it runs."""

    image: Path
    before: Path  # the same folder half-way
    live: Path
    truth: Truth

    def files(self) -> dict[str, list[str]]:
        """The files of each kind."""
        found: dict[str, list[str]] = {}
        for path in sorted(self.image.rglob("*")):
            if path.is_file():
                name = str(path.relative_to(self.image))
                kind = kind_of(name)
                found.setdefault(kind.name if kind is not None else f"none: {name}", []).append(name)
        return found


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    image, before = folder / "image", folder / "before"
    with capture_logs():
        yield Shop(image, before, folder / "live", asyncio.run(build(image, before)))
    shutil.rmtree(folder)


def chosen(shop: Shop, kind: str) -> str:
    """The file to damage: the newest, but for objects, of which the first is in no other place."""
    files = shop.files()[kind]
    if kind == "bytes of the lake":
        return max(files, key=lambda name: (shop.image / name).stat().st_size)
    if kind == "snapshot":  # the one that the registers name: a newer one may have been under way
        data = StateFile(shop.image / "n1/shards/main/state", kind=NODE_STATE).load()
        assert data is not None
        head = msgspec.msgpack.decode(data, type=NodeState).snapshot.head
        return next(name for name in files if f"-{head.offset:020}." in name)
    if "tree of the lake" in kind:
        return max(files, key=lambda name: (shop.image / name).stat().st_mtime_ns)
    return files[0] if kind in ("stored fragment", "sums of an object") else files[-1]


def damage(shop: Shop, name: str, how: str) -> None:
    path = shop.live / name
    if name == "keyspace/store.sqlite":  # without its log, which has the same pages
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = path.read_bytes()
    content = len(data.rstrip(b"\0")) if name.endswith((".wal", "witness")) else len(data)
    match how:
        case "flip":
            at = content - 3 if name.endswith(("state", "node")) else content // 2
            at = data.index(b"shop/raw") if name == "keyspace/store.sqlite" else at
            at = end_of_rows(path) - 2 if "/pack-" in name else at  # a flip in the footer may be harmless
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        case "cut":
            path.write_bytes(data[: content // 2])
        case "deleted":
            path.unlink()
        case _:
            older = shop.before / name
            assert older.read_bytes() != data, "there is no older copy"
            shutil.copyfile(older, path)


def end_of_rows(path: Path) -> int:
    column = parquet.read_metadata(path).row_group(0).column(0)
    return int((column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size)


async def found_by_fsck(folder: Path) -> list[DamagedFile]:
    """Look at the folder as `penstock fsck --deep` does. No byte of it changes."""
    before = contents(folder)
    report = FsckReport()
    look_into_folder(folder, report, deep=True)
    url = (folder / "objects").as_uri()
    async with open_store(url) as store:
        await look_into_lake(store, url, report, deep=True)
    assert contents(folder) == before
    assert report.unknown == []
    return report.damages


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files but SQLite's map, in which its readers note that they read."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def said(found: Finding) -> str:
    return "\n".join([found.refused, *found.errors.values()])


@pytest.mark.parametrize(("kind", "how"), CELLS, ids=[f"{kind}-{how}" for kind, how in CELLS])
async def test_a_damaged_file_is_never_silent(shop: Shop, kind: str, how: str) -> None:
    expected = TABLE[kind][DAMAGES.index(how)]
    name = chosen(shop, kind)
    shutil.rmtree(shop.live, ignore_errors=True)
    copy(shop.image, shop.live)
    damage(shop, name, how)
    if (kind, how) not in UNSEEN:
        assert bool(await found_by_fsck(shop.live)) == (expected in "SRD")
    with capture_logs() as logs:
        found = await read_everything(shop.live, shop.truth)
    assert found.wrong == []
    match expected:
        case "S":
            where = name if how in ("flip", "cut") else name.rpartition("/")[0]
            assert where.removesuffix("-wal") in found.refused, found
        case "R":
            assert found.refused == "", found
            assert found.errors, "the damage was not noticed"
            journal = name.split("/")[3] if "#spool" in name else "-"
            known = (Path(name).name, Path(name).stem.removeprefix("root-"), f"shop/{journal}", "restore the fragment")
            assert any(each in said(found) for each in known), found
        case "r":
            assert found.refused == "", found
        case _:
            assert (found.refused, found.errors) == ("", {})
    if expected == "D":
        assert Path(name).name in str(logs)


def test_each_file_has_a_kind_and_each_kind_a_file(shop: Shop) -> None:
    found = set(shop.files())
    assert found <= {kind.name for kind in FILES}
    assert found == set(TABLE)
    assert set(TABLE) | set(ELSEWHERE) == {kind.name for kind in FILES}
    assert [path for path in ELSEWHERE.values() if not Path(path).exists()] == []
