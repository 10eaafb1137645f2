"""KeySpaces by URL: one line of configuration says where topology is kept.

    embedded:///var/lib/penstock/keyspace        a folder on this machine
    etcd://10.0.0.1:2379,10.0.0.2:2379           an etcd cluster, with the extra penstock[etcd]

A prefix is no part of it: keys are given whole.
"""

from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.extras import extra
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.keyspace.shell.port import KeySpace

__all__ = ["open_keyspace"]


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
            return await _open_etcd(_addresses(url, parts))
        case _:
            raise InvalidArgument(f"{url!r} is no KeySpace: it must begin with embedded:// or etcd://")


def _addresses(url: str, parts: SplitResult) -> list[str]:
    addresses = parts.netloc.split(",")
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or "@" in host or not port.isdecimal() or not 0 < int(port) < 65_536 or parts.path.strip("/"):
            raise InvalidArgument(f"{url!r} is no etcd cluster: write etcd://host:port, or several with commas between")
    return addresses


async def _open_etcd(addresses: list[str]) -> KeySpace:
    with extra("etcd", "a KeySpace in etcd"):
        from penstock.keyspace.shell.etcd.store import EtcdKeySpace
    return await EtcdKeySpace.open(addresses)
