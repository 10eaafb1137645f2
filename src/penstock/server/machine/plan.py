"""The plan of one machine: its name, its roles, where they listen, and who the other machines are.

penstock up        a cluster of one, which keeps its KeySpace in the data folder
penstock server    one of the members of `[cluster]`, with the same file on all of them
"""

import socket
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from penstock.kernel.errors import ConfigError
from penstock.plumbing.config import Config, ConfigSource, Effective
from penstock.plumbing.config.values import Address
from penstock.plumbing.wiring.options import object_store_url

__all__ = ["HTTP_PORT", "METRICS_PORT", "ROLES", "SHARD", "MachinePlan", "members_of", "plan_alone", "plan_member"]

ROLES: Final = ("node", "broker", "lake")
SHARD: Final = "main"
HTTP_PORT: Final = 8000
METRICS_PORT: Final = 9100
LOCAL: Final = "local"


class MachinePlan(msgspec.Struct, frozen=True):
    """What one process runs."""

    name: str
    zone: str
    roles: tuple[str, ...]
    members: dict[str, str]  # by name: the address of the wire; a single machine is not in it
    folder: Path
    keyspace: str  # a URL
    listen: Address
    http: Address
    metrics: Address | None
    node: str  # the name of its node, and of the node's folder
    broker: str
    fragments: str  # the store of journals whose spec names none
    objects: str  # the lake's store
    advertise: str = ""
    unstored_bytes_max: int = 0  # 0: the broker's own bound

    @property
    def is_alone(self) -> bool:
        return not self.members


def plan_alone(config: Config) -> MachinePlan:
    """Plan `penstock up`: every role, and no other machine."""
    folder = config.data.folder.absolute()
    return MachinePlan(
        name=config.server.name or LOCAL,
        zone=LOCAL,
        roles=ROLES,
        members={},
        folder=folder,
        keyspace=config.cluster.keyspace or f"embedded://{quote(str(folder))}/keyspace",
        listen=config.wire.listen,
        http=config.lake.listen,
        metrics=config.metrics.listen,
        node="n1",
        broker="b1",
        fragments=(folder / "fragments").as_uri() + "/",
        objects=object_store_url(config),
        advertise=config.server.advertise,
        unstored_bytes_max=config.journal.unstored_bytes_max or 0,
    )


def plan_member(effective: Effective, host_name: str = "") -> MachinePlan:
    """Plan `penstock server`. `ConfigError` says which key of the file does not fit."""
    config = effective.config
    members = members_of(config)
    if not members:
        return _on_fixed_ports(plan_alone(config), effective)
    name = _name(config, members, host_name or socket.gethostname())
    if len(members) > 1 and not config.objectstore.url:
        raise ConfigError(
            "several machines need an object store that all of them reach; objectstore.url is empty",
            next_step="--set objectstore.url=s3://BUCKET/PREFIX, or a folder that all of them mount: file:///…",
        )
    folder = config.data.folder.absolute()
    alone = f"embedded://{quote(str(folder))}/keyspace" if len(members) == 1 else ""
    own = Address.read(members[name])
    url = object_store_url(config)
    plan = MachinePlan(
        name=name,
        zone=dict(config.cluster.zones).get(name, LOCAL),
        roles=_roles(config),
        members=members,
        folder=folder,
        keyspace=config.cluster.keyspace or alone or f"quorum://{','.join(members.values())}",
        listen=own if _is_default(effective, "wire.listen") else config.wire.listen,
        http=config.lake.listen,
        metrics=config.metrics.listen,
        node=name,
        broker=name,
        fragments=below(url, "fragments"),
        objects=below(url, "objects"),
        advertise=config.server.advertise or own.host,
        unstored_bytes_max=config.journal.unstored_bytes_max or 0,
    )
    return _on_fixed_ports(plan, effective)


def below(url: str, path: str) -> str:
    """Return the URL of a folder in a store, with the parameters of the store.

    >>> below("s3://shop/a?region=eu", "objects"), below("file:///srv/", "objects")
    ('s3://shop/a/objects/?region=eu', 'file:///srv/objects/')
    """
    place, question, parameters = url.partition("?")
    return f"{place.rstrip('/')}/{path}/{question}{parameters}"


def _on_fixed_ports(plan: MachinePlan, effective: Effective) -> MachinePlan:
    """Listen for HTTP and metrics on the host of the wire, unless the configuration names others."""
    host = plan.listen.host
    http = Address(host, HTTP_PORT) if _is_default(effective, "lake.listen") else plan.http
    metrics = Address(host, METRICS_PORT) if _is_default(effective, "metrics.listen") else plan.metrics
    return msgspec.structs.replace(plan, http=http, metrics=metrics)


def _is_default(effective: Effective, key: str) -> bool:
    return effective.origins[key].source is ConfigSource.DEFAULT


def members_of(config: Config) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in config.cluster.members:
        name, equals, address = each.partition("=")
        try:
            at = str(Address.read(address))
        except ValueError as error:
            raise ConfigError(f"cluster.members: {each!r}: expected NAME={error}") from None
        if not equals or not name or name in found or at in found.values():
            raise ConfigError(f"cluster.members: {each!r}: expected NAME=HOST:PORT, each name and address once")
        found[name] = at
    if len(found) == 2:
        raise ConfigError("cluster.members has two members, which tolerate no failure", next_step="name one, or three")
    strangers = sorted(set(dict(config.cluster.zones)) - set(found))
    if strangers:
        raise ConfigError(f"cluster.zones names {', '.join(strangers)}, which cluster.members does not")
    return found


def _name(config: Config, members: dict[str, str], host_name: str) -> str:
    if config.server.name in members:
        return config.server.name
    if not config.server.name:
        for candidate in (host_name, host_name.partition(".")[0]):
            if candidate in members:
                return candidate
        if len(members) == 1:
            return next(iter(members))
    raise ConfigError(
        f"this machine is called {config.server.name or host_name}, and cluster.members has {', '.join(members)}",
        next_step=f"--set server.name={next(iter(members))}",
    )


def _roles(config: Config) -> tuple[str, ...]:
    unknown = [role for role in config.server.roles if role not in ROLES]
    if unknown or not config.server.roles:
        raise ConfigError(f"server.roles: {', '.join(unknown) or 'empty'}: expected some of {', '.join(ROLES)}")
    return tuple(role for role in ROLES if role in config.server.roles)
