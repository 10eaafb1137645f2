"""A broker that answers nothing delays no client for long: others are asked, and name the primary."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.journals.broker.cluster import running_cluster

from penstock.journals.broker.process import BROKER_LIMITS
from penstock.journals.client.asking import first_answer
from penstock.journals.client.journal_appends import AppendStream, Lost
from penstock.journals.records.protocol import APPEND, LIST, AppendWish, PartKind
from penstock.journals.records.registers import Txn
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import Indeterminate, NotFound, PenstockError, Unavailable
from penstock.plumbing.wire.client import Channel
from penstock.plumbing.wire.message import WireMessage
from penstock.plumbing.wire.server import Server
from penstock.plumbing.wire.server_stream import ServerStream
from penstock.plumbing.wire.service import Service

JOURNAL = "shop/orders"
SILENT_S = 0.01


class Nothing:
    """Takes everything, and answers nothing. Counts the messages."""

    def __init__(self) -> None:
        self.messages = 0

    def __call__(self, stream: ServerStream) -> "Nothing":
        return self

    def on_messages(self, messages: list[WireMessage]) -> None:
        self.messages += len(messages)

    def on_end(self) -> None:
        pass

    def on_writable(self) -> None:
        pass

    def on_closed(self, error: PenstockError | None) -> None:
        pass


@asynccontextmanager
async def silent_broker() -> AsyncIterator[tuple[str, Nothing]]:
    service, nothing = Service(), Nothing()
    service.pipelined(APPEND)(nothing)
    service.pipelined(LIST)(nothing)
    server = await Server.start(service, limits=BROKER_LIMITS)
    try:
        yield server.address, nothing
    finally:
        await server.close(drain_s=0.01)


async def test_an_append_with_a_transaction_leaves_a_silent_primary(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, silent_broker() as (silent, nothing):
        await cluster.create(JournalSpec(name=JOURNAL, replication=1))
        async with cluster.client() as journals:
            journals._addresses.insert(0, silent)  # it is asked first, and does not say who the primary is
            journals._primaries[JOURNAL] = silent
            async with asyncio.timeout(10):
                done = await journals.append(JOURNAL, b"once", txn=Txn("w", 1), timeout=30)
            assert (done.begin, done.end) == (0, 4)
            assert nothing.messages, "it was sent there first"
            journals._primaries[JOURNAL] = silent
            assert journals._streams.pop(JOURNAL) is not None
            with pytest.raises(Indeterminate):  # without a transaction it may not be sent again
                await journals.append(JOURNAL, b"perhaps", timeout=0.5)
            assert (await journals.append(JOURNAL, b"next", timeout=10)).begin == 4


async def test_a_question_goes_to_the_next_broker_while_the_first_is_silent(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, silent_broker() as (silent, _):
        await cluster.create(JournalSpec(name=JOURNAL, replication=1))
        async with cluster.client() as journals:
            journals._addresses.insert(0, silent)
            async with asyncio.timeout(10):
                assert (await journals.append(JOURNAL, b"here", timeout=30)).end == 4
            assert journals._addresses[0] == cluster.addresses[0], "the one that answered is asked first from now on"


async def test_superseded_appends_are_lost_unless_only_that_broker_can_answer_them() -> None:
    async with silent_broker() as (silent, _), Channel(silent, limits=BROKER_LIMITS) as channel:
        stream = await AppendStream.open(channel, JOURNAL, timeout_s=5)
        wish = AppendWish(60_000)
        fates = {}
        for name, is_repeatable in (("repeatable", True), ("plain", False), ("unsent", False)):
            number = stream.begin()
            stream.send(number, b"x", PartKind.COMMIT, wish)
            fates[name] = stream.answered_within(number, 60, is_repeatable=is_repeatable)
            if name == "plain":
                await asyncio.sleep(0)  # what this turn sent has left; the last one has not
        stream.supersede("elsewhere")
        with pytest.raises(Lost) as sent:
            await fates["repeatable"]
        assert sent.value.was_sent
        with pytest.raises(Lost) as unsent:
            await fates["unsent"]
        assert not unsent.value.was_sent, "nothing was written, and nothing will be"
        assert not fates["plain"].done()
        await asyncio.sleep(0)
        assert not stream._queue, "what was lost as unsent is never sent"
        stream.close()


async def test_an_append_in_line_for_room_is_not_called_unwritten_when_its_time_is_over() -> None:
    held: list[ServerStream] = []
    late = asyncio.Event()

    class Full(Nothing):
        """A broker that has no room for more."""

        def __call__(self, stream: ServerStream) -> "Full":
            stream.hold_credit()
            held.append(stream)
            return self

        def on_messages(self, messages: list[WireMessage]) -> None:
            if any(bytes(message.bulk[:4]) == b"late" for message in messages):
                late.set()

    service, full = Service(), Full()
    service.pipelined(APPEND)(full)
    server = await Server.start(service, limits=BROKER_LIMITS)
    try:
        async with Channel(server.address, limits=BROKER_LIMITS) as channel:
            stream = await AppendStream.open(channel, JOURNAL, timeout_s=5)
            wish = AppendWish(60_000)
            while not stream._queue:  # fill the window
                stream.send(stream.begin(), bytes(512 << 10), PartKind.COMMIT, wish)
                await asyncio.sleep(0)
            number, begun = stream.begin(), stream.begin()
            stream.send(number, b"late", PartKind.COMMIT, wish)
            stream.send(begun, b"half of it", PartKind.MORE, wish)
            for each, was_sent in ((number, True), (begun, False)):
                with pytest.raises(Lost) as lost:
                    await stream.answered_within(each, 0)
                assert lost.value.was_sent is was_sent, "what is in line will be sent"
            held[0].release_credit()
            async with asyncio.timeout(10):
                await late.wait()
            stream.close()
    finally:
        await server.close(drain_s=0.01)


async def test_the_first_answer_counts() -> None:
    never = asyncio.Event()

    async def ask(address: str) -> str:
        if address.startswith("silent"):
            await never.wait()
        if address.startswith("refuses"):
            raise Unavailable(f"{address}: not now")
        if address.startswith("wrong"):
            raise NotFound("there is no such journal")
        return address.upper()

    async with asyncio.timeout(10):
        assert await first_answer(["a", "b"], ask) == ("a", "A")
        assert await first_answer(["refuses", "b"], ask) == ("b", "B")
        assert await first_answer(["silent", "refuses", "silent-too", "b"], ask, silent_s=SILENT_S) == ("b", "B")
        with pytest.raises(Unavailable, match="refuses-too"):
            await first_answer(["refuses", "refuses-too"], ask)
        with pytest.raises(NotFound):
            await first_answer(["silent", "wrong", "b"], ask, silent_s=SILENT_S)
        with pytest.raises(Unavailable, match="no broker was asked"):
            await first_answer([], ask)
