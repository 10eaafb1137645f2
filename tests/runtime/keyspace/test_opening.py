"""KeySpaces by URL."""

from pathlib import Path

import pytest

from penstock.base.errors import InvalidArgument
from penstock.keyspace.transaction import Put
from penstock.runtime.keyspace import open_keyspace


async def test_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    async with await open_keyspace(f"embedded://{tmp_path}/with%20space") as keyspace:
        await keyspace.transact(then=[Put("a", b"")])
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
    ],
)
async def test_what_is_no_keyspace_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument):
        await open_keyspace(url)
