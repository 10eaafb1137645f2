"""Tables in the lake: a ref gives them as Arrow, Polars or pandas, one file or all files of a folder.

main["prices.parquet"] = dataframe                  # of pandas, Polars or PyArrow: the name's end says the format
main.to_polars("prices.parquet")
main.to_arrow("orders", columns=["sku"])            # a folder of Parquet files, with its partitions
main.dataset("orders")                              # a PyArrow dataset, which reads what a query needs
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.kernel.extras import extra
from penstock.lake.client.lake_place import LakePlace
from penstock.plumbing.files.tables import FORMATS, format_of, to_pandas, to_polars

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import pyarrow.dataset

__all__ = ["TableReads"]


class TableReads:
    """The tables of a ref."""

    @property
    def url(self) -> str:
        """The ref as a lake URL, like lake://shop@main."""
        raise NotImplementedError

    def _place(self) -> LakePlace:
        raise NotImplementedError

    async def dataset(self, path: str) -> "pyarrow.dataset.Dataset":
        """Return a file, or all Parquet files of a folder, as a PyArrow dataset: a query reads only the parts it needs.

        Folders named `column=value` are partitions. `NotFound` if the path has neither.
        """
        return await asyncio.to_thread(_dataset, self._place(), f"{self.url.removeprefix('lake://')}/{path}", path)

    async def to_arrow(self, path: str, *, columns: Sequence[str] | None = None) -> "pyarrow.Table":
        """Return a file, or all Parquet files of a folder, as an Arrow table."""
        found = await self.dataset(path)
        missing = [name for name in columns or () if name not in found.schema.names]
        if missing:
            raise InvalidArgument(f"{path!r} has no column {missing[0]!r}; it has {', '.join(found.schema.names)}")
        return await asyncio.to_thread(found.to_table, columns=None if columns is None else list(columns))

    async def to_polars(self, path: str, *, columns: Sequence[str] | None = None) -> "polars.DataFrame":
        """Return a file, or all Parquet files of a folder, as a DataFrame of Polars."""
        return to_polars(await self.to_arrow(path, columns=columns))

    async def to_pandas(self, path: str, *, columns: Sequence[str] | None = None) -> "pandas.DataFrame":
        """Return a file, or all Parquet files of a folder, as a DataFrame of pandas."""
        return to_pandas(await self.to_arrow(path, columns=columns))


def _dataset(place: LakePlace, name: str, path: str) -> "pyarrow.dataset.Dataset":
    with extra("tables", "a table of the lake"):
        import pyarrow as pa
        import pyarrow.dataset

        from penstock.lake.client.lake_fsspec import LakeFileSystem
    files = LakeFileSystem(place=place, skip_instance_cache=True)
    kind = format_of(path)
    if kind is None and files.isfile(name):
        raise InvalidArgument(f"{path!r}: expected a name that ends in one of {', '.join(FORMATS)}, or a folder")
    try:
        return pa.dataset.dataset(name, filesystem=files, format=kind or "parquet", partitioning="hive")
    except FileNotFoundError as error:
        raise NotFound(f"there is nothing under {path!r}: {error}", kind="object") from None
    except pa.ArrowException as error:
        raise InvalidArgument(f"{path!r} is no table: {error}") from None
