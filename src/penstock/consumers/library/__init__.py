"""Consumers: applications, the shards which run them exactly once, and their stores.

class Count(Application[Connection]):
    def open_store(self, context):
        return SqlStore("sqlite:///count.db", context.shard, setup=make_tables)

    def consume(self, message, store, publish):
        store.execute(text("UPDATE counts SET n = n + 1"))
        publish("shop/counts", {"sku": message.value["sku"]})

async with Journals(["127.0.0.1:7201"]) as journals:
    spec = ShardSpec("count", {"shop/orders": JsonLines()})
    async with ShardHost(spec, Count(), journals) as shard:
        await shard.stat(Stat({"shop/orders": offset}))     # everything before it has taken its full effect
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.consumers.client.status import ShardCode, ShardStatus
from penstock.consumers.core.store import Store
from penstock.consumers.stores.application import Application, Publish, ShardContext, StoreFactory, application_of
from penstock.consumers.stores.json_file_store import JsonFileStore
from penstock.consumers.stores.recovered_stores import json_file_store, sqlite_store
from penstock.consumers.worker.shard_host import ShardHost
from penstock.journals.client.messages import Message
from penstock.kernel.extras import extra

if TYPE_CHECKING:
    from penstock.consumers.stores.sql_store import SqlStore, sql_store
    from penstock.consumers.stores.sqlite_store import SqliteStore

__all__ = [
    "Application",
    "JsonFileStore",
    "Message",
    "Publish",
    "ShardCode",
    "ShardContext",
    "ShardHost",
    "ShardStatus",
    "SqlStore",
    "SqliteStore",
    "Store",
    "StoreFactory",
    "application_of",
    "json_file_store",
    "sql_store",
    "sqlite_store",
]

# what needs an extra: its module, and the extra
_LATER = {
    "SqlStore": ("penstock.consumers.stores.sql_store", "sql"),
    "SqliteStore": ("penstock.consumers.stores.sqlite_store", "server"),
    "sql_store": ("penstock.consumers.stores.sql_store", "sql"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'penstock.consumers.library' has no attribute {name!r}")
    module, brought_by = _LATER[name]
    with extra(brought_by, name):
        return getattr(import_module(module), name)
