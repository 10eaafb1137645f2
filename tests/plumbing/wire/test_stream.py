"""Streams, both ends real: order, flow control, endings, and the two ways to read."""

import asyncio

import pytest
from structlog.testing import capture_logs
from tests.plumbing.wire.harness import Stage, soon, until

from penstock.kernel.errors import (
    AlreadyClosed,
    Cancelled,
    ConnectionLost,
    DeadlineExceeded,
    InternalError,
    InvalidArgument,
    LimitExceeded,
    NotFound,
    Outcome,
    Overloaded,
    PenstockError,
    PreconditionFailed,
)
from penstock.plumbing.wire import ServerStream, Service, WireMessage
from penstock.plumbing.wire.protocol.flow import MESSAGE_COST
from penstock.plumbing.wire.protocol.frames import Bulk

WINDOW = 8192


class Recorder:
    """A receiver which writes down what it is told."""

    def __init__(self) -> None:
        self.batches: list[list[WireMessage]] = []
        self.told: list[str] = []
        self.error: PenstockError | None = None
        self.closed = asyncio.Event()

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for batch in self.batches for message in batch]

    def on_messages(self, messages: list[WireMessage]) -> None:
        assert messages
        self.batches.append(messages)

    def on_end(self) -> None:
        self.told.append("end")

    def on_writable(self) -> None:
        self.told.append("writable")

    def on_closed(self, error: PenstockError | None) -> None:
        self.told.append("closed")
        self.error = error
        self.closed.set()


# Messages and endings.


async def test_messages_come_back_in_order_with_body_and_bulk(stage: Stage) -> None:
    _, channel = await stage.both()
    sent = [WireMessage(str(number).encode(), bytes(number % 50_000)) for number in range(0, 100_000, 999)]
    async with channel.stream("mirror", b"hello") as stream:

        async def send_all() -> None:
            for message in sent:
                await stream.send(message.body, message.bulk)
            stream.end()

        sending = asyncio.create_task(send_all())
        received = [WireMessage(message.body, bytes(message.bulk)) async for message in stream]
        await sending
    assert received == sent
    assert stage.handlers.streams[0].body == b"hello"


async def test_a_stream_of_one_direction_ends_with_its_last_message(stage: Stage) -> None:
    _, channel = await stage.both()
    async with channel.stream("pour", b"500", is_read_only=True) as stream:
        numbers = [int(message.body) async for message in stream]
    assert numbers == list(range(500))
    stage.handlers.release.set()
    async with channel.stream("swallow") as stream:
        for _ in range(500):
            await stream.send(b"chunk")
        last = await stream.finish()
    assert last == WireMessage(b"500", b"")


async def test_leaving_the_block_normally_waits_for_the_server_and_tells_its_error(stage: Stage) -> None:
    service = Service()

    @service.stream("refuse")
    async def refuse(stream: ServerStream) -> None:
        async for _ in stream:
            pass
        raise PreconditionFailed("what was sent is not wanted")

    server = await stage.server(service)
    channel = await stage.channel(server.address)
    with pytest.raises(PreconditionFailed, match="not wanted"):
        async with channel.stream("refuse") as stream:
            await stream.send(b"something")


async def test_leaving_the_block_by_an_exception_cancels_the_handler(stage: Stage) -> None:
    _, channel = await stage.both()

    async def fail_in_the_middle() -> None:
        async with channel.stream("mirror") as stream:
            await stream.send(b"x")
            await stream.receive()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_in_the_middle()
    await soon(stage.handlers.cancelled)


async def test_a_stream_which_is_only_read_is_cancelled_when_its_reader_has_enough(stage: Stage) -> None:
    server, channel = await stage.both()
    async with channel.stream("pour", b"1000000", is_read_only=True) as stream:
        async for message in stream:
            if message.body == b"5":
                break
    await until(lambda: server.statistics().cancellations == 1)
    assert (await channel.call("echo", b"still here")).body == b"still here"


async def test_a_cancelled_stream_tells_both_sides(stage: Stage) -> None:
    _, channel = await stage.both()
    stream = await channel.open("mirror")
    await stream.send(b"x")
    reading = asyncio.create_task(stream.receive())
    await soon(stage.handlers.started)
    assert (await reading) == WireMessage(b"x", b"")
    reading = asyncio.create_task(stream.receive())
    await asyncio.sleep(0)
    stream.cancel()
    with pytest.raises(Cancelled):
        await reading
    with pytest.raises(Cancelled):
        await stream.send(b"too late")
    await soon(stage.handlers.cancelled)


