"""The configuration of a process: declared in `sections`, loaded by `sources`."""

from penstock.plumbing.config.declare import Declaration, Key
from penstock.plumbing.config.secret import MASK, Secret
from penstock.plumbing.config.sections import Config, Data, Log, Metrics, ObjectStore, Tls, Wal, Wire, known_keys
from penstock.plumbing.config.sources import Effective, Flag, Origin, Source, load
from penstock.plumbing.config.values import Address, Bytes, Seconds

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
