"""A store in a SQL database: the application's own tables, and a row per shard with its checkpoint and its fence.

    penstock_checkpoints(shard primary key, fence, checkpoint)
    penstock_owners(shard primary key, owner)

Design: exactly-once.md, "Store Fencing". `restore` raises the fence; a commit updates the row only where the fence is
still its own, within the application's transaction. So a zombie's commit fails, and with it all it changed.

It works with SQLAlchemy: PostgreSQL through psycopg 3 (`postgresql+psycopg://…`), and SQLite. One transaction is open
at a time: the next one waits for the commit, and sees its changes. Every call to the driver is made in a thread. On
PostgreSQL a process which was frozen in a transaction holds locks, perhaps for ever: `restore` ends the connections of
the shard's former lives. It first refuses a shard whose state in this database another group owns.

An application that ends the transaction itself parts its changes from their checkpoint. The store refuses its commits,
and seals nothing after its roll-back.
"""

import asyncio
import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    LargeBinary,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.consumers.core.store import Store
from penstock.consumers.stores.application import ShardContext, StoreFactory
from penstock.kernel.errors import ConfigError, Fenced, Indeterminate, InvalidArgument, PenstockError, Unavailable

__all__ = ["SqlStore", "sql_store"]

SHARD_CHARACTERS_MAX: Final = 512
OWNER_CHARACTERS_MAX: Final = 256
RESTORE_ATTEMPTS: Final = 5  # two processes which make the row at once
BUSY_S: Final = 30.0  # how long SQLite waits for another writer
READS: Final = "penstock_reads"  # of a connection that only reads, and waits for no writer
_TERMINATE: Final = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = :name AND datname = current_database() AND pid <> pg_backend_pid()"
)
_checkpoints = Table(
    "penstock_checkpoints",
    MetaData(),
    Column("shard", String(SHARD_CHARACTERS_MAX), primary_key=True),
    Column("fence", BigInteger, nullable=False),
    Column("checkpoint", LargeBinary, nullable=False),
)
_owners = Table(
    "penstock_owners",
    _checkpoints.metadata,
    Column("shard", String(SHARD_CHARACTERS_MAX), primary_key=True),
    Column("owner", String(OWNER_CHARACTERS_MAX), nullable=False),
)
_ENDS: Final = re.compile(r"\s*(commit|end|abort|rollback)\b(?!\s+(work\s+|transaction\s+)?to\b)", re.IGNORECASE)
T = TypeVar("T")


def sql_store(url: str, *, setup: Callable[[Connection], None] | None = None) -> StoreFactory:
    """Return a factory, for `application_of`, that opens the store of each shard in one database.

    `setup` runs before a shard's store is restored, in a transaction of its own: create missing tables there (`CREATE
    TABLE IF NOT EXISTS …`).
    """

    def open_store(context: ShardContext) -> Store[Connection]:
        return SqlStore(url, context.shard, owner=context.root, setup=setup)

    return open_store


