"""The gateway in front of a real broker, by raw requests."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.journals.broker.cluster import running_cluster
from tests.plumbing.http.harness import Answer, Client, connect

from penstock.journals.gateway import JournalGateway
from penstock.journals.records.labels import LabelSet
from penstock.journals.records.spec import JournalSpec
from penstock.plumbing.config.secret import Secret
from penstock.plumbing.http.app import App
from penstock.plumbing.http.server import HttpServer

ORDERS = JournalSpec(name="shop/orders", replication=1, labels=LabelSet.of({"region": "eu"}))


@asynccontextmanager
async def gateway(folder: Path, token: Secret | None = None) -> AsyncIterator[HttpServer]:
    """A broker with one journal, and a gateway to it."""
    async with running_cluster(folder, 1) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        async with await HttpServer.start(App([JournalGateway(journals, token=token).site()])) as server:
            yield server


async def put(client: Client, body: bytes, query: str = "", name: str = "shop/orders", **headers: str) -> Answer:
    lines = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in headers.items())
    head = f"PUT /journal/{name}{query} HTTP/1.1\r\ncontent-length: {len(body)}\r\n{lines}\r\n"
    return await client.ask(head.encode() + body)


async def get(client: Client, query: str = "", name: str = "shop/orders", method: str = "GET") -> Answer:
    request = f"{method} /journal/{name}{query} HTTP/1.1\r\n\r\n".encode()
    return await client.ask(request, head_only=method == "HEAD")


def error_of(answer: Answer) -> tuple[int, str, str]:
    body = msgspec.json.decode(answer.body)
    return answer.status, body["error"], body["written"]


async def test_what_is_put_is_got(tmp_path: Path) -> None:
    async with gateway(tmp_path) as server, connect(server) as client:
        empty = await get(client)
        assert (empty.status, empty.headers["x-write-head"], empty.headers["content-range"]) == (416, "0", "bytes */0")
        first = await put(client, b"hello ")
        second = await put(client, b"world", x_check_offset="6")
        assert (first.status, second.status) == (204, 204)
        assert (second.headers["x-commit-begin"], second.headers["x-commit-end"]) == ("6", "11")
        assert second.headers["x-commit-sha1-sum"] == hashlib.sha1(b"world").hexdigest()
        whole, part = await get(client), await get(client, "?offset=3&end=8")
        assert (whole.status, whole.body, whole.headers["x-offset"]) == (206, b"hello world", "0")
        assert whole.headers["x-fragment-name"].startswith("0000000000000000-")
        assert whole.headers["content-range"] == "bytes 0-9223372036854775807/9223372036854775807"
        assert (part.body, part.headers["x-offset"]) == (b"lo wo", "3")
        for query in ("?offset=-1", ""):
            head = await get(client, query, method="HEAD")
            assert (head.status, head.headers["x-write-head"]) == (206, "11")
        assert (await get(client, "?offset=12", method="HEAD")).status == 416
        assert (await get(client, "?offset=11")).status == 416


async def test_a_blocking_read_goes_on(tmp_path: Path) -> None:
    async with gateway(tmp_path) as server, connect(server) as reader, connect(server) as writer:
        answer = await reader.ask(b"GET /journal/shop/orders?block=true&end=9 HTTP/1.1\r\n\r\n", head_only=True)
        assert (answer.status, answer.headers["transfer-encoding"]) == (206, "chunked")
        shown = b""
        for part in (b"one", b"two", b"end"):
            assert (await put(writer, part)).status == 204
            while not shown.endswith(part):
                size = int(await reader.reader.readuntil(b"\r\n"), 16)
                shown += (await reader.reader.readexactly(size + 2))[:-2]
        assert await reader.reader.readexactly(5) == b"0\r\n\r\n"
    assert shown == b"onetwoend"


async def test_large_bodies_are_streamed(tmp_path: Path) -> None:
    data = bytes(range(256)) * (3 << 12)
    async with gateway(tmp_path) as server, connect(server) as client:
        assert (await put(client, data)).status == 204
        head = b"PUT /journal/shop/orders HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
        chunked = await client.ask(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        assert (chunked.status, chunked.headers["x-commit-begin"]) == (204, str(len(data)))
        assert (await get(client)).body == data + b"abcde"


async def test_a_client_which_dies_in_the_middle_has_appended_nothing(tmp_path: Path) -> None:
    async with gateway(tmp_path) as server, connect(server) as client:
        async with connect(server) as dying:
            dying.writer.write(
                b"PUT /journal/shop/orders HTTP/1.1\r\ncontent-length: 9000000\r\n\r\n" + bytes(3_000_000)
            )
            await dying.writer.drain()
        assert (await put(client, b"whole")).headers["x-commit-begin"] == "0"


async def test_registers_and_transactions_travel_in_headers(tmp_path: Path) -> None:
    async with gateway(tmp_path) as server, connect(server) as client:
        first = await put(client, b"a", x_union_registers="author=me, epoch=1")
        assert first.headers["x-registers"] == "author=me, epoch=1"
        refused = await put(client, b"b", x_check_registers="author=you")
        assert error_of(refused) == (412, "precondition-failed", "no")
        assert (refused.headers["x-registers"], refused.headers["x-write-head"]) == ("author=me, epoch=1", "1")
        taken = await put(client, b"b", x_check_registers="author=me", x_subtract_registers="epoch=1")
        assert taken.headers["x-registers"] == "author=me"
        assert error_of(await put(client, b"c", x_check_offset="1"))[:2] == (412, "precondition-failed")
        once, again = [await put(client, b"t", x_txn="me/1") for _ in range(2)]
        assert once.headers["x-commit-begin"] == again.headers["x-commit-begin"] == "2"
        assert (await get(client)).body == b"abt"


async def test_bad_requests_say_what_is_bad(tmp_path: Path) -> None:
    async with gateway(tmp_path) as server, connect(server) as client:
        for query in (
            "?offset=x",
            "?offset=-2",
            "?offset=9223372036854775808",
            "?blok=true",
            "?end=-1",
            "?offset=1&offset=2",
        ):
            assert error_of(await get(client, query)) == (400, "invalid-argument", "no")
        for headers in (
            {"x_check_offset": "-1"},
            {"x_check_registers": "=="},
            {"x_union_registers": "a b=c"},
            {"x_txn": "me"},
            {"x_txn": "me/0"},
        ):
            assert error_of(await put(client, b"", **headers)) == (400, "invalid-argument", "no")
        for query in ("?timeout=0", "?timeout=nan", "?timeout=x", "?timeout=1e9"):
            assert (await put(client, b"", query)).status == 400
        for name in ("no/such-journal", "shop//orders", "%00bad"):
            status = (await put(client, b"x", name=name)).status
            assert status == (404 if name == "no/such-journal" else 400)
            assert (await get(client, name=name)).status == status
        assert (await client.ask(b"DELETE /journal/shop/orders HTTP/1.1\r\n\r\n")).status == 405
        assert (await get(client, "?offset=0")).status == 416


async def test_journals_are_listed(tmp_path: Path) -> None:
    async with gateway(tmp_path) as server, connect(server) as client:
        found = await client.ask(b"GET /journals?selector=region%3Deu HTTP/1.1\r\n\r\n")
        (one,) = msgspec.json.decode(found.body)["journals"]
        assert (one["name"], one["labels"], one["replication"]) == ("shop/orders", [["region", "eu"]], 1)
        assert one["brokers"][0]["id"] == one["primary"]
        none = await client.ask(b"GET /journals?selector=region%3Dus HTTP/1.1\r\n\r\n")
        assert msgspec.json.decode(none.body) == {"journals": []}
        assert (await client.ask(b"GET /journals?selector=%28 HTTP/1.1\r\n\r\n")).status == 400


@pytest.mark.parametrize(
    ("line", "status"), [("", 401), ("Bearer wrong", 401), ("Basic x", 401), ("bearer right", 206)]
)
async def test_a_token_is_asked_for(tmp_path: Path, line: str, status: int) -> None:
    async with gateway(tmp_path, Secret("right")) as server, connect(server) as client:
        header = f"authorization: {line}\r\n" if line else ""
        request = f"HEAD /journal/shop/orders?offset=-1 HTTP/1.1\r\n{header}\r\n"
        assert (await client.ask(request.encode(), head_only=True)).status == status
