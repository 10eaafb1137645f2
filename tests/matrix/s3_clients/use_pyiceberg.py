"""PyIceberg: tables of a local catalog with their files in the lake, by both of its file systems."""

import tempfile

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType
from tests.matrix.s3_clients.program import ENDPOINT, KEY, REGION, ROOT, SECRET, main

TABLE = pa.table({"id": pa.array(range(1000), pa.int64()), "day": [f"d{number % 4}" for number in range(1000)]})


def use(io: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        catalog = SqlCatalog(
            "local",
            **{
                "uri": f"sqlite:///{folder}/catalog.db",
                "warehouse": f"s3://{ROOT}/iceberg",
                "s3.endpoint": ENDPOINT,
                "s3.access-key-id": KEY,
                "s3.secret-access-key": SECRET,
                "s3.region": REGION,
                "py-io-impl": io,
            },
        )
        name = f"shop.t{io[-12:].lower().replace('.', '')}"
        catalog.create_namespace("shop")
        table = catalog.create_table(name, schema=TABLE.schema)
        table.append(TABLE)
        table.append(TABLE.slice(0, 10))
        assert table.scan().to_arrow().num_rows == 1010
        table.delete("id < 5")
        assert table.scan(row_filter="day = 'd1'").to_arrow().num_rows == 251
        with table.update_schema() as update:
            update.add_column("note", StringType())
        table.overwrite(TABLE.slice(0, 3).append_column("note", pa.array(["a", "b", "c"])))
        assert table.scan().to_arrow().num_rows == 3
        assert len(table.history()) >= 4
        first = table.history()[0].snapshot_id
        assert table.scan(snapshot_id=first).to_arrow().num_rows == 1000
        catalog.purge_table(name)


def by_arrow() -> None:
    """append, delete, evolve, overwrite, time travel, purge: by PyArrow"""
    use("pyiceberg.io.pyarrow.PyArrowFileIO")


def by_fsspec() -> None:
    """the same by s3fs"""
    use("pyiceberg.io.fsspec.FsspecFileIO")


main(by_arrow, by_fsspec)
