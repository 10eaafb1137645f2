"""What opens a store with a recovery log for each shard of an application: see `Application.open_store`.

application_of(count, store=sqlite_store(keyspace, Path("/var/lib/penstock/consumer"), setup=make_tables))
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.consumers.stores.application import ShardContext, StoreFactory
from penstock.consumers.stores.json_file_store import JsonFileStore
from penstock.consumers.stores.recoverylog.hints_keeper import HintsKeeper
from penstock.consumers.stores.recoverylog.recovery_log import RecoveryLog
from penstock.kernel.errors import ConfigError
from penstock.kernel.extras import extra
from penstock.keyspace.shell.port import KeySpace

if TYPE_CHECKING:
    import apsw

    from penstock.consumers.stores.sqlite_store import SqliteStore

__all__ = ["hints_prefix", "json_file_store", "open_recovery_log", "sqlite_store"]


def hints_prefix(shard: str, root: str = "/penstock") -> str:
    """Return the KeySpace prefix of a shard's hints."""
    return f"{root}/hints/{shard}"


def open_recovery_log(
    context: ShardContext, keyspace: KeySpace, folder: Path, *, hint_backups: int = 2, root: str = "/penstock"
) -> RecoveryLog:
    """The recovery log of a shard, for one life of its store, whose files are below the folder."""
    if not context.recovery_log:
        raise ConfigError(f"shard {context.shard} names no recovery log, and its store needs one")
    prefix = hints_prefix(context.shard, root)
    keeper = HintsKeeper(keyspace, prefix, context.recovery_log, backups=hint_backups)
    return RecoveryLog(context.journals, keeper, folder, owner=f"{context.root.lstrip('/')}/{context.shard}")


def sqlite_store(
    keyspace: KeySpace, folder: Path, *, setup: "Callable[[apsw.Connection], None]" = lambda _: None, **settings: Any
) -> StoreFactory:
    """Open a `SqliteStore` for each shard. Settings are those of `open_recovery_log`."""
    with extra("server", "sqlite_store"):
        from penstock.consumers.stores.sqlite_store import SqliteStore

    def open_store(context: ShardContext) -> "SqliteStore":
        return SqliteStore(open_recovery_log(context, keyspace, folder, **settings), setup=setup)

    return open_store


def json_file_store(
    keyspace: KeySpace, folder: Path, *, new: Callable[[], Any] = dict, type: Any = None, **settings: Any
) -> StoreFactory:
    """Opens a `JsonFileStore` for each shard. Settings are those of `open_recovery_log`."""

    def open_store(context: ShardContext) -> JsonFileStore[Any]:
        return JsonFileStore(open_recovery_log(context, keyspace, folder, **settings), new, type=type)

    return open_store
