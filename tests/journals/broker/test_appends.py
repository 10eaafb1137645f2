"""What answers tell of the content which came, how fast a client must be, and how fast a journal may be."""

import asyncio
from contextlib import AsyncExitStack
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.journals.broker.cluster import WAIT_S, running_cluster

from penstock.journals.broker.appends import Content, FlowBucket, FlowPolice, Place, sum_of
from penstock.journals.broker.process import BROKER_LIMITS
from penstock.journals.client.journal_appends import AppendStream
from penstock.journals.records.api import AppendResponse, Fate, Status
from penstock.journals.records.fragment import EMPTY_SUM, Fragment
from penstock.journals.records.protocol import AppendWish, PartKind
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.ids import SECOND, Instant, Offset, RequestId
from penstock.plumbing.wire.client import Channel


def test_a_client_which_is_faster_than_it_must_be_saves_nothing_up() -> None:
    police = FlowPolice(Instant(0), bytes_per_s=1_000, grace_ns=SECOND)
    police.took(1_000_000)
    assert not police.is_too_slow(Instant(0))
    assert not police.is_too_slow(Instant(SECOND))
    assert police.is_too_slow(Instant(3 * SECOND))


def test_a_wait_of_ours_is_forgiven() -> None:
    police = FlowPolice(Instant(0), bytes_per_s=1_000, grace_ns=SECOND)
    police.forgive(Instant(10 * SECOND))
    assert not police.is_too_slow(Instant(11 * SECOND))
    assert police.is_too_slow(Instant(11 * SECOND + 1))


def test_a_bucket_fills_at_its_rate_and_one_chunk_may_overdraw_it() -> None:
    bucket = FlowBucket(1_000)
    assert bucket.wait_ns(Instant(0)) == 0
    bucket.take(2_250)
    assert bucket.wait_ns(Instant(0)) == 2 * SECOND
    assert bucket.wait_ns(Instant(SECOND)) == SECOND
    assert bucket.wait_ns(Instant(2 * SECOND)) == 0


def test_without_a_rate_nothing_waits() -> None:
    bucket = FlowBucket(0)
    bucket.take(1 << 40)
    assert bucket.wait_ns(Instant(0)) == 0


class Taker:
    """A session, as far as content needs one."""

    taken = 0

    def on_taken(self, length: int) -> None:
        self.taken += length


def content_of(number: int, members: list[Place], *, register: str = "") -> Content:
    nobody: Any = None
    session: Any = Taker()
    return Content(nobody, RequestId(1), session, number, members, register=register)


def response_of(begin: int, end: int, sum_: bytes) -> AppendResponse:
    commit = Fragment("a/journal", Offset(begin), Offset(end), sum_)
    return AppendResponse(fate=Fate.COMMITTED, status=Status.OK, commit=commit, end=Offset(end))


@given(st.integers(0, 1 << 40), st.lists(st.tuples(st.binary(max_size=9), st.booleans()), min_size=1, max_size=6))
def test_an_answer_tells_the_sum_of_all_chunks_whenever_they_are_summed(
    begin: int, chunks: list[tuple[bytes, bool]]
) -> None:
    content = content_of(7, [])
    for chunk, is_summed in chunks:
        content.add(memoryview(chunk))
        assert content.take() == chunk
        if is_summed:
            content.sum_up()
    whole = b"".join(chunk for chunk, _ in chunks)
    end = begin + len(whole)
    assert content.answers(response_of(begin, end, EMPTY_SUM)) == [
        (7, response_of(begin, end, sum_of(whole) if whole else EMPTY_SUM))
    ]


@given(st.integers(0, 1 << 40), st.lists(st.binary(min_size=1, max_size=9), min_size=2, max_size=6), st.booleans())
def test_each_append_of_a_group_is_told_its_own_sum(begin: int, contents: list[bytes], is_summed: bool) -> None:
    whole = b"".join(contents)
    ends = list(accumulate(map(len, contents)))
    members = [(10 + at, end - len(each), len(each)) for at, (each, end) in enumerate(zip(contents, ends, strict=True))]
    content = content_of(10, members)
    content.add(memoryview(whole))
    assert content.take() == whole
    if is_summed:
        content.sum_up()
    answer = response_of(begin, begin + len(whole), EMPTY_SUM)
    assert content.answers(answer) == [
        (10 + at, msgspec.structs.replace(answer, commit=response_of(begin + end - len(each), begin + end, own).commit))
        for at, (each, end, own) in enumerate(zip(contents, ends, map(sum_of, contents), strict=True))
    ]
    refused = AppendResponse(fate=Fate.ABORTED, status=Status.DEADLINE)
    assert content.answers(refused) == [(number, refused) for number, _, _ in members]


def test_a_transaction_which_was_done_before_is_told_where_it_is_not_what_came_now() -> None:
    content = content_of(7, [], register="txn.loader")
    content.add(memoryview(b"again"))
    content.take()
    done = response_of(3, 9, sum_of(b"before"))
    assert content.answers(done) == [(7, done)]
    assert content.sum == sum_of(b"again")


async def test_what_waits_for_its_turn_is_bounded_for_all_clients_together(tmp_path: Path) -> None:
    """J-16: a hundred streams without a commit took 740 MB."""
    most = 4 << 20
    async with running_cluster(tmp_path, 1, held_bytes_max=most) as cluster, AsyncExitStack() as stack:
        await cluster.create(JournalSpec(name="shop/orders", replication=1))
        held = cluster.brokers["b1"].server.held
        wish = AppendWish(timeout_ms=60_000)
        channel = Channel(cluster.addresses[0], limits=BROKER_LIMITS)
        stack.push_async_callback(channel.close)
        streams: list[tuple[AppendStream, int]] = []
        for turn in range(12):
            stream = await AppendStream.open(channel, "shop/orders", timeout_s=WAIT_S)
            number = stream.begin()
            streams.append((stream, number))
            stream.send(number, b"x" * (1 << 20 if turn else 1), PartKind.MORE, wish)
            await asyncio.sleep(0)
        over = [asyncio.ensure_future(stream.answered(number)) for stream, number in streams[1:]]
        async with asyncio.timeout(WAIT_S):
            while sum(each.done() for each in over) < 7:
                await asyncio.wait([each for each in over if not each.done()], return_when=asyncio.FIRST_COMPLETED)
        assert held.bytes <= most
        assert held.ended == sum(each.done() for each in over) == 7
        for each in over:
            if each.done():
                assert "wait for their turn" in str(each.exception())
            each.cancel()
        first, number = streams[0]
        first.send(number, b"", PartKind.COMMIT)
        answer = await asyncio.wait_for(first.answered(number), WAIT_S)
        assert answer.response.fate is Fate.COMMITTED
