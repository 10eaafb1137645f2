"""Three machines with one page of configuration: every role on each, one port, and any of them may die."""

import asyncio
import base64
import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.keyspace.shell.etcd.server import EtcdServer
from tests.server.machine.servers import ThreeServers

from penstock.journals.client.journal import Journals
from penstock.journals.records.protocol import Change
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.version import Release
from penstock.keyspace.shell import open_keyspace
from penstock.server.machine.membership import machines_of

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[tuple[ThreeServers, str]]:
    etcd = EtcdServer(tmp_path / "etcd")
    etcd.start()
    try:
        url = f"etcd://{etcd.address}"
        with ThreeServers(tmp_path, url) as servers:
            yield servers, url
    finally:
        etcd.kill()


def lake_call(servers: ThreeServers, name: str, method: str, path: str, body: bytes = b"") -> Any:
    machine = servers.machines[name]
    keys = json.loads((machine.folder / "lake-credentials.json").read_text())
    basic = base64.b64encode(f"{keys['access_key_id']}:{keys['secret_access_key']}".encode()).decode()
    headers = {"Authorization": f"Basic {basic}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{machine.http}/api/v1{path}", body or None, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        data = answer.read()
        return json.loads(data) if method == "GET" else data


async def append(servers: ThreeServers, content: bytes, names: tuple[str, ...] = ("m1", "m2", "m3")) -> int:
    async with Journals([servers.wires[name] for name in names]) as journals:
        appended = await journals.append("shop/orders", content, timeout=30)
        return int(appended.end)


async def read(servers: ThreeServers, names: tuple[str, ...] = ("m1", "m2", "m3")) -> bytes:
    async with Journals([servers.wires[name] for name in names]) as journals:
        return b"".join([bytes(part.content) async for part in journals.read("shop/orders", 0)])


def test_any_machine_may_die(three: tuple[ThreeServers, str]) -> None:
    servers, keyspace = three

    async def work() -> None:
        async with await open_keyspace(keyspace) as space:
            found = await machines_of(space)
        assert [(each.name, each.zone, each.roles, each.wire, each.speaks) for each in found] == [
            (name, zone, ("node", "broker", "lake"), servers.wires[name], Release())
            for name, zone in (("m1", "a"), ("m2", "b"), ("m3", "c"))
        ]
        async with Journals([servers.wires["m1"]]) as journals:
            await journals.apply([Change(upsert=JournalSpec(name="shop/orders", replication=2))])
        assert await append(servers, b"one\n") == 4
        lake_call(servers, "m1", "POST", "/repositories", b'{"name": "shop", "storage_namespace": ""}')
        for name in ["m1"]:
            machine = servers.machines[name]
            assert lake_call(servers, name, "GET", "/repositories/shop")["id"] == "shop", "the same keys, the same lake"
            assert machine.signal(signal.SIGKILL) == -9
            others = tuple(each for each in servers.machines if each != name)
            await append(servers, f"without {name}\n".encode(), others)
            branch = json.dumps({"name": f"without-{name}", "source": "main"}).encode()
            lake_call(servers, others[0], "POST", "/repositories/shop/branches", branch)
            machine.start()
            machine.wait()
        expected = b"one\nwithout m1\n"
        assert await read(servers) == expected
        branches = lake_call(servers, "m3", "GET", "/repositories/shop/branches")["results"]
        assert [each["id"] for each in branches] == ["main", "without-m1"]

    asyncio.run(work())
    assert servers.machines["m2"].signal(signal.SIGTERM) == 128 + signal.SIGTERM
