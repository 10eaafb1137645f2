"""From the configuration to what the parts of the runtime are started with.

A part keeps its limits in a struct of its own (`wire.Limits`, `wal.WalOptions`, `objectstore.StoreOptions`) and knows
nothing of files and flags. Its fields and the section's keys have the same names, but for times: `keepalive_ms` is
`keepalive = "10s"` to people. A test holds names and defaults together.

The parts are imported when asked for: reading the configuration must not load sockets and object stores.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.plumbing.config.secret import Secret
from penstock.plumbing.config.sections import Config, ObjectStoreSection, TlsSection, WalSection, Wire

if TYPE_CHECKING:
    from penstock.plumbing.objects.options import StoreOptions
    from penstock.plumbing.wal.options import WalOptions
    from penstock.plumbing.wire import tls as wire
    from penstock.plumbing.wire.limits import WireLimits

__all__ = ["object_store_url", "store_options", "wal_options", "wire_limits", "wire_tls"]

CREDENTIALS = ("access_key_id", "secret_access_key", "session_token", "service_account_key", "account_key")


def wire_limits(wire: Wire) -> "WireLimits":
    from penstock.plumbing.wire.limits import WireLimits

    return WireLimits(**fields_from(wire, WireLimits))


def wire_tls(tls: TlsSection) -> "wire.Tls | None":
    from penstock.plumbing.wire import tls as wire

    return wire.Tls(**fields_from(tls, wire.Tls)) if tls.enabled else None


def wal_options(wal: WalSection) -> "WalOptions":
    from penstock.plumbing.wal.options import WalOptions

    options = WalOptions(**fields_from(wal, WalOptions))
    options.check()
    return options


def store_options(store: ObjectStoreSection) -> "StoreOptions":
    from penstock.plumbing.objects.options import StoreOptions

    given = {name: getattr(store, name) for name in CREDENTIALS}
    credentials = {name: secret.reveal() for name, secret in given.items() if isinstance(secret, Secret)}
    return StoreOptions(**fields_from(store, StoreOptions), credentials=credentials)


def object_store_url(config: Config) -> str:
    """The store's URL; by default a folder in the data folder."""
    return config.objectstore.url or Path(config.data.folder, "objects").absolute().as_uri()


def key_of(field: str) -> tuple[str, float]:
    """The key of an options field, and how many of the field's unit a second has.

    >>> key_of("keepalive_ms"), key_of("connect_ms_max"), key_of("mark_after_s"), key_of("streams_max")
    (('keepalive', 1000.0), ('connect_max', 1000.0), ('mark_after', 1.0), ('streams_max', 0.0))
    """
    if field.endswith("_ms"):
        return field.removesuffix("_ms"), 1000.0
    if field.endswith("_ms_max"):
        return field.removesuffix("_ms_max") + "_max", 1000.0
    if field.endswith("_s"):
        return field.removesuffix("_s"), 1.0
    return field, 0.0


def fields_from(section: msgspec.Struct, options: type[msgspec.Struct]) -> dict[str, Any]:
    """The options' fields, from the section's keys of the same names."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(options):
        key, per_second = key_of(field.name)
        if not hasattr(section, key):
            continue
        value = getattr(section, key)
        # Milliseconds are whole; a limit below one would be a limit of nothing.
        found[field.name] = max(1, round(value * per_second)) if per_second > 1 else value
    return found
