import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.committed.shelf import SMALL, TREES, Tree, as_read, entry

from penstock.lake.core.committed.boundary import CHUNKING, Chunking, cut, is_boundary, key_hashes
from penstock.lake.core.committed.entry import entries_from
from penstock.lake.core.committed.range import table_of

MASK = (1 << 64) - 1


def slow_hash(key: str) -> int:
    """The hash of boundary.py's docstring, one byte string at a time."""
    data = key.encode()
    state = 0x9E3779B97F4A7C15 ^ (len(data) * 0xD6E8FEB86659FD93 & MASK)
    for at in range(0, len(data), 8):
        state = (state ^ int.from_bytes(data[at : at + 8], "little")) * 0xD6E8FEB86659FD93 & MASK
        state ^= state >> 32
    state = (state ^ (state >> 33)) * 0xFF51AFD7ED558CCD & MASK
    state = (state ^ (state >> 33)) * 0xC4CEB9FE1A85EC53 & MASK
    return state ^ (state >> 33)


@settings(deadline=None)
@given(st.lists(st.text(max_size=40)))
def test_hashes_are_those_of_the_docstring(keys: list[str]) -> None:
    assert key_hashes(pl.Series(keys, dtype=pl.String)).tolist() == [slow_hash(key) for key in keys]


def test_the_hash_is_part_of_the_format() -> None:
    keys = pl.Series(["", "a", "tables/events/dt=2026-11-15/part-00000.parquet"])

    assert key_hashes(keys).tolist() == [11286133854226296554, 5907073197808605232, 9368382376563193617]


def test_hashing_in_blocks_changes_nothing() -> None:
    keys = pl.select(pl.int_range(300_000).cast(pl.String)).to_series()

    hashes = key_hashes(keys)

    assert hashes[[0, 131_071, 131_072, 299_999]].tolist() == [
        slow_hash(str(n)) for n in (0, 131_071, 131_072, 299_999)
    ]
    assert len(np.unique(hashes)) == 300_000


def test_structured_keys_meet_the_mean() -> None:
    number = pl.int_range(1_000_000)
    keys = pl.select(pl.format("tables/events/dt={}/part-{}.parquet", number // 997, number)).to_series()

    found = int(is_boundary(keys, CHUNKING).sum())

    assert 195 < found < 294  # 244 are expected; three standard deviations


@settings(deadline=None, max_examples=40)
@given(TREES)
def test_a_segment_is_cut_the_same_whatever_stands_around_it(tree: Tree) -> None:
    entries = entries_from(tree.items())
    ends = cut(table_of(entries), SMALL)
    segment_ends = (np.flatnonzero(is_boundary(entries["path"], SMALL)) + 1).tolist()
    starts = [0, *segment_ends]
    alone = [
        start + end
        for start, stop in zip(starts, [*segment_ends, entries.height], strict=True)
        for end in cut(table_of(entries.slice(start, stop - start)), SMALL)
    ]

    assert ends == alone
    assert set(segment_ends) <= set(ends)


@settings(deadline=None, max_examples=40)
@given(TREES, st.sets(st.integers(0, 30)))
def test_looking_at_candidates_alone_cuts_the_same(tree: Tree, more: set[int]) -> None:
    entries = entries_from(tree.items())
    boundaries = np.flatnonzero(is_boundary(entries["path"], SMALL))
    candidates = np.union1d(boundaries, [row for row in more if row < entries.height]).astype(np.int64)

    assert cut(table_of(entries), SMALL, candidates=candidates) == cut(table_of(entries), SMALL)
    assert cut(as_read(table_of(entries)), SMALL, candidates=candidates) == cut(table_of(entries), SMALL)


def test_bounds_hold_even_if_no_key_is_a_boundary() -> None:
    paths = [f"{number:04}" for number in range(400)]
    never = [path for path in paths if not is_boundary(pl.Series([path]), Chunking(rows_mean=8))[0]]
    rows = entries_from((path, entry(1)) for path in never)
    wide = rows.with_columns(metadata=pl.lit("m" * 100))

    by_rows = cut(table_of(rows), Chunking(rows_mean=8, rows_max=50))
    by_bytes = cut(table_of(wide), Chunking(rows_mean=8, rows_max=1000, bytes_max=1400))

    assert by_rows == [*range(50, len(never), 50), len(never)]
    assert max(np.diff(by_bytes)) * (16 + 4 + 6 + 6 + 100) <= 1400 + 132
    assert by_bytes[-1] == len(never)


def test_nothing_has_no_ranges() -> None:
    assert cut(table_of(entries_from([]))) == []
