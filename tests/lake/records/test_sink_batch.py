"""Lists of batches: named by what is in them."""

import pytest

from penstock.kernel.errors import InvalidArgument, ObjectStoreFailed
from penstock.lake.records.sink_batch import BatchFile, BatchTable, decode_list, encode_list, list_key, staged_address

TABLES = (BatchTable("orders/", (BatchFile("orders/a.parquet", "data/00000001/a", 3, "abc", 1),), replaces=True),)


def test_a_list_is_named_by_its_content() -> None:
    id_, data = encode_list(TABLES)
    assert encode_list(TABLES) == (id_, data)
    assert decode_list(id_, data) == TABLES
    assert list_key(id_) == f"scratch/sinks/{id_}"
    with pytest.raises(ObjectStoreFailed):
        decode_list(id_, data + b"x")
    with pytest.raises(InvalidArgument):
        list_key("../secrets")


def test_addresses_of_attempts() -> None:
    assert staged_address("data/00000003/", "5f3c", 12) == "data/00000003/5f3c-00012.parquet"