async def test_nothing_is_sent_behind_our_own_end(stage: Stage) -> None:
    _, channel = await stage.both()
    async with channel.stream("mirror") as stream:
        stream.end()
        stream.end()
        with pytest.raises(AlreadyClosed):
            await stream.send(b"x")
        assert await stream.receive() is None
        assert await stream.receive_batch() == []


async def test_an_error_of_the_handler_comes_behind_what_it_had_sent(stage: Stage) -> None:
    service = Service()

    @service.stream("half")
    async def half(stream: ServerStream) -> None:
        await stream.send(b"first")
        await stream.send(b"second")
        raise NotFound("there is no third")

    @service.stream("broken")
    async def broken(stream: ServerStream) -> None:
        raise ZeroDivisionError

    server = await stage.server(service)
    channel = await stage.channel(server.address)
    stream = await channel.open("half")
    assert [await stream.receive(), await stream.receive()] == [WireMessage(b"first"), WireMessage(b"second")]
    with pytest.raises(NotFound, match="no third"):
        await stream.receive()
    with capture_logs() as logs, pytest.raises(InternalError):
        await (await channel.open("broken")).receive()
    assert [line["method"] for line in logs if line["event"] == "handler failed"] == ["broken"]


async def test_a_deadline_ends_a_stream_on_both_sides(stage: Stage) -> None:
    _, channel = await stage.both()
    stream = await channel.open("mirror", deadline_s=0.2)
    with pytest.raises(DeadlineExceeded) as caught:
        await stream.receive()
    assert caught.value.outcome is Outcome.INDETERMINATE
    await soon(stage.handlers.cancelled)


async def test_a_lost_connection_ends_streams_as_indeterminate_and_cancels_their_handlers(stage: Stage) -> None:
    server, channel = await stage.both()
    stream = await channel.open("mirror")
    await soon(stage.handlers.started)
    closing = asyncio.create_task(server.close(0.0))
    with pytest.raises(ConnectionLost):
        await stream.receive()
    await closing
    assert stage.handlers.cancelled.is_set()


async def test_more_streams_than_the_server_allows_wait_for_room(stage: Stage) -> None:
    _, channel = await stage.both(streams_max=2)
    first, _ = await channel.open("mirror"), await channel.open("mirror")
    third = asyncio.create_task(channel.open("mirror"))
    await channel.call("echo")  # calls do not stand in the same line
    assert not third.done()
    assert await first.finish() is None
    assert (await third).id > first.id


# Flow control.


