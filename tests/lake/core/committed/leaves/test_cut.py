"""Cuts are functions of keys, so any part of a tree may be cut by itself."""

import polars as pl
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.committed.shelf import entry

from penstock.lake.core.committed.entry import entries_from
from penstock.lake.core.committed.leaves.cut import LEAF_CUT, CutSpan, LeafCut, cut_spans, is_node_key
from penstock.lake.core.committed.range import table_of

SMALL = LeafCut(rows_mean=3, rows_min=4, rows_max=9, bytes_max=700, node_rows_mean=25)


def table(count: int, address: str = "") -> pa.Table:
    return table_of(entries_from((f"p{number:05}", entry(number % 3, address)) for number in range(count)))


def test_leaves_have_the_lengths_that_the_rule_allows() -> None:
    rows = table(20_000)
    (span,) = cut_spans(rows, [20_000])
    lengths = [end - start for start, end in zip([0, *span.ends], span.ends, strict=False)]
    nodes = is_node_key(pl.Series([f"p{end - 1:05}" for end in span.ends]))

    assert sum(lengths) == 20_000
    assert all(128 <= length <= 1024 for length, is_node in zip(lengths[:-1], nodes, strict=False) if not is_node)
    assert 200 < sum(lengths) / len(lengths) < 320


def test_bytes_end_a_leaf_too() -> None:
    (span,) = cut_spans(table(40, "d" * 400), [40], SMALL)

    assert max(end - start for start, end in zip([0, *span.ends], span.ends, strict=False)) == 2


def test_an_end_without_a_rule_is_open() -> None:
    rows = table(60)
    (whole,) = cut_spans(rows, [60], SMALL)

    assert cut_spans(rows, [whole.ends[0]], SMALL) == [CutSpan(whole.ends[:1], True)]
    assert cut_spans(rows.slice(0, 3), [3], SMALL) == [CutSpan([3], False)]
    assert cut_spans(rows.slice(0, 0), [0], SMALL) == [CutSpan([], False)]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 150), st.integers(0, 10))
def test_after_a_cut_nothing_is_remembered(count: int, which: int) -> None:
    rows = table(count)
    (whole,) = cut_spans(rows, [count], SMALL)
    at = ([0, *whole.ends])[min(which, len(whole.ends))]
    first, second = cut_spans(rows, [at, count], SMALL)

    assert first.ends + second.ends == whole.ends


def test_the_format_is_what_it_is() -> None:
    """Changing these numbers makes every stored tree another one."""
    assert LeafCut(128, 128, 1024, 4 << 20, 65_536) == LEAF_CUT
