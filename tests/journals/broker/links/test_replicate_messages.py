"""Batches of Replicate messages: content follows the records, and comes back unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.journals.broker.replicates import EPOCH, content, plain

from penstock.journals.broker.links.replicate_messages import ALONE_BYTES, BATCH_BYTES, decode_messages, encode_messages
from penstock.journals.records.messages import MarkRequest, ProposeRequest
from penstock.journals.records.point import Point
from penstock.kernel.errors import MalformedFrame
from penstock.kernel.ids import Offset, Revision


@given(st.lists(st.one_of(st.binary(min_size=1, max_size=64), st.integers(0, 1 << 40))))
def test_what_is_encoded_comes_back(parts: list[bytes | int]) -> None:
    messages = [
        content(part) if isinstance(part, bytes) else MarkRequest(Revision(3), EPOCH, Offset(part)) for part in parts
    ]
    decoded = [message for body, bulk in encode_messages(messages) for message in decode_messages(body, bulk)]
    assert plain(decoded) == messages


def test_large_content_is_cut_into_messages_of_bounded_size() -> None:
    small = ALONE_BYTES // 4
    messages = [content(b"x" * small, number) for number in range(BATCH_BYTES // small + 1)]
    sizes = [len(bulk) for _, bulk in encode_messages(messages)]
    assert sum(sizes) == BATCH_BYTES + small
    assert max(sizes) < BATCH_BYTES
    large = [content(b"x" * ALONE_BYTES, number) for number in range(3)]
    assert [bulk is each.content for (_, bulk), each in zip(encode_messages(large), large, strict=True)] == [True] * 3


def test_proposals_stay_behind_the_content_they_cover() -> None:
    point = Point(Offset(0), Offset(3))
    messages = [content(b"abc"), ProposeRequest(Revision(3), EPOCH, 1, point, Offset(0))]
    [(body, bulk)] = encode_messages(messages)
    assert plain(decode_messages(body, bulk)) == messages


def test_a_proposal_brings_its_last_content() -> None:
    point = Point(Offset(0), Offset(5))
    messages = [content(b"abc"), ProposeRequest(Revision(3), EPOCH, 1, point, Offset(0), content=b"de")]
    [(body, bulk)] = encode_messages(messages)
    assert bulk == b"abcde"
    assert plain(decode_messages(body, bulk)) == messages
    for wrong in (b"abcd", b"abcdef"):
        with pytest.raises(MalformedFrame):
            decode_messages(body, wrong)


@pytest.mark.parametrize("bulk", [b"", b"ab", b"abcd"])
def test_content_which_does_not_fit_its_records_is_refused(bulk: bytes) -> None:
    [(body, _)] = encode_messages([content(b"abc")])
    with pytest.raises(MalformedFrame):
        decode_messages(body, bulk)