async def test_a_reader_who_does_not_read_stops_the_server(stage: Stage) -> None:
    _, channel = await stage.both(stream_window_bytes=WINDOW)
    stream = await channel.open("pour", b"200")
    await soon(stage.handlers.started)
    [server_stream] = stage.handlers.streams
    await until(lambda: len(stream._inbox) == WINDOW // (1000 + MESSAGE_COST))
    assert (await channel.call("echo", b"other work goes on")).body == b"other work goes on"
    assert server_stream.flow.credit < 1000 + MESSAGE_COST
    assert stream.flow.unconsumed <= WINDOW
    for number in range(50):  # it always has something left to read: a slow reader
        assert int((await stream.receive() or WireMessage()).body) == number
        await until(lambda: len(stream._inbox) > 0)
    assert stream.flow.grown == 0
    assert [int(message.body) async for message in stream] == list(range(50, 200))
    stream.flow.check()


async def test_a_handler_which_does_not_read_stops_the_client(stage: Stage) -> None:
    _, channel = await stage.both(stream_window_bytes=WINDOW)
    stream = await channel.open("swallow")
    sent = 0

    async def send_all() -> None:
        nonlocal sent
        for _ in range(100):
            await stream.send(bytes(1000))
            sent += 1

    sending = asyncio.create_task(send_all())
    await soon(stage.handlers.started)
    await until(lambda: not stream.can_send(1000))
    assert sent == WINDOW // (1000 + MESSAGE_COST)
    with pytest.raises(Overloaded):
        stream.send_nowait(bytes(1000))
    stage.handlers.release.set()
    await sending
    assert await stream.finish() == WireMessage(b"100", b"")


async def test_what_is_flushed_is_written_before_the_turn_ends_and_once(stage: Stage) -> None:
    _, channel = await stage.both()
    stage.handlers.release.set()
    async with channel.stream("swallow") as stream:
        await stream.send(b"first")
        await soon(stage.handlers.started)
        before = channel.statistics().writes
        stream.send_nowait(b"second")
        assert channel.statistics().writes == before
        stream.flush()
        stream.flush()  # there is nothing left
        assert channel.statistics().writes == before + 1
        assert await stream.finish() == WireMessage(b"2", b"")


@pytest.mark.parametrize("bulk", [b"", bytes(10_000), memoryview(bytes(100_000))])
async def test_what_is_sent_at_once_is_written_with_all_before_it(stage: Stage, bulk: Bulk) -> None:
    _, channel = await stage.both()
    stage.handlers.release.set()
    async with channel.stream("swallow") as stream:
        await stream.send(b"first")
        await soon(stage.handlers.started)
        before = channel.statistics().writes
        stream.send_nowait(b"second")
        assert stream.send_at_once(b"third", bulk)
        assert channel.statistics().writes == before + 1
        assert await stream.finish() == WireMessage(b"3", b"")
        with pytest.raises(AlreadyClosed):
            stream.send_at_once(b"fourth", bulk)


async def test_what_cannot_be_sent_at_once_is_told_and_the_receiver_hears_when_it_can(stage: Stage) -> None:
    _, channel = await stage.both(stream_window_bytes=WINDOW)
    recorder = Recorder()
    stream = await channel.open("swallow", receiver=recorder)
    sent = 0
    while stream.send_at_once(bytes(1000)):
        sent += 1
    assert sent == WINDOW // (1000 + MESSAGE_COST)
    assert recorder.told == []
    stage.handlers.release.set()
    await until(lambda: recorder.told == ["writable"])
    assert stream.send_at_once(bytes(1000))
    stream.cancel()


async def test_a_reader_who_keeps_up_gets_a_larger_window_and_gives_it_back(stage: Stage) -> None:
    server, channel = await stage.both(stream_window_bytes=WINDOW)
    [connection] = server._connections
    spare = connection.spare_window_bytes
    stage.handlers.release.set()
    async with channel.stream("swallow") as stream:
        while not stage.handlers.streams or stage.handlers.streams[0].flow.window < 8 * WINDOW:
            await stream.send(bytes(4000))
        [server_stream] = stage.handlers.streams
        assert connection.spare_window_bytes == spare - server_stream.flow.grown
        server_stream.flow.check()
    assert connection.spare_window_bytes == spare


async def test_senders_who_wait_for_credit_keep_their_order(stage: Stage) -> None:
    _, channel = await stage.both(stream_window_bytes=WINDOW)
    stream = await channel.open("mirror")
    senders = [asyncio.create_task(stream.send(str(number).encode(), bytes(3000))) for number in range(20)]
    senders[7].cancel()
    numbers = [int((await stream.receive() or WireMessage()).body) for _ in range(19)]
    await asyncio.gather(*senders, return_exceptions=True)
    assert numbers == [number for number in range(20) if number != 7]


async def test_a_message_which_fits_no_window_is_refused_for_good(stage: Stage) -> None:
    _, channel = await stage.both(stream_window_bytes=WINDOW, frame_bytes_max=4096)
    async with channel.stream("mirror") as stream:
        with pytest.raises(LimitExceeded, match="does not fit"):
            await stream.send(bytes(WINDOW))
        with pytest.raises(LimitExceeded, match="frame limit"):
            await stream.send(bytes(5000))
        with pytest.raises(InvalidArgument):
            await stream.send("text")  # type: ignore[arg-type]
        await stream.send(bytes(4096))
        assert len((await stream.receive() or WireMessage()).body) == 4096


async def test_a_stream_has_one_reader(stage: Stage) -> None:
    _, channel = await stage.both()
    async with channel.stream("mirror") as stream:
        reading = asyncio.create_task(stream.receive())
        await asyncio.sleep(0)
        with pytest.raises(InvalidArgument, match="reader already"):
            await stream.receive()
        await stream.send(b"x")
        assert await reading == WireMessage(b"x", b"")


# Receivers: no task, and batches.


class Doubler:
    """A server's receiver: sends everything back twice, and ends when the client has."""

    def __init__(self, stream: ServerStream) -> None:
        self.stream = stream

    def on_messages(self, messages: list[WireMessage]) -> None:
        for message in messages:
            if message.body == b"refuse":
                raise PreconditionFailed("not that one")
            if message.body == b"break":
                raise ZeroDivisionError
            self.stream.send_nowait(message.body)
            self.stream.send_nowait(message.body)

    def on_end(self) -> None:
        self.stream.end()

    def on_writable(self) -> None:
        pass

    def on_closed(self, error: PenstockError | None) -> None:
        pass


@pytest.fixture
def doubling() -> Service:
    service = Service()
    service.pipelined("double")(Doubler)

    @service.pipelined("no-receiver")
    def no_receiver(stream: ServerStream) -> Doubler:
        raise NotFound("nobody takes this")

    return service


async def test_receivers_on_both_sides_get_batches_and_one_end(stage: Stage, doubling: Service) -> None:
    server = await stage.server(doubling)
    channel = await stage.channel(server.address)
    recorder = Recorder()
    async with channel.stream("double", receiver=recorder) as stream:
        for number in range(1000):
            stream.send_nowait(str(number).encode())
        with pytest.raises(InvalidArgument):
            await stream.receive()
    assert [int(body) for body in recorder.bodies] == [number // 2 for number in range(2000)]
    assert len(recorder.batches) < 100
    assert recorder.told == ["closed"]
    assert recorder.error is None


@pytest.mark.parametrize(("said", "expected"), [(b"refuse", PreconditionFailed), (b"break", InternalError)])
async def test_a_receiver_which_raises_ends_its_stream_and_nothing_else(
    stage: Stage, doubling: Service, said: bytes, expected: type[PenstockError]
) -> None:
    server = await stage.server(doubling)
    channel = await stage.channel(server.address)
    recorder, other = Recorder(), Recorder()
    healthy = await channel.open("double", receiver=other)
    stream = await channel.open("double", receiver=recorder)
    await stream.send(b"fine")
    await stream.send(said)
    await soon(recorder.closed)
    assert type(recorder.error) is expected
    assert recorder.bodies == [b"fine", b"fine"]
    await healthy.send(b"still")
    assert await healthy.finish() is None
    assert other.bodies == [b"still", b"still"]


async def test_a_method_may_refuse_a_stream(stage: Stage, doubling: Service) -> None:
    server = await stage.server(doubling)
    channel = await stage.channel(server.address)
    recorder = Recorder()
    stream = await channel.open("no-receiver", receiver=recorder)
    with pytest.raises(NotFound, match="nobody takes this"):
        await stream.finish()
    assert recorder.told == ["closed"]


async def test_a_receiver_on_this_side_which_raises_cancels_its_stream(stage: Stage) -> None:
    class Breaks(Recorder):
        def on_messages(self, messages: list[WireMessage]) -> None:
            raise ZeroDivisionError

    _, channel = await stage.both()
    breaks = Breaks()
    with capture_logs() as logs:
        stream = await channel.open("mirror", receiver=breaks)
        await stream.send(b"x")
        await soon(breaks.closed)
    assert isinstance(breaks.error, InternalError)
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["receiver failed"]
    await soon(stage.handlers.cancelled)
    assert (await channel.call("echo", b"x")).body == b"x"


async def test_a_receiver_hears_when_it_can_send_again(stage: Stage) -> None:
    _, channel = await stage.both(stream_window_bytes=WINDOW)
    recorder = Recorder()
    stream = await channel.open("swallow", receiver=recorder)
    while stream.can_send(1000):
        stream.send_nowait(bytes(1000))
    assert recorder.told == []
    stage.handlers.release.set()
    await until(lambda: recorder.told == ["writable"])
    assert stream.can_send(1000)
    stream.cancel()


async def test_held_credit_stops_the_sender_until_it_is_released(stage: Stage) -> None:
    _, channel = await stage.both(stream_window_bytes=WINDOW)
    recorder = Recorder()
    stream = await channel.open("pour", b"50", receiver=recorder)
    stream.hold_credit()
    fits = WINDOW // (1000 + MESSAGE_COST)
    await until(lambda: len(recorder.bodies) == fits)
    await channel.call("echo")
    assert len(recorder.bodies) == fits
    stream.release_credit()
    await soon(recorder.closed)
    assert [int(body) for body in recorder.bodies] == list(range(50))
