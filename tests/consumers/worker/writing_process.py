"""A process which writes to a SqliteStore until it is killed: `python writing_process.py BROKER KEYSPACE FOLDER`.

Each transaction adds a row, changes old ones, and says `sealed N` before its commit and `committed N` after it.
"""

import asyncio
import sys
from pathlib import Path
from random import Random

import apsw

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.consumers.stores.recoverylog.hints_keeper import HintsKeeper
from penstock.consumers.stores.recoverylog.recovery_log import RecoveryLog
from penstock.consumers.stores.sqlite_store import SqliteStore
from penstock.journals.client.journal import Journals
from penstock.kernel.ids import Offset
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.messages.read_state import ReadState

LOG = "recovery/shard-one"
PREFIX = "/penstock/hints/shard-one"
JOURNAL = "shop/orders"
ROWS = 200  # the number of rows that are changed over and over


def make_tables(connection: apsw.Connection) -> None:
    connection.execute("CREATE TABLE entries (id INTEGER PRIMARY KEY, txn INTEGER, filling TEXT)")
    connection.execute("CREATE INDEX by_filling ON entries (filling)")


def change(connection: apsw.Connection, txn: int) -> None:
    """Make transaction `txn`: a function of its number, so that every reader can compute the state."""
    rng = Random(txn)
    for _ in range(20):
        row = (rng.randrange(ROWS), txn, f"{rng.randrange(1 << 30)}" * rng.randrange(1, 60))
        connection.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", row)
    connection.execute("DELETE FROM entries WHERE id = ?", (rng.randrange(ROWS),))


def expected(txns: int) -> list[tuple[object, ...]]:
    """Return the state after `txns` transactions."""
    connection = apsw.Connection(":memory:")
    make_tables(connection)
    for txn in range(1, txns + 1):
        change(connection, txn)
    return list(connection.execute("SELECT * FROM entries ORDER BY id"))


def checkpoint(txn: int) -> Checkpoint:
    return Checkpoint({JOURNAL: ReadState(Offset(txn))})


async def write(broker: str, keyspace_path: str, folder: str) -> None:
    options = EmbeddedOptions(poll_ms=10)
    async with Journals([broker]) as journals, await EmbeddedKeySpace.open(Path(keyspace_path), options) as keyspace:
        log = RecoveryLog(journals, HintsKeeper(keyspace, PREFIX, LOG), Path(folder))
        store = SqliteStore(log, setup=make_tables)
        restored = await store.restore()
        txn = restored.sources[JOURNAL].offset if restored.sources else 0
        while True:
            txn += 1
            change(await store.transaction(), txn)
            await store.seal(checkpoint(txn))
            print(f"sealed {txn}", flush=True)
            await store.commit()
            print(f"committed {txn}", flush=True)


if __name__ == "__main__":
    asyncio.run(write(*sys.argv[1:]))
