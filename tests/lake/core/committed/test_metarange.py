import msgspec
import pytest

from penstock.kernel.errors import InvalidArgument, ObjectStoreFailed
from penstock.lake.core.committed.metarange import (
    Location,
    MetaRange,
    MetaRangeId,
    Range,
    decode_metarange,
    encode_metarange,
    location_of,
    metarange_key,
    range_key,
)
from penstock.lake.core.committed.range import RangeId

HERE, THERE = location_of(1, "request-1-1"), location_of(2, "request-2-1")
RANGES = [
    Range(RangeId("a" * 64), "a", "c", 3, 30, HERE),
    Range(RangeId("b" * 64), "e", "g", 2, 20, HERE),
    Range(RangeId("c" * 64), "h", "h", 1, 10, THERE),
]
TREE = MetaRange.of_ranges(RANGES)


def test_a_metarange_is_read_back_as_it_was_written() -> None:
    read = decode_metarange(encode_metarange(TREE), TREE.id)

    assert [read[row] for row in range(len(read))] == RANGES
    assert read.count == 6
    assert read.locations == {"a" * 64: HERE, "b" * 64: HERE, "c" * 64: THERE}
    TREE.check()


def test_the_id_is_part_of_the_format() -> None:
    assert TREE.id == "1f68880257af289be3157d56ab8ae9e93cd68483ff768fa3c4df035ba48797b4"


def test_the_id_leaves_out_locations_and_nothing_else() -> None:
    first = RANGES[0]
    moved = MetaRange.of_ranges([msgspec.structs.replace(each, location=Location("elsewhere")) for each in RANGES])
    others = [
        msgspec.structs.replace(first, id=RangeId("d" * 64)),
        msgspec.structs.replace(first, min_key="b"),
        msgspec.structs.replace(first, max_key="d"),
        msgspec.structs.replace(first, count=4),
        msgspec.structs.replace(first, size=31),
    ]

    assert moved.id == TREE.id
    assert len({MetaRange.of_ranges([other, *RANGES[1:]]).id for other in others} | {TREE.id}) == 6


def test_an_empty_tree_has_an_id_too() -> None:
    empty = MetaRange.of_ranges([])

    assert decode_metarange(encode_metarange(empty), empty.id).count == 0
    assert empty.find("a") is None


def test_paths_are_found_in_the_range_which_may_hold_them() -> None:
    assert {path: TREE.find(path) for path in ["", "a", "b", "c", "d", "e", "g", "h", "i"]} == {
        "": None,
        "a": 0,
        "b": 0,
        "c": 0,
        "d": None,
        "e": 1,
        "g": 1,
        "h": 2,
        "i": None,
    }


def test_a_prefix_is_below_the_ranges_which_may_hold_it() -> None:
    assert {prefix: list(TREE.below(prefix)) for prefix in ["", "a", "b", "d", "f", "h", "i"]} == {
        "": [0, 1, 2],
        "a": [0],
        "b": [0],
        "d": [],
        "f": [1],
        "h": [2],
        "i": [],
    }


def test_a_file_with_another_tree_is_refused() -> None:
    with pytest.raises(ObjectStoreFailed, match="another tree"):
        decode_metarange(encode_metarange(TREE), MetaRangeId("0" * 64))


def test_ranges_out_of_order_are_a_defect() -> None:
    with pytest.raises(AssertionError):
        MetaRange.of_ranges([RANGES[1], RANGES[0]]).check()


def test_locations_name_the_link_epoch_and_the_attempt() -> None:
    assert location_of(7, "r-1") == "_penstock/00000007/r-1"
    assert range_key(HERE, "ab") == "_penstock/00000001/request-1-1/range-ab.parquet"
    assert metarange_key(HERE, "ab") == "_penstock/00000001/request-1-1/metarange-ab.parquet"
    for epoch, attempt in [(-1, "a"), (1, ""), (1, "a/b"), (1, ".."), (1, "ä")]:
        with pytest.raises(InvalidArgument):
            location_of(epoch, attempt)
