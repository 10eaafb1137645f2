"""Interfaces that you can implement, and the implementations that Penstock has.

from penstock.spi import sqlite_store


class Count(penstock.Application[apsw.Connection]):
    def open_store(self, context):
        return sqlite_store(context.keyspace, Path("/var/lib/penstock"))(context)

- `Framing`: how messages lie in a journal. `JsonLines` is the default; `Fixed` is for bytes, `ArrowBatches` for rows.
- `Store`: where an application of a consumer keeps its state. `SqlStore`, `SqliteStore` and `JsonFileStore` are such.
- `Mapping`: into which journal a message goes, by its key: `modulo`, `rendezvous`.
- `StateMachine`: what the transactions of a quorum log change.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from penstock.consumers.library import (
        JsonFileStore,
        ShardContext,
        SqliteStore,
        SqlStore,
        Store,
        StoreFactory,
        application_of,
        json_file_store,
        sql_store,
        sqlite_store,
    )
    from penstock.messages.framing.arrow import ArrowBatches
    from penstock.messages.framing.fixed import Fixed
    from penstock.messages.framing.framing import Framing
    from penstock.messages.framing.json_lines import JsonLines
    from penstock.messages.mapping import Mapping, modulo, rendezvous
    from penstock.quorum.core.machines.state_machine import StateMachine

__all__ = [
    "ArrowBatches",
    "Fixed",
    "Framing",
    "JsonFileStore",
    "JsonLines",
    "Mapping",
    "ShardContext",
    "SqlStore",
    "SqliteStore",
    "StateMachine",
    "Store",
    "StoreFactory",
    "application_of",
    "json_file_store",
    "modulo",
    "rendezvous",
    "sql_store",
    "sqlite_store",
]

_PLACES = {
    "ArrowBatches": "penstock.messages.framing.arrow",
    "Fixed": "penstock.messages.framing.fixed",
    "Framing": "penstock.messages.framing.framing",
    "JsonFileStore": "penstock.consumers.library",
    "JsonLines": "penstock.messages.framing.json_lines",
    "Mapping": "penstock.messages.mapping",
    "ShardContext": "penstock.consumers.library",
    "SqlStore": "penstock.consumers.library",
    "SqliteStore": "penstock.consumers.library",
    "StateMachine": "penstock.quorum.core.machines.state_machine",
    "Store": "penstock.consumers.library",
    "StoreFactory": "penstock.consumers.library",
    "application_of": "penstock.consumers.library",
    "json_file_store": "penstock.consumers.library",
    "modulo": "penstock.messages.mapping",
    "rendezvous": "penstock.messages.mapping",
    "sql_store": "penstock.consumers.library",
    "sqlite_store": "penstock.consumers.library",
}


def __getattr__(name: str) -> object:
    """Load a name when it is first used."""
    if name not in _PLACES:
        raise AttributeError(f"module 'penstock.spi' has no attribute {name!r}")
    from importlib import import_module

    from penstock.kernel.extras import extra

    with extra("tables", f"penstock.spi.{name}"):
        return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
