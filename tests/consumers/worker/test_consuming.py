"""Consuming: how an application is called, in which order, and the fate of its publications."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.consumers.core.effects import Publication
from penstock.consumers.library import Application, Publish, application_of
from penstock.consumers.library import Message as CommittedMessage
from penstock.consumers.worker.consuming import Consuming
from penstock.journals.client.messages import JSON
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Clock, Offset
from penstock.messages.message import NO_PRODUCER, Message


class Notes:
    """A store whose transactions are one list."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    async def restore(self) -> Checkpoint:
        return Checkpoint()

    async def transaction(self) -> list[Any]:
        return self.notes

    async def seal(self, checkpoint: Checkpoint) -> None:
        """Do nothing: there is nothing to close."""

    async def commit(self) -> None:
        """Do nothing: there is nothing to write."""

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""


def messages(*numbers: int) -> tuple[Message, ...]:
    return tuple(
        Message(Offset(at), Offset(at + 1), NO_PRODUCER, Clock(0), 0, b'{"n":%d}\n' % number)
        for at, number in enumerate(numbers)
    )


def published(*values: Any, to: str = "shop/out") -> tuple[Publication, ...]:
    return (Publication(to, JSON, tuple(JSON.prepare_all(values))),)


class Traced(Application[list[Any]]):
    """Notes every call, and from which thread it came."""

    def begin(self, store: list[Any]) -> None:
        store.append("begin")

    def consume(self, message: CommittedMessage, store: list[Any], publish: Publish) -> None:
        store.append((message.value["n"], threading.current_thread() is threading.main_thread()))
        publish("shop/out", {"seen": message.value["n"]})

    def finalize(self, store: list[Any], publish: Publish) -> None:
        store.append("finalize")
        publish("shop/out", {"sum": len(store)})


async def test_a_transaction_begins_before_its_first_message_and_is_finished_once() -> None:
    store = Notes()
    consuming = Consuming(Traced(), store)
    assert await consuming.consume(1, "shop/in", messages(1, 2)) == published({"seen": 1}, {"seen": 2})
    assert await consuming.consume(1, "shop/in", messages(3)) == published({"seen": 3})
    assert await consuming.finalize(1) == published({"sum": 5})
    assert await consuming.finalize(2) == published({"sum": 7})  # one without messages begins, too
    await consuming.close()
    assert store.notes == ["begin", (1, False), (2, False), (3, False), "finalize", "begin", "finalize"]


async def test_an_async_application_runs_on_the_event_loop() -> None:
    class Async(Application[list[Any]]):
        async def consume(self, message: CommittedMessage, store: list[Any], publish: Publish) -> None:
            await asyncio.sleep(0)
            store.append(threading.current_thread() is threading.main_thread())

    store = Notes()
    consuming = Consuming(Async(), store)
    assert await consuming.consume(1, "shop/in", messages(1)) == ()
    await consuming.close()
    assert store.notes == [True]


async def doubled(each: AsyncIterator[CommittedMessage], store: list[Any]) -> AsyncIterator[tuple[str, Any]]:
    total = 0
    async for message in each:
        total += message.value["n"]
        yield "shop/out", {"twice": 2 * message.value["n"]}
    store.append(total)
    yield "shop/sums", {"sum": total}


async def test_a_generator_sees_one_transaction_however_it_is_cut_into_batches() -> None:
    store = Notes()
    consuming = Consuming(application_of(doubled, store=lambda _: store), store)
    assert await consuming.consume(1, "shop/in", messages(1, 2)) == published({"twice": 2}, {"twice": 4})
    assert await consuming.consume(1, "shop/in", messages(3)) == published({"twice": 6})
    assert await consuming.finalize(1) == published({"sum": 6}, to="shop/sums")
    assert await consuming.consume(2, "shop/in", messages(5)) == published({"twice": 10})
    await consuming.close()
    assert store.notes == [6]


async def test_a_generator_which_ends_early_is_told_that_it_must_not() -> None:
    async def first(each: AsyncIterator[CommittedMessage], store: list[Any]) -> AsyncIterator[tuple[str, Any]]:
        yield "shop/out", (await anext(each)).value

    store = Notes()
    consuming = Consuming(application_of(first, store=lambda _: store), store)
    with pytest.raises(InvalidArgument, match="it must read all of them"):
        await consuming.consume(1, "shop/in", messages(1, 2))
    await consuming.close()


async def test_who_is_cancelled_waits_for_the_call_in_its_thread() -> None:
    """Else the store's next user would meet it there."""
    entered, leave = threading.Event(), threading.Event()

    def slow(message: CommittedMessage, store: list[Any], publish: Publish) -> None:
        entered.set()
        leave.wait()
        store.append("left")

    store = Notes()
    consuming = Consuming(application_of(slow, store=lambda _: store), store)
    call = asyncio.create_task(consuming.consume(1, "shop/in", messages(1)))
    await asyncio.to_thread(entered.wait)
    call.cancel()
    await asyncio.sleep(0)
    assert not call.done()
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert store.notes == ["left"]
    await consuming.close()
