"""KeySpaces by URL, also that of a cluster's own quorum log: quorum://10.0.0.1:7070,10.0.0.2:7070,10.0.0.3:7070."""

from collections.abc import Sequence

from penstock.keyspace.shell import open_keyspace as open_elsewhere
from penstock.keyspace.shell.opening import addresses_in
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.wiring.wiring import Wiring

__all__ = ["QUORUM", "open_keyspace"]

QUORUM = "quorum://"


async def open_keyspace(url: str, wiring: Wiring, *, first: str = "") -> KeySpace:
    """Open the KeySpace that a URL names. `first`: the node whose watches are preferred, if it is one of them."""
    if not url.startswith(QUORUM):
        return await open_elsewhere(url)
    from penstock.quorum.keyspace.store import QuorumKeySpace

    addresses = _begun_with(first, addresses_in(url))
    return await QuorumKeySpace.open(addresses, token=wiring.token, tls=wiring.client_tls, ports=wiring.ports)


def _begun_with(first: str, addresses: Sequence[str]) -> list[str]:
    return sorted(addresses, key=lambda each: each != first)
