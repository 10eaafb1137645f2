"""A branch takes and gives tables: pandas, Polars and Arrow, files and folders of files."""

from collections.abc import Iterator
from typing import Any

import fsspec
import pandas
import polars
import pyarrow as pa
import pyarrow.dataset
import pytest
from tests.lake.rest.servers import KEY, SECRET, LakeProcess

from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.lake.client.lake_blocking import Branch, Lake
from penstock.lake.client.lake_fsspec import LakeFileSystem
from penstock.lake.client.lake_place import LakePlace
from penstock.lake.client.lake_repository import AsyncLake

ROWS = [{"sku": "kettle", "n": 2}, {"sku": "cup", "n": 6}]
TABLES = [pandas.DataFrame(ROWS), polars.DataFrame(ROWS), pa.Table.from_pylist(ROWS)]


@pytest.fixture(scope="module")
def place(lake_process: LakeProcess) -> LakePlace:
    return LakePlace(lake_process.url, KEY, SECRET)


@pytest.fixture(scope="module")
def main(place: LakePlace) -> Iterator[Branch]:
    lake = Lake(place)
    lake.repository("tables").create()
    yield lake.repository("tables").branch("main")
    lake.close()


@pytest.mark.parametrize("end", [".parquet", ".arrow", ".feather", ".csv", ".jsonl"])
@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{type(table).__module__.partition('.')[0]}")
def test_a_table_becomes_a_file_of_the_format_of_its_name(main: Branch, table: Any, end: str) -> None:
    main[f"one/prices{end}"] = table
    assert main.to_arrow(f"one/prices{end}").to_pylist() == ROWS
    assert main.to_polars(f"one/prices{end}", columns=["n"]).to_dicts() == [{"n": 2}, {"n": 6}]
    assert main.to_pandas(f"one/prices{end}")["sku"].tolist() == ["kettle", "cup"]


def test_a_folder_of_files_is_one_table_with_its_partitions(main: Branch, place: LakePlace) -> None:
    main["orders/_SUCCESS"] = b""
    main["orders/day=1/a.parquet"] = polars.DataFrame(ROWS)
    main["orders/day=2/b.parquet"] = polars.DataFrame(ROWS)
    found = main.dataset("orders")
    assert found.to_table(columns=["n", "day"], filter=pa.dataset.field("day") == 2).to_pylist() == [
        {"n": 2, "day": 2}, {"n": 6, "day": 2},
    ]  # fmt: skip
    assert polars.scan_pyarrow_dataset(found).select(polars.col("n").sum()).collect().item() == 16
    assert main.to_arrow("orders").num_rows == 4
    files = LakeFileSystem(place=place, skip_instance_cache=True)
    pa.dataset.write_dataset(
        main.to_arrow("orders"), "tables@main/again", filesystem=files, format="parquet", partitioning=["day"]
    )
    assert main.to_polars("again").height == 4


def test_what_is_no_table_is_refused(main: Branch) -> None:
    main["text"] = b"text"
    main["broken.parquet"] = b"text"
    with pytest.raises(NotFound, match="nothing/here"):
        main.to_arrow("nothing/here.parquet")
    with pytest.raises(InvalidArgument, match="ends in one of"):
        main.to_arrow("text")
    with pytest.raises(InvalidArgument, match="is no table"):
        main.to_arrow("broken.parquet")
    with pytest.raises(InvalidArgument, match="ends in one of"):
        main["prices"] = polars.DataFrame(ROWS)
    main["prices.parquet"] = polars.DataFrame(ROWS)
    with pytest.raises(InvalidArgument, match="has no column 'price'; it has sku, n"):
        main.to_arrow("prices.parquet", columns=["price"])


async def test_the_same_for_asyncio(place: LakePlace) -> None:
    async with AsyncLake(place) as lake:
        shop = lake.repository("tables-async")
        await shop.create()
        branch = shop.branch("main")
        await branch.put("prices.parquet", polars.DataFrame(ROWS))
        assert (await branch.to_polars("prices.parquet")).to_dicts() == ROWS
        assert (repr(lake), repr(shop), repr(branch)) == (
            f"Lake({place.url})", "Repository(lake://tables-async)", "Branch(lake://tables-async@main)",
        )  # fmt: skip


def test_pandas_finds_the_file_system_by_its_scheme(
    main: Branch, place: LakePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"endpoint": place.url, "access_key_id": KEY, "secret_access_key": SECRET}
    frame = pandas.DataFrame(ROWS)
    frame.to_parquet("lake://tables@main/by-scheme.parquet", storage_options=options)
    assert pandas.read_parquet("lake://tables@main/by-scheme.parquet", storage_options=options).equals(frame)
    with fsspec.open("lake://tables@main/by-scheme.parquet", **options) as file:
        assert polars.read_parquet(file).to_dicts() == ROWS
    main.commit("a table")
    assert repr(main.head()) == f"Commit({main.head().id[:12]} 'a table')"
    assert "<th>message</th><td>a table</td>" in main.head()._repr_html_()
