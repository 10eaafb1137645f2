"""What a bucket's failures are called: which put may have been made, what is tried again, and for how long.

The server here follows a script: it does what a real one never does when a test would like it to.
"""

import asyncio
import socket
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from typing import Any

import pytest

from penstock.kernel.errors import NotFound, ObjectStoreFailed, PenstockError, PreconditionFailed, Written
from penstock.plumbing.objects import ETag, ObjectStore, StoreOptions, open_store

HANG = "hang"  # take the request and say nothing
DROP = "drop"  # take the request and close the connection
LAST = "last"  # as DROP, and take no connection any more
Reply = str | tuple[int, str]  # or answer with a status and a body
OK, EXISTS, BUSY = (200, ""), (412, "<Error><Code>PreconditionFailed</Code></Error>"), (503, "SlowDown")
CONFLICT = (409, "<Error><Code>ConditionalRequestConflict</Code><Message>try again</Message></Error>")
SECRET = "hunter2"


class Script:
    """A server which answers the nth request with the nth reply, and any further one with the last."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = replies
        self.requests: list[str] = []
        self.then: Callable[[], None] = lambda: None  # called behind each reply
        self._handlers: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[int]:
        """Serve while the block runs, on the port it is given."""
        server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        self.then = server.close if self.replies[0] == LAST else self.then
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for handler in self._handlers:
                handler.cancel()
            await asyncio.gather(*self._handlers, return_exceptions=True)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        with closing(writer), suppress(asyncio.IncompleteReadError, ConnectionError):
            await self._answer(reader, writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:] if line)
        await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append(head.split()[0])
        reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        if isinstance(reply, tuple):
            status, body = reply
            lines = [f"HTTP/1.1 {status} x", 'ETag: "new"', f"Content-Length: {len(body)}", "Connection: close"]
            writer.write("\r\n".join([*lines, "", body]).encode())
            await writer.drain()
        elif reply == HANG:
            await reader.read()  # until the client gives up
        self.then()


@asynccontextmanager
async def store_on(script: Script, **options: Any) -> AsyncIterator[ObjectStore]:
    silence_ms_max = 150 if HANG in script.replies else 10_000
    async with script.serve() as port, s3_at(port, silence_ms_max=silence_ms_max, **options) as store:
        yield store


def check_attempts(script: Script, expected: int) -> None:
    """As many as there should be; on a busy machine an attempt can time out before the server has seen it."""
    if HANG in script.replies:
        assert 1 <= len(script.requests) <= 3
    else:
        assert len(script.requests) == expected


def s3_at(port: int, **options: Any) -> ObjectStore:
    chosen = {"retries_max": 2, "backoff_ms": 1, "backoff_ms_max": 2, **options}
    credentials = {"access_key_id": "AKIATEST", "secret_access_key": SECRET}
    url = f"s3://bucket?region=us-east-1&allow_http=true&endpoint=http://127.0.0.1:{port}"
    return open_store(url, StoreOptions(**chosen, credentials=credentials))


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


CONDITIONS: list[dict[str, Any]] = [{"if_absent": True}, {"if_match": ETag('"old"')}]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("lost", [HANG, DROP, BUSY, (500, "InternalError")])
async def test_a_conditional_put_which_meets_its_own_success_is_indeterminate(
    condition: dict[str, Any], lost: Reply
) -> None:
    script = Script(lost, EXISTS)
    async with store_on(script) as store:
        with pytest.raises(ObjectStoreFailed) as caught:
            await store.put("a", b"x", **condition)
    assert caught.value.written is Written.UNKNOWN
    assert "read the key" in caught.value.next_step
    check_attempts(script, 2)


@pytest.mark.parametrize("condition", CONDITIONS)
async def test_a_conditional_put_refused_at_once_is_definite(condition: dict[str, Any]) -> None:
    script = Script(EXISTS)
    async with store_on(script) as store:
        with pytest.raises(PreconditionFailed) as caught:
            await store.put("a", b"x", **condition)
    assert caught.value.written is Written.NO
    assert script.requests == ["PUT"]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("replies", [[CONFLICT, OK], [BUSY, OK], [DROP, BUSY, OK]])
async def test_a_conditional_put_is_tried_again(condition: dict[str, Any], replies: list[Reply]) -> None:
    script = Script(*replies)
    async with store_on(script) as store:
        assert await store.put("a", b"x", **condition) == '"new"'
    assert len(script.requests) == len(replies)


async def test_two_conditional_requests_which_only_met_are_not_a_lost_race() -> None:
    script = Script(CONFLICT)
    async with store_on(script) as store:
        with pytest.raises(ObjectStoreFailed) as caught:
            await store.put("a", b"x", if_absent=True)
    assert (caught.value.written, caught.value.retryable) == (Written.NO, True)
    assert len(script.requests) == 3


@pytest.mark.parametrize("reply", [HANG, DROP, (500, "")])
async def test_a_put_whose_answers_are_lost_may_have_been_made(reply: Reply) -> None:
    conditions: list[dict[str, Any]] = [{}, {"if_absent": True}]
    for condition in conditions:
        script = Script(reply)
        async with store_on(script) as store:
            with pytest.raises(ObjectStoreFailed) as caught:
                await store.put("a", b"x", **condition)
        assert caught.value.written is Written.UNKNOWN
        check_attempts(script, 3)


async def test_without_a_connection_nothing_was_written(closed_port: int) -> None:
    async with s3_at(closed_port) as store:
        for call in [store.put("a", b"x"), store.put("a", b"x", if_absent=True), store.get("a")]:
            with pytest.raises(ObjectStoreFailed) as caught:
                await call
            assert (caught.value.written, caught.value.retryable) == (Written.NO, True)


async def test_a_failure_to_connect_does_not_undo_an_earlier_attempt() -> None:
    calls: list[Callable[[ObjectStore], Awaitable[Any]]] = [
        lambda store: store.put("a", b"x"),
        lambda store: store.put("a", b"x", if_absent=True),
        lambda store: store.delete("a", "b"),
        lambda store: store.copy("a", "b"),
    ]
    for call in calls:
        script = Script(LAST)
        async with store_on(script) as store:
            with pytest.raises(ObjectStoreFailed) as caught:
                await call(store)
        assert len(script.requests) == 1
        assert caught.value.written is Written.UNKNOWN


async def test_a_silent_server_is_given_up_in_bounded_time() -> None:
    calls: list[Callable[[ObjectStore], Awaitable[Any]]] = [
        lambda store: store.get("a"),
        lambda store: store.head("a"),
        lambda store: store.put("a", b"x"),
        lambda store: anext(aiter(store.list())),
    ]
    for call in calls:
        script = Script(HANG)
        async with store_on(script, retries_max=1) as store:
            began = time.monotonic()
            with pytest.raises(ObjectStoreFailed):
                await call(store)
        assert time.monotonic() - began < 10
        check_attempts(script, 2)


@pytest.mark.parametrize("status", [401, 403, 400, 405])
async def test_what_will_not_work_later_either_is_not_retryable(status: int) -> None:
    script = Script((status, "<Error><Code>Nope</Code><Message>because</Message></Error>"))
    async with store_on(script) as store:
        for call in [store.get("a"), store.put("a", b"x"), store.put("a", b"x", if_absent=True)]:
            with pytest.raises(ObjectStoreFailed, match="Nope: because") as caught:
                await call
            assert (caught.value.written, caught.value.retryable) == (Written.NO, False)
    assert len(script.requests) == 3


async def test_a_missing_bucket_is_not_a_missing_object() -> None:
    missing = (404, "<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>")
    async with store_on(Script(missing)) as store:
        for call in [
            store.get("a"),
            store.put("a", b"x"),
            store.put("a", b"x", if_absent=True),
            store.delete("a", "b"),
        ]:
            with pytest.raises(ObjectStoreFailed, match="bucket does not exist"):
                await call
    async with store_on(Script((404, "<Error><Code>NoSuchKey</Code></Error>"))) as store:
        with pytest.raises(NotFound):
            await store.get("a")


async def test_an_upload_whose_parts_fail_is_aborted() -> None:
    begun = (200, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
    script = Script(begun, (400, ""), (204, ""))
    async with store_on(script, parts_in_flight_max=1, part_bytes=5 << 20) as store:

        async def write() -> None:
            async with store.writer("a") as writer:
                for _ in range(3):
                    await writer.write(bytes(5 << 20))

        with pytest.raises(ObjectStoreFailed):
            await write()
    assert script.requests[:2] == ["POST", "PUT"]
    assert script.requests[-1] == "DELETE"


@pytest.mark.parametrize(
    ("url", "credentials"),
    [
        ("az://container?account=a&allow_http=true&endpoint=http://127.0.0.1:{port}", {"sas_key": "sig=hunter2&se=1"}),
        ("s3://bucket?region=r&allow_http=true&endpoint=http://127.0.0.1:{port}",
         {"access_key_id": "hunter2", "secret_access_key": "hunter2", "session_token": "hunter2"}),
    ],
)  # fmt: skip
async def test_no_error_and_no_repr_shows_a_credential(url: str, credentials: dict[str, str], closed_port: int) -> None:
    options = StoreOptions(retries_max=0, credentials=credentials)
    async with open_store(url.format(port=closed_port), options) as store:
        shown = [repr(store), str(store), repr(options), str(options), str(options.__rich_repr__())]
        for call in [store.put("a", b"x"), store.get("a"), store.delete("a", "b"), anext(aiter(store.list()))]:
            try:
                await call
            except PenstockError as error:
                shown += [error.describe(), repr(error), str(error.details), *traceback.format_exception(error)]
    assert len(shown) > 20
    assert [text for text in shown if SECRET in text] == []
