"""The lake as a file system of fsspec, and with the programs which use it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from tests.lake.rest.servers import KEY, SECRET, LakeProcess

import penstock
from penstock.lake.client.lake_fsspec import LakeFileSystem

ROWS = {"sku": ["kettle", "pan"], "price": [39.9, 12.5]}


@pytest.fixture
def files(lake_process: LakeProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("PENSTOCK_LAKE_LISTEN", lake_process.url.removeprefix("http://"))
    monkeypatch.setenv("PENSTOCK_LAKE_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("PENSTOCK_LAKE_SECRET_ACCESS_KEY", SECRET)
    LakeFileSystem.clear_instance_cache()
    with penstock.connect() as stock:
        stock.lake("shop").create(exists_ok=True)
        branch = stock.lake("shop").branch("main")
        branch.remove(branch)
    yield fsspec.filesystem("lake")
    LakeFileSystem.clear_instance_cache()


def test_files_are_written_found_moved_and_removed(files: Any, tmp_path: Path) -> None:
    base = "lake://shop@main"
    with files.open(f"{base}/a/one.txt", "wb") as file:
        file.write(b"0123456789")
    files.pipe(f"{base}/a/b/two.txt", b"two")
    (tmp_path / "three").write_bytes(b"three")
    files.put(str(tmp_path / "three"), f"{base}/three")
    assert files.ls(f"{base}/", detail=False) == ["shop@main/a", "shop@main/three"]
    assert files.ls(f"{base}/a", detail=False) == ["shop@main/a/b", "shop@main/a/one.txt"]
    assert files.find(f"{base}/a") == ["shop@main/a/b/two.txt", "shop@main/a/one.txt"]
    assert files.glob(f"{base}/a/*.txt") == ["shop@main/a/one.txt"]
    assert files.info(f"{base}/a/one.txt")["size"] == 10
    assert (files.isdir(f"{base}/a"), files.isfile(f"{base}/a"), files.exists(f"{base}/b")) == (True, False, False)
    assert files.cat_file(f"{base}/a/one.txt", 2, 4) == b"23"
    assert files.cat_file(f"{base}/a/one.txt", -2) == b"89"
    with files.open(f"{base}/a/one.txt", "rb") as file:
        file.seek(7)
        assert file.read() == b"789"
    files.mv(f"{base}/a/one.txt", f"{base}/moved")
    assert files.cat(f"{base}/moved") == b"0123456789"
    assert not files.exists(f"{base}/a/one.txt")
    files.rm(f"{base}/a", recursive=True)
    assert files.find(base) == ["shop@main/moved", "shop@main/three"]
    with pytest.raises(FileNotFoundError):
        files.open(f"{base}/absent")
    with pytest.raises(FileExistsError), files.open(f"{base}/moved", "xb") as file:
        file.write(b"again")


def write_then_fail(files: Any) -> None:
    with files.open("lake://shop@main/y", "wb") as file:
        file.write(b"y")
    raise RuntimeError


def test_files_of_a_transaction_come_together_or_not_at_all(files: Any) -> None:
    with files.transaction:
        with files.open("lake://shop@main/x", "wb") as file:
            file.write(b"x")
        assert not files.exists("lake://shop@main/x")
    assert files.cat("lake://shop@main/x") == b"x"
    with pytest.raises(RuntimeError), files.transaction:
        write_then_fail(files)
    assert not files.exists("lake://shop@main/y")


def test_pandas_polars_and_pyarrow_read_and_write(files: Any) -> None:
    pd.DataFrame(ROWS).to_parquet("lake://shop@main/t/pandas.parquet")
    assert pd.read_parquet("lake://shop@main/t/pandas.parquet").to_dict("list") == ROWS
    pd.DataFrame(ROWS).to_csv("lake://shop@main/t.csv", index=False)
    with fsspec.open("lake://shop@main/t.csv") as file:
        assert pl.read_csv(file).to_dict(as_series=False) == ROWS
    with fsspec.open("lake://shop@main/t/polars.parquet", "wb") as file:
        pl.DataFrame(ROWS).write_parquet(file)
    table = pq.read_table("shop@main/t", filesystem=files)  # both files, as one table
    assert table.num_rows == 4
    pq.write_table(table, "shop@main/arrow.parquet", filesystem=files)
    with fsspec.open("lake://shop@main/arrow.parquet") as file:
        assert pl.read_parquet(file).height == 4
