"""The configuration of a process: declared in `sections`, loaded by `sources`."""

from penstock.plumbing.config.declare import Declaration, Key
from penstock.plumbing.config.secret import MASK, Secret
from penstock.plumbing.config.sections import (
    Config,
    Data,
    LogSection,
    Metrics,
    ObjectStoreSection,
    TlsSection,
    WalSection,
    Wire,
    known_keys,
)
from penstock.plumbing.config.sources import ConfigSource, Effective, FlagValue, ValueOrigin, load
from penstock.plumbing.config.values import Address, Bytes, Seconds

__all__ = [
    "MASK",
    "Address",
    "Bytes",
    "Config",
    "ConfigSource",
    "Data",
    "Declaration",
    "Effective",
    "FlagValue",
    "Key",
    "LogSection",
    "Metrics",
    "ObjectStoreSection",
    "Seconds",
    "Secret",
    "TlsSection",
    "ValueOrigin",
    "WalSection",
    "Wire",
    "known_keys",
    "load",
]
