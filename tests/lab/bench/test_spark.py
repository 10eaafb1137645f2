"""What `penstock bench spark` measures with: the same bytes on both sides. The benchmark itself needs a Spark."""

import pytest

from penstock.kernel.ids import Offset
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.row_decoder import ArrowRows
from penstock.messages.rows_reader import Rows, RowsReader
from penstock_lab.bench.messages import SCHEMA, Transfer, _batches, _journal, _transfers
from penstock_lab.bench.spark import _cut_lines
from penstock_lab.bench.spark_floor import ReadyBatches


def test_files_have_the_journals_bytes_in_whole_lines() -> None:
    lines = _journal(JsonLines(Transfer), _transfers(300))
    parts = _cut_lines(lines, 4)
    assert b"".join(parts) == lines
    assert [part[-1:] for part in parts] == [b"\n"] * 4
    assert max(map(len, parts)) < 2 * min(map(len, parts))


def test_turns_of_one_batch_are_transactions_which_end_soon() -> None:
    """Batches are large: transactions of some hundred would span the whole journal, and be read twice."""
    journal = _journal(ArrowBatches(SCHEMA), _batches(1_000, 10), turn_messages=1)
    reader = RowsReader("bench/arrow", ArrowRows(SCHEMA))
    reader.feed(Offset(0), journal[: len(journal) // 2])
    half = 0
    while (found := reader.next()) is not None:
        assert isinstance(found, Rows)
        half += found.table.num_rows
    assert 100 < half < 500


@pytest.mark.parametrize("rows", [20_000, 2_000_000])
def test_ready_batches_are_as_many_rows_as_asked_for(rows: int) -> None:
    source = ReadyBatches({"rows": str(rows)})
    reader = source.reader(None)  # type: ignore[arg-type]
    parts = list(reader.partitions())
    batches = list(reader.read(parts[0]))
    assert batches[0].schema == SCHEMA
    assert len(parts) * sum(batch.num_rows for batch in batches) == rows
