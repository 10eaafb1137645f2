"""KeySpaces by URL: one line of configuration says where topology is kept.

    embedded:///var/lib/penstock/keyspace        a folder on this machine
    etcd://10.0.0.1:2379,10.0.0.2:2379           an etcd cluster, with the extra penstock[etcd]
    quorum://10.0.0.1:7070,10.0.0.2:7070         a cluster's own quorum log: `server/keyspaces.py` opens it

A prefix is no part of it: keys are given whole.
"""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.extras import extra
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.keyspace.shell.port import KeySpace

__all__ = ["addresses_in", "open_keyspace"]


async def open_keyspace(url: str) -> KeySpace:
    """Open the KeySpace a URL names."""
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise InvalidArgument(f"{parts.scheme}:// takes no parameters")
    match parts.scheme:
        case "embedded":
            path = unquote(parts.path)
            if parts.netloc or path.strip("/") == "" or "\0" in path:
                raise InvalidArgument(f"{url!r} is no folder: write embedded:// and an absolute path")
            return await EmbeddedKeySpace.open(Path(path))
        case "etcd":
            return await _open_etcd(addresses_in(url))
        case _:
            raise InvalidArgument(f"{url!r} is no KeySpace: it must begin with embedded://, etcd:// or quorum://")


def addresses_in(url: str) -> list[str]:
    """Return the addresses of the servers that a URL names."""
    parts = urlsplit(url)
    addresses = parts.netloc.split(",")
    for address in addresses:
        host, _, port = address.rpartition(":")
        is_address = host and "@" not in host and port.isdecimal() and 0 < int(port) < 65_536
        if not is_address or parts.path.strip("/") or parts.query or parts.fragment:
            what = "etcd cluster" if parts.scheme == "etcd" else "cluster"
            raise InvalidArgument(
                f"{url!r} is no {what}: write {parts.scheme}://host:port, or several with commas between"
            )
    return addresses


async def _open_etcd(addresses: list[str]) -> KeySpace:
    with extra("etcd", "a KeySpace in etcd"):
        from penstock.keyspace.shell.etcd.store import EtcdKeySpace
    return await EtcdKeySpace.open(addresses)
