"""s3fs, and pandas through it."""

import os
import tempfile
from typing import Any

import pandas as pd
import s3fs
from tests.matrix.s3_clients.program import ENDPOINT, KEY, ROOT, SECRET, main

fs: Any = s3fs.S3FileSystem(key=KEY, secret=SECRET, endpoint_url=ENDPOINT)
HERE = f"{ROOT}/s3fs"


def files() -> None:
    """open, read, write, seek, info, exists, touch"""
    with fs.open(f"{HERE}/a.txt", "wb") as file:
        file.write(b"hello world")
    with fs.open(f"{HERE}/a.txt", "rb") as file:
        file.seek(6)
        assert file.read() == b"world"
    assert fs.info(f"{HERE}/a.txt")["size"] == 11
    fs.touch(f"{HERE}/empty")
    assert fs.exists(f"{HERE}/empty")
    assert not fs.exists(f"{HERE}/none")
    assert fs.cat_ranges([f"{HERE}/a.txt"] * 2, [0, 6], [5, 11]) == [b"hello", b"world"]


def large() -> None:
    """large files in parts, appended to"""
    data = os.urandom(12 << 20)
    with fs.open(f"{HERE}/large", "wb", block_size=5 << 20) as file:
        file.write(data)
    with fs.open(f"{HERE}/large", "ab", block_size=5 << 20) as file:
        file.write(b"the end")
    assert fs.cat(f"{HERE}/large") == data + b"the end"


def trees() -> None:
    """ls, find, glob, du, cp, mv, rm -r, mkdir"""
    for name in ("t/1", "t/2", "t/deep/3"):
        fs.pipe(f"{HERE}/{name}", name.encode())
    fs.mkdirs(f"{HERE}/made", exist_ok=True)
    assert sorted(fs.ls(f"{HERE}/t", detail=False)) == [f"{HERE}/t/1", f"{HERE}/t/2", f"{HERE}/t/deep"]
    assert len(fs.find(f"{HERE}/t")) == 3
    assert fs.glob(f"{HERE}/t/*/3") == [f"{HERE}/t/deep/3"]
    assert fs.du(f"{HERE}/t") == sum(map(len, ("t/1", "t/2", "t/deep/3")))
    fs.cp(f"{HERE}/t/", f"{HERE}/copied/", recursive=True)
    fs.mv(f"{HERE}/copied/1", f"{HERE}/copied/moved")
    assert sorted(fs.find(f"{HERE}/copied")) == [f"{HERE}/copied/{each}" for each in ("2", "deep/3", "moved")]
    fs.rm(f"{HERE}/copied", recursive=True)
    assert fs.find(f"{HERE}/copied") == []


def folders() -> None:
    """put and get of local folders"""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("x", "y"):
            with open(f"{folder}/{name}", "w") as file:
                file.write(name)
        fs.put(f"{folder}/", f"{HERE}/local/", recursive=True)
        fs.get(f"{HERE}/local/", f"{folder}/back/", recursive=True)
        with open(f"{folder}/back/y") as file:
            assert file.read() == "y"


def tables() -> None:
    """pandas: CSV and Parquet"""
    options = {"key": KEY, "secret": SECRET, "endpoint_url": ENDPOINT}
    frame = pd.DataFrame({"id": range(100), "name": [f"n{number % 3}" for number in range(100)]})
    frame.to_csv(f"s3://{HERE}/t.csv", index=False, storage_options=options)
    assert pd.read_csv(f"s3://{HERE}/t.csv", storage_options=options).equals(frame)
    frame.to_parquet(f"s3://{HERE}/t.parquet", storage_options=options)
    assert len(pd.read_parquet(f"s3://{HERE}/t.parquet", storage_options=options)) == 100


def conditional() -> None:
    """writes of new files only"""
    fs.pipe_file(f"{HERE}/once", b"1", mode="create")
    try:
        fs.pipe_file(f"{HERE}/once", b"2", mode="create")
    except FileExistsError:
        return
    raise AssertionError("it was written a second time")


def links() -> None:
    """presigned URLs"""
    import urllib.request

    with urllib.request.urlopen(fs.sign(f"{HERE}/a.txt", expiration=60)) as answer:
        assert answer.read() == b"hello world"


main(files, large, trees, folders, tables, conditional, links)
