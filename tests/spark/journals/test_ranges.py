"""Ranges without Spark: however a journal is cut, and whatever states were lost, the rows are a plain reader's."""

import asyncio
import itertools
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.journals.broker.cluster import running_cluster
from tests.spark.histories import SCHEMA, History, arrow_value, json_value, make, read_plainly

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.framing import Framing as MessageFraming
from penstock.messages.framing.json_lines import JsonLines
from penstock.spark.journals.ranges import Range, RangeReader
from penstock.spark.options import Framing, source_options
from penstock.spark.shared.content import Access

FULL = pa.schema([*SCHEMA, ("_offset", pa.int64())])
KINDS: dict[Framing, tuple[MessageFraming, Any]] = {
    "json": (JsonLines(), json_value),
    "arrow": (ArrowBatches(SCHEMA), arrow_value),
}


def read(access: Access, part: Range, **given: str) -> list[tuple[int, int]]:
    brokers = ",".join(access.connection.brokers)
    options = source_options({"brokers": brokers, "path": part.journal, **given}, is_stream=False)
    reader = RangeReader(access, options, part, FULL, use_threads=False)
    return [
        (at, number)
        for batch in reader.batches()
        for at, number in zip(batch.column("_offset").to_pylist(), batch.column("n").to_pylist(), strict=True)
    ]


def cut_and_compare(addresses: list[str], store: str, framing: Framing, seed: int) -> None:
    rng = Random(seed)
    plain, value_of = KINDS[framing]
    connection = source_options({"brokers": ",".join(addresses), "path": "any"}, is_stream=False).connection
    with BlockingJournals(addresses) as journals, Access(connection) as access:
        name = make(journals, f"ranges/{framing}/{seed}")
        for append in History(seed, plain, value_of).appends(70):
            journals.append(name, append, timeout=60.0)
        found = read_plainly(journals, name, plain)
        expected = [(at, row["n"]) for at, value in found for row in (_rows(value))]
        end = journals.stat(name).write_head
        for url in (store, ""):  # with states in the store, and without any
            cuts = [0, *sorted(rng.randrange(1, end) for _ in range(5)), end]
            rows: list[tuple[int, int]] = []
            for begin, upto in itertools.pairwise(cuts):
                part = Range(name, begin, upto, framing, url, None)
                once = read(access, part)
                assert read(access, part) == once  # a second attempt reads the same
                rows += once
            assert rows == expected


def _rows(value: Any) -> list[dict[str, Any]]:
    return [value] if isinstance(value, dict) else list(value.to_pylist())


@pytest.mark.parametrize("framing", ["json", "arrow"])
async def test_any_cuts_give_the_rows_of_a_plain_reader(
    tmp_path: Path, framing: Framing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "penstock.spark.shared.content.CHUNK_BYTES", 400
    )  # so that one range, and one replay, are many chunks
    async with running_cluster(tmp_path, 1) as cluster:
        for seed in range(3):
            await asyncio.to_thread(cut_and_compare, cluster.addresses, cluster.config.default_store, framing, seed)