class SqlStore:
    """The store of one shard. The application works with a SQLAlchemy `Connection`, in a transaction which is open.

    It may make a `Session(connection)` of it, and must leave `commit` and `rollback` to us.
    """

    def __init__(
        self, url: str, shard: str, *, owner: str = "/penstock", setup: Callable[[Connection], None] | None = None
    ) -> None:
        """`owner`: the root of the group that runs the shard."""
        self.shard = shard
        self._owner = owner
        self._misuse = ""  # what the application did to the open transaction
        self._setup = setup
        self._url = url
        self._made: Engine | None = None
        self._fence = 0
        self._open: Connection | None = None
        self._sealed: Connection | None = None
        self._committed = asyncio.Event()  # nothing is sealed and not yet committed
        self._committed.set()

    async def restore(self) -> Checkpoint:
        """Raise the fence, and read the checkpoint, in one transaction: it sees all that was committed before it."""
        self._fence, checkpoint = await self._call(self._restore)
        return checkpoint

    async def transaction(self) -> Connection:
        """The open transaction. The first one after `seal` waits until that is committed."""
        await self._committed.wait()
        if self._open is None:
            await self._call(self._begin)
            assert self._open is not None
        return self._open

    async def seal(self, checkpoint: Checkpoint) -> None:
        """Write the checkpoint, if the fence is still ours: from here on a new process waits for our commit."""
        connection = await self.transaction()
        data = checkpoint.encode()
        await self._call(lambda: self._save(connection, data))
        self._open, self._sealed = None, connection
        self._committed.clear()

    async def commit(self) -> None:
        """Commit the sealed transaction. If the database does not answer, the outcome is unknown: the next restore
        finds out.
        """
        connection, self._sealed = self._sealed, None
        assert connection is not None, "nothing was sealed"
        await self._call(lambda: _commit(connection), is_commit=True)
        self._committed.set()

    async def close(self) -> None:
        connections = [each for each in (self._open, self._sealed) if each is not None]
        self._open = self._sealed = None
        if self._made is not None:
            await asyncio.to_thread(_close, connections, self._made)

    # In threads

    @property
    def _engine(self) -> Engine:
        """Made in a thread too: it loads the driver, and an event loop which waits for that may lose its lease."""
        if self._made is None:
            self._made = _engine(self._url, self.shard)
            event.listen(self._made, "commit", self._on_commit)
            event.listen(self._made, "rollback", self._on_rollback)
            event.listen(self._made, "before_cursor_execute", self._on_execute)
        return self._made

    async def _call(self, call: Callable[[], T], *, is_commit: bool = False) -> T:
        """Wait for the call even if we are cancelled: a connection at work must not be closed."""
        future = asyncio.ensure_future(asyncio.to_thread(call))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.gather(future, return_exceptions=True)
            raise
        except SQLAlchemyError as error:
            raise _translated(error, self.shard, is_commit=is_commit) from error

    def _restore(self) -> tuple[int, Checkpoint]:
        self._check_owner()
        self._end_former_lives()
        attempts = RESTORE_ATTEMPTS
        while True:
            attempts -= 1
            try:
                self._make_tables()
                return self._take_over()
            except (IntegrityError, ProgrammingError):  # another process made a table or the row at the same time
                if not attempts:
                    raise

    def _make_tables(self) -> None:
        with self._engine.begin() as connection:
            _checkpoints.create(connection, checkfirst=True)
            _owners.create(connection, checkfirst=True)
            if self._setup is not None:
                self._setup(connection)

    def _check_owner(self) -> None:
        with self._engine.connect().execution_options(**{READS: True}) as connection:
            if inspect(connection).has_table(_owners.name):
                self._owns(connection)

    def _owns(self, connection: Connection) -> bool:
        """Tell whether this group owns the shard; False: no group does yet."""
        owner = connection.execute(select(_owners.c.owner).where(_owners.c.shard == self.shard)).scalar()
        if owner not in (None, self._owner):
            raise ConfigError(
                f"shard {self.shard}: this database has the state of that shard of {owner}; expected {self._owner}",
                next_step="give each group a database of its own, or its shards other ids",
            )
        return owner is not None

    def _take_over(self) -> tuple[int, Checkpoint]:
        is_mine = _checkpoints.c.shard == self.shard
        with self._engine.begin() as connection:
            if not self._owns(connection):
                connection.execute(insert(_owners).values(shard=self.shard, owner=self._owner))
            raised = connection.execute(
                update(_checkpoints).where(is_mine).values(fence=_checkpoints.c.fence + 1)
            ).rowcount
            if not raised:
                connection.execute(
                    insert(_checkpoints).values(shard=self.shard, fence=1, checkpoint=Checkpoint().encode())
                )
            row = connection.execute(select(_checkpoints.c.fence, _checkpoints.c.checkpoint).where(is_mine)).one()
        return int(row.fence), Checkpoint.decode(bytes(row.checkpoint))

    def _end_former_lives(self) -> None:
        """End the sessions of processes that lost the shard, so that they hold no locks. A role may end its own
        sessions; if it may not, we wait.
        """
        if self._engine.dialect.name != "postgresql":
            return
        try:
            with self._engine.begin() as connection:
                connection.execute(_TERMINATE, {"name": session_name(self.shard)})
        except DBAPIError as error:
            if error.connection_invalidated:
                raise

    def _begin(self) -> None:
        """The connection is recorded here, not by the waiting task: the task may be cancelled, and `close` must know of
        the connection all the same.
        """
        self._misuse = ""
        self._open = self._engine.connect()
        self._open.begin()

    def _on_commit(self, connection: Connection) -> None:
        if connection is self._open:
            self._misuse = "commit"
            raise self._misused()

    def _on_rollback(self, connection: Connection) -> None:
        if connection is self._open:
            self._misuse = "roll back"

    def _on_execute(self, connection: Connection, _: Any, statement: str, *__: Any) -> None:
        if connection is self._open and _ENDS.match(statement):
            self._misuse = statement.split()[0].lower()
            raise self._misused()

    def _misused(self) -> InvalidArgument:
        return InvalidArgument(
            f"shard {self.shard}: the application may not {self._misuse}; the shard ends the transaction together with"
            " its checkpoint"
        )

    def _save(self, connection: Connection, data: bytes) -> None:
        if self._misuse:
            raise self._misused()
        is_mine = (_checkpoints.c.shard == self.shard) & (_checkpoints.c.fence == self._fence)
        if connection.execute(update(_checkpoints).where(is_mine).values(checkpoint=data)).rowcount != 1:
            raise Fenced(f"shard {self.shard}: another process has taken it over", fence=self._fence)


def session_name(shard: str) -> str:
    """Return the name of a shard's sessions on the server, where a name has at most 63 bytes."""
    return f"penstock-shard-{blake2b(shard.encode(), digest_size=16).hexdigest()}"


def _engine(url: str, shard: str) -> Engine:
    """Connections of this shard alone, so that its successor can tell them from others."""
    if url.startswith("postgresql"):
        name = session_name(shard)
        # A session whose process ends too late must not hold its locks for long: the server checks whether we still
        # exist.
        settings = {"application_name": name, "connect_timeout": 10, "keepalives_idle": 5, "keepalives_interval": 2}
        return create_engine(url, connect_args=settings, pool_size=2, max_overflow=1, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": BUSY_S} if url.startswith("sqlite") else {})
    if engine.dialect.name == "sqlite":
        _begin_immediately(engine)
    return engine


def _begin_immediately(engine: Engine) -> None:
    """SQLite's driver begins a transaction at the first write, too late for earlier reads: we begin it."""

    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    def begun(connection: Connection) -> None:
        if not connection.get_execution_options().get(READS):
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)


def _commit(connection: Connection) -> None:
    try:
        connection.commit()
    finally:
        connection.close()


def _close(connections: list[Connection], engine: Engine) -> None:
    """Never raises: uncommitted changes are rolled back, by us or by the server."""
    for connection in connections:
        try:
            connection.invalidate()
            connection.close()
        except SQLAlchemyError:
            pass
    engine.dispose()


def _translated(error: SQLAlchemyError, shard: str, *, is_commit: bool) -> PenstockError:
    message = f"shard {shard}: the database failed: {str(error).splitlines()[0]}"
    return Indeterminate(message) if is_commit else Unavailable(message)
