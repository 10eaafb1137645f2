"""Offsets of a stream: one text for one offset, and ranges which follow from two of them alone."""

import json

import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.spark.shared.offsets import NOTHING_READ, StreamOffset


def test_the_first_offset_is_always_the_same_and_keys_are_sorted() -> None:
    assert NOTHING_READ.to_dict() == {}
    assert StreamOffset.from_dict({}) == NOTHING_READ
    offset = StreamOffset({"b": 2, "a": 1}, {"b": 0})
    text = json.dumps(offset.to_dict())
    assert text == '{"new": {"b": 0}, "to": {"a": 1, "b": 2}}'
    assert StreamOffset.from_dict(json.loads(text)) == offset


def test_a_batch_reads_from_where_the_one_before_ended_or_where_it_was_told_to_begin() -> None:
    start = StreamOffset({"a": 5, "same": 7, "gap": 3})
    end = StreamOffset({"a": 9, "same": 7, "gap": 40, "first": 20}, {"first": 10, "gap": 30})
    assert end.ranges(start) == {"a": (5, 9), "first": (10, 20), "gap": (30, 40)}


def test_the_offset_of_another_source_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="another source"):
        StreamOffset.from_dict({"to": {"topic": {"0": 5}}})
