"""The configuration of a process: declared in `sections`, loaded by `sources`."""

from penstock.runtime.config.declare import Declaration, Key
from penstock.runtime.config.secret import MASK, Secret
from penstock.runtime.config.sections import Config, Data, Log, Metrics, ObjectStore, Tls, Wal, Wire, known_keys
from penstock.runtime.config.sources import Effective, Flag, Origin, Source, load
from penstock.runtime.config.values import Address, Bytes, Seconds

__all__ = [
    "MASK",
    "Address",
    "Bytes",
    "Config",
    "Data",
    "Declaration",
    "Effective",
    "Flag",
    "Key",
    "Log",
    "Metrics",
    "ObjectStore",
    "Origin",
    "Seconds",
    "Secret",
    "Source",
    "Tls",
    "Wal",
    "Wire",
    "known_keys",
    "load",
]
