"""KeySpaces by URL."""

import sys
from pathlib import Path

import pytest

from penstock.kernel.errors import ConfigError, InvalidArgument
from penstock.keyspace.core.transaction import PutKey
from penstock.keyspace.shell import open_keyspace


async def test_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    async with await open_keyspace(f"embedded://{tmp_path}/with%20space") as keyspace:
        await keyspace.transact(then=[PutKey("a", b"")])
    assert (folder / "store.sqlite").exists()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "embedded://",
        "embedded:///",
        "embedded://host/path",
        "embedded:///a?b=c",
        "embedded:///a%00",
        "/a",
        "zk://a",
        "etcd://",
        "etcd://host",
        "etcd://host:port",
        "etcd://host:70000",
        "etcd://host:2379/prefix",
        "etcd://user:secret@host:2379",
        "etcd://host:2379,",
        "quorum://host:7070",
    ],
)
async def test_what_is_no_keyspace_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument):
        await open_keyspace(url)


async def test_etcd_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith("penstock.keyspace.shell.etcd"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(ConfigError) as refused:
        await open_keyspace("etcd://127.0.0.1:2379")
    assert refused.value.next_step == "pip install 'penstock[etcd]'"
