"""The lake as a dict of files, as experience.md prints it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lake.rest.servers import KEY, SECRET, LakeProcess

from penstock.kernel.errors import MergeConflict, NotFound
from penstock.lake.client.lake_blocking import Lake, Repository
from penstock.lake.client.lake_place import LakePlace


@pytest.fixture(scope="module")
def lake(lake_process: LakeProcess) -> Iterator[Lake]:
    lake = Lake(LakePlace(lake_process.url, KEY, SECRET))
    yield lake
    lake.close()


def made(lake: Lake, name: str) -> Repository:
    lake.repository(name).create()
    return lake.repository(name)


def test_a_branch_is_a_dict_of_files(lake: Lake, tmp_path: Path) -> None:
    main = made(lake, "dict").branch("main")
    (tmp_path / "prices.csv").write_bytes(b"kettle,39.90\n")
    main["prices/2026.csv"] = tmp_path / "prices.csv"
    main["a"] = b"1"
    with (tmp_path / "prices.csv").open("rb") as file:
        main["copy"] = file
    assert dict(main) == {"a": b"1", "copy": b"kettle,39.90\n", "prices/2026.csv": b"kettle,39.90\n"}
    assert (list(main), len(main), "a" in main, "b" in main) == (["a", "copy", "prices/2026.csv"], 3, True, False)
    del main["a"]
    with pytest.raises(KeyError):
        main["a"]
    with pytest.raises(KeyError):
        del main["a"]
    main.update({"b": b"2"})
    assert main.pop("b") == b"2"
    assert main.commit("all").message == "all"
    assert b"".join(main.chunks("copy", 7)) == b"39.90\n"
    with pytest.raises(NotFound):  # of a branch, not of a path
        lake.repository("dict").branch("absent")["a"]


def test_transactions_branches_and_merges(lake: Lake) -> None:
    shop = made(lake, "moves")
    main = shop.branch("main")
    with main.transaction("new prices") as changes:
        changes["prices"] = b"1"
    assert changes.committed == main.head()
    with pytest.raises(TypeError), main.transaction("never") as changes:
        changes.update({"prices": b"2", "wrong": object()})  # type: ignore[dict-item]
    assert main["prices"] == b"1"
    work = shop.branch("experiment", source="main")
    work["prices"] = b"3"
    work.commit("experiment")
    assert [each.path for each in main.diff("experiment")] == ["prices"]
    shop.merge("experiment", into="main")
    assert main["prices"] == b"3"
    with main.transaction("mine") as changes:
        changes["prices"] = b"4"
    work["prices"] = b"5"
    work.commit("theirs")
    with pytest.raises(MergeConflict) as refused:
        shop.merge("experiment", into="main")
    assert refused.value.details["paths"] == ["prices"]
    assert shop.tag("v1", "main")["prices"] == b"4"
    assert sorted(shop.branches()) == ["experiment", "main"]
    work.delete()
    assert lake.repository("moves").exists()
