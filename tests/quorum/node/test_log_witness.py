"""A log that was cut, shortened or removed is refused: its witness says how far it had come (L-7)."""

import shutil
from pathlib import Path

import pytest
from tests.quorum.node.test_storage import append, done, opened, txn

from penstock.kernel.errors import WalCorrupt
from penstock.kernel.ids import Lsn

COUNT = 40


async def filled(folder: Path) -> None:
    storage = await opened(folder)
    for number in range(1, COUNT + 1):
        await append(storage, number, txn(number))
    await storage.close()


def segment_of(folder: Path) -> Path:
    (segment,) = (folder / "log").glob("*.wal")
    return segment


async def refused(folder: Path) -> str:
    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(WalCorrupt) as caught:
        await opened(folder)
    after = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {**before, "LOCK": b""} == {**after, "LOCK": b""}
    return caught.value.message


@pytest.mark.parametrize("keep", [0.02, 0.5, 0.97])
async def test_a_log_that_was_cut_is_no_torn_tail(tmp_path: Path, keep: float) -> None:
    await filled(tmp_path / "n")
    segment = segment_of(tmp_path / "n")
    data = segment.read_bytes()
    end = len(data.rstrip(b"\0"))
    segment.write_bytes(data[: max(48, int(end * keep))])
    message = await refused(tmp_path / "n")
    assert f"had come to lsn {COUNT}" in message
    assert str(segment) in message


async def test_a_log_that_was_removed_is_not_an_empty_one(tmp_path: Path) -> None:
    await filled(tmp_path / "n")
    shutil.rmtree(tmp_path / "n/log")
    with pytest.raises(WalCorrupt, match=f"ends at lsn 0, and had come to lsn {COUNT}"):
        await opened(tmp_path / "n")


async def test_the_witness_is_exact_and_goes_back_before_a_truncation_does(tmp_path: Path) -> None:
    storage = await opened(tmp_path)
    for number in range(1, COUNT + 1):
        await append(storage, number, txn(number))
        assert storage._witness.read() == number.to_bytes(8, "little")
    await done(lambda ended: storage.truncate(Lsn(10), ended))
    assert storage._witness.read() == (10).to_bytes(8, "little")
    await append(storage, 11, txn(11))
    assert storage._witness.read() == (11).to_bytes(8, "little")
    await storage.close()
    storage = await opened(tmp_path)
    assert (await storage.load_entries())[1][-1] == txn(11)
    await storage.close()


async def test_a_log_without_a_witness_is_of_an_older_release(tmp_path: Path) -> None:
    await filled(tmp_path)
    (tmp_path / "log.witness").unlink()
    storage = await opened(tmp_path)
    assert len((await storage.load_entries())[1]) == COUNT
    await storage.close()
    assert (tmp_path / "log.witness").exists()


async def test_a_witness_that_lags_after_a_power_cut_refuses_nothing(tmp_path: Path) -> None:
    await filled(tmp_path)
    kept = (tmp_path / "log.witness").read_bytes()
    storage = await opened(tmp_path)
    await append(storage, COUNT + 1, txn(1), txn(2))
    await storage.close()
    (tmp_path / "log.witness").write_bytes(kept)
    storage = await opened(tmp_path)
    assert len((await storage.load_entries())[1]) == COUNT + 2
    await storage.close()
