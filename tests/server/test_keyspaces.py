"""The KeySpace of a cluster's own log, by its URL."""

import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.wiring.wiring import Wiring
from penstock.quorum.keyspace.store import QuorumKeySpace
from penstock.server.keyspaces import open_keyspace


async def test_its_watches_prefer_the_own_node() -> None:
    async with await open_keyspace("quorum://m1:7070,m2:7070,m3:7070", Wiring(), first="m2:7070") as keyspace:
        assert isinstance(keyspace, QuorumKeySpace)
        assert keyspace.log.addresses == ["m2:7070", "m1:7070", "m3:7070"]


@pytest.mark.parametrize("url", ["quorum://", "quorum://m1", "quorum://m1:7070/a", "quorum://m1:7070?a=b", "zk://m1:1"])
async def test_what_names_no_cluster_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument):
        await open_keyspace(url, Wiring())
