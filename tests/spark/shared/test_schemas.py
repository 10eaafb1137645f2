"""Schemas where the user gives none: what the first messages say, in types which Spark has."""

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.journals.broker.cluster import running_cluster
from tests.spark.histories import make

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.uuid import ACK_TXN, Uuid, producer_id
from penstock.spark.options import source_options
from penstock.spark.shared.content import Access
from penstock.spark.shared.schemas import _of_batches, _of_lines, _plain, find_schema

ONE = Uuid(producer_id(7), 1 << 60, ACK_TXN)  # type: ignore[arg-type]


def test_lines_without_acks_and_without_meta() -> None:
    lines = JsonLines()
    data = lines.acknowledgement(ONE) + lines.encode({"n": 1, "text": "x"}, None) + b'{"more":[1.5]}\n{"cut'
    found = _of_lines("j", data)
    assert found == pa.schema([("n", pa.int64()), ("text", pa.string()), ("more", pa.list_(pa.float64()))])
    assert _of_lines("j", lines.acknowledgement(ONE)) is None
    with pytest.raises(InvalidArgument, match="declare it"):
        _of_lines("j", b'{"n":1}\n{"n":"x"}\n')


def test_the_first_batch_which_has_a_body() -> None:
    schema = pa.schema([("n", pa.int8())])
    framing = ArrowBatches(schema)
    assert _of_batches(framing.acknowledgement(ONE)) is None
    data = framing.acknowledgement(ONE) + framing.encode(pa.record_batch({"n": [1]}, schema=schema), ONE)
    assert _of_batches(data) == schema


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (pa.null(), pa.string()),
        (pa.timestamp("ns"), pa.timestamp("us", "UTC")),
        (pa.large_string(), pa.string()),
        (pa.binary(4), pa.binary()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.large_list(pa.uint8()), pa.list_(pa.int64())),
        (pa.struct([("a", pa.null())]), pa.struct([("a", pa.string())])),
        (pa.date32(), pa.date32()),
    ],
)
def test_types_which_spark_has(kind: Any, plain: Any) -> None:
    assert _plain(kind) == plain


def look(addresses: list[str], given: dict[str, str]) -> str:
    options = source_options({"brokers": ",".join(addresses), **given}, is_stream=False)
    with Access(options.connection) as access:
        infos = access.ask(lambda: access.journals.list(options.selector))
        return find_schema(access, options, infos).simpleString()


def look_all(addresses: list[str]) -> None:
    with BlockingJournals(addresses) as journals:
        make(journals, "schemas/a")  # has no messages yet
        for name, content_type in (("schemas/b", "application/x-ndjson"), ("other/c", "text/csv")):
            make(journals, name, labels={"content-type": content_type})
            journals.append(name, b'{"n":1,"text":"x"}\n', timeout=60.0)
    assert look(addresses, {"path": "schemas/"}) == "struct<n:bigint,text:string>"
    assert look(addresses, {"path": "schemas/b", "columns": "text"}) == "struct<text:string>"
    assert look(addresses, {"path": "schemas/a", "framing": "raw", "metadata": "true"}) == (
        "struct<value:binary,_journal:string,_offset:bigint,_uuid:string,_published:timestamp>"
    )
    with pytest.raises(InvalidArgument, match="there is no sum; there are n, text"):
        look(addresses, {"path": "schemas/b", "columns": "sum"})
    with pytest.raises(InvalidArgument, match="csv has no column names"):
        look(addresses, {"path": "other/c"})
    with pytest.raises(NotFound, match="has messages yet"):
        look(addresses, {"path": "schemas/a"})
    with pytest.raises(NotFound, match="no journal fits"):
        look(addresses, {"path": "nothing/"})


async def test_schemas_are_found(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await asyncio.to_thread(look_all, cluster.addresses)
