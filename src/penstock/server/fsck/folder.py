"""The files of a data folder, each looked at by the rules of its owner. Design: integrity.md, `penstock fsck`.

It needs no server and takes no lock. It opens files to read only, so a folder may be in use; then content that was
written a moment ago may look unfinished.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Final

from penstock.journals.broker.spools.spool_file import SpoolFile
from penstock.journals.broker.spools.state_log import StateLog
from penstock.journals.core.spool import SpoolState
from penstock.journals.records.fragment import CompressionCodec, Fragment
from penstock.journals.storage.content_check import FragmentContentCheck
from penstock.kernel.codec import Codec
from penstock.kernel.errors import DataDamaged, DataMissing, PenstockError, WalCorrupt
from penstock.kernel.formats import CREDENTIALS, NODE_OWNER, NODE_STATE, SEEN_KEYSPACE, FileKind
from penstock.keyspace.shell.embedded.confirmed import check_store
from penstock.plumbing.files.data_folder import check_folder
from penstock.plumbing.files.sealed import read_sealed
from penstock.plumbing.files.sums import is_whole
from penstock.plumbing.files.versions import kind_of
from penstock.plumbing.files.witness import FILE_BYTES as WITNESS_BYTES
from penstock.plumbing.files.witness import DiskWitness
from penstock.plumbing.ports.ports import system_ports
from penstock.plumbing.wal import StateFile
from penstock.plumbing.wal.recovery import survey
from penstock.quorum.node.snapshots import check_snapshot
from penstock.quorum.records.state import NodeState
from penstock.server.fsck.report import FsckReport

__all__ = ["look_into_folder"]

CHUNK_BYTES: Final = 1 << 20
_SPOOL_STATE = Codec[SpoolState](SpoolState)
_CONFIRMED = Struct("<Q")
_NODE_STATE = Codec[NodeState](NodeState)
_PORTS = system_ports()


def look_into_folder(folder: Path, report: FsckReport, *, deep: bool) -> None:
    """Look at every file below the folder. Blocks."""
    with _noting(report, "penstock.json", "data folder"):
        check_folder(folder)
    checks = _CHECKS | _DEEP if deep else _CHECKS
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = str(path.relative_to(folder))
        kind = kind_of(name)
        if kind is None:
            report.unknown.append(name)
            continue
        report.seen[kind.name] += 1
        if kind.name in checks:
            with _noting(report, name, kind.name):
                checks[kind.name](path, kind)
    for shard in sorted(folder.glob("*/shards/*")):
        with _noting(report, str(shard.relative_to(folder)), "WAL segment"):
            _check_shard(shard)
    for spool in sorted(folder.glob("*/spools/**/#spool")):
        with _noting(report, str(spool.relative_to(folder)), "Spool state"):
            _check_spool(spool)
    with _noting(report, "keyspace", "KeySpace"):
        if (folder / "keyspace").is_dir():
            check_store(folder / "keyspace/store.sqlite")
    if (folder / "objects/_penstock/lake").is_dir() and not (folder / CREDENTIALS.where).exists():
        report.add(CREDENTIALS.where, CREDENTIALS.name, DataMissing("it is missing, and the lake has data"))


@contextmanager
def _noting(report: FsckReport, where: str, kind: str) -> Iterator[None]:
    try:
        yield
    except (PenstockError, OSError, ValueError) as error:
        report.add(where, kind, error)


def _check_sealed(path: Path, kind: FileKind) -> None:
    read_sealed(kind, path)


def _check_state_file(path: Path, kind: FileKind) -> None:
    StateFile(path, kind=kind).load()


def _check_snapshot(path: Path, _: FileKind) -> None:
    check_snapshot(path.read_bytes(), path)


def _check_sums(path: Path, _: FileKind) -> None:
    if not is_whole(path.read_bytes()):
        raise DataDamaged("these sums are damaged", next_step="nothing: the next read of the object makes them again")


def _check_witness(path: Path, _: FileKind) -> None:
    if path.stat().st_size != WITNESS_BYTES:
        raise DataDamaged(f"it has {path.stat().st_size} bytes, not {WITNESS_BYTES}")


def _check_finished(path: Path, _: FileKind) -> None:
    fragment = Fragment.parse_name("", path.name)
    file = SpoolFile.recover(_PORTS.disk, path, fragment.begin, fragment.length, fragment.sum)
    if file is None:
        raise DataDamaged("its content is not the one that its name says")
    file.release()


def _check_size(path: Path, _: FileKind) -> None:
    fragment = Fragment.parse_name("", path.name)
    size = path.stat().st_size
    if fragment.codec is CompressionCodec.NONE and size != fragment.length:
        raise DataDamaged(f"it has {size} bytes, and its name says {fragment.length}")


def _check_content(path: Path, _: FileKind) -> None:
    check = FragmentContentCheck(Fragment.parse_name("", path.name))
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            check.add(memoryview(chunk))
    check.finish()


_CHECKS: Final[dict[str, Callable[[Path, FileKind], None]]] = {
    CREDENTIALS.name: _check_sealed,
    SEEN_KEYSPACE.name: _check_sealed,
    NODE_OWNER.name: _check_state_file,
    NODE_STATE.name: _check_state_file,
    "snapshot": _check_snapshot,
    "witness": _check_witness,
    "sums of an object": _check_sums,
    "finished fragment in a Spool": _check_finished,
    "stored fragment": _check_size,
}
_DEEP: Final[dict[str, Callable[[Path, FileKind], None]]] = {"stored fragment": _check_content}


def _check_shard(shard: Path) -> None:
    """Check that the log reaches its witness, and that its registers and their snapshot exist."""
    if not (shard / "log").is_dir():
        return
    found = survey(_PORTS.disk, shard / "log")
    last = found.tail.last_lsn if found.tail is not None else 0
    payload = DiskWitness(_PORTS.disk, shard / "log.witness").read()
    confirmed = _CONFIRMED.unpack(payload)[0] if payload is not None else 0
    if last < confirmed:
        raise WalCorrupt(f"the log ends at lsn {last}, and had come to lsn {confirmed}")
    for name in ("state", "../../node"):
        if last and not (shard / name).exists():
            raise DataMissing(f"{Path(name).name} is missing, though the log has records")

    data = StateFile(shard / "state", kind=NODE_STATE).load() if last else None
    snapshot = _NODE_STATE.decode(data).snapshot.head if data is not None else None
    if snapshot is not None and snapshot.offset:
        path = shard / f"snapshots/{snapshot.epoch:010}-{snapshot.offset:020}.snapshot"
        if not path.exists():
            raise DataMissing(f"snapshots/{path.name} is missing, which the registers name")


def _check_spool(spool: Path) -> None:
    """Check that a Spool has the content that its last state names."""
    log = StateLog(_PORTS.disk, spool / "state", is_synced=False, boot=_PORTS.clock.boot())
    value = log.load()
    if log.problem:
        raise DataDamaged(log.problem)
    if value is None:
        if any(spool.glob("open-*")):
            raise DataMissing("there is content, and no state")
        return
    for point in _SPOOL_STATE.decode(value).points:
        if not point.is_empty and not _has(spool, point.begin, point.end, point.sum):
            raise DataDamaged(f"the content [{point.begin}, {point.end}) is not the one that the state names")


def _has(spool: Path, begin: int, end: int, sum_: bytes) -> bool:
    names = [*spool.glob(f"open-{begin:016x}-*"), *spool.glob(f"final/**/{begin:016x}-*")]
    for path in names:
        file = SpoolFile.recover(_PORTS.disk, path, Fragment("", begin).begin, end - begin, sum_)  # type: ignore[arg-type]
        if file is not None:
            file.release()
            return True
    return False
