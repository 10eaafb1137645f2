"""What a task of an import refuses, without Spark; the rest is in slow_tree_import.py."""

import pyarrow as pa
import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.metarange import location_of
from penstock.lake.records.sink_batch import SinkPlace
from penstock.spark.tables.trees.tree_import import _build


@pytest.mark.parametrize(
    ("store", "own"),
    [("file:///lake/objects", "local://shop/"), ("s3://bucket/lake?region=eu-central-1", "s3://bucket/lake/shop/")],
)
def test_the_repositorys_own_folder_is_no_source(store: str, own: str) -> None:
    addresses = [f"{own[:-1]}ping/data/one", f"{own}data/00000001/two"]
    listing = pa.record_batch(
        {
            "path": pa.array(["one", "two"]),
            "address": pa.array(addresses),
            "size": pa.array([1, 2]),
            "etag": pa.array(["e1", "e2"]),
            "mtime_ns": pa.array([0, 0]),
        }
    )
    place = SinkPlace(store, "shop/", "data/00000003/")
    with pytest.raises(InvalidArgument, match=f"'{addresses[1]}' lies in the repository's own folder {own}"):
        list(_build(iter([listing]), "raw/", place, location_of(place.link_epoch, "spark-1")))
