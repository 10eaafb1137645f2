"""A digest of the live keys, in the store's file, and a witness file confirm the store. Design: integrity.md D13.

    witness   the store's id, the revision and the digest of the last commit that is on the disk

SQLite ends its log at the first damaged frame and opens at an older revision, without a word. So each open compares,
with the writer lock held and before SQLite may write: because it writes over the frames after a bad one.

What always holds: the witness is never ahead of the file. A store that an older release wrote has neither; they are
added by the first open. After a commit of an older release, the next commit computes both again.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple
from urllib.parse import quote

from penstock.kernel.errors import DataDamaged, KeySpaceForgot
from penstock.keyspace.core.envelope import DIGEST_BYTES, digest_of
from penstock.keyspace.shell.embedded.queries import Queries
from penstock.plumbing.files.witness import read_witness

__all__ = ["NOTHING", "WITNESS_FILE", "Confirmed", "check_store", "stored_digest"]

WITNESS_FILE: Final = "witness"
_PAYLOAD: Final = Struct(f"<32sQ{DIGEST_BYTES}s")


class Confirmed(NamedTuple):
    """A state of a store."""

    store_id: str
    revision: int
    digest: int

    def encode(self) -> bytes:
        return _PAYLOAD.pack(self.store_id.encode(), self.revision, self.digest.to_bytes(DIGEST_BYTES, "big"))

    @classmethod
    def decode(cls, payload: bytes) -> "Confirmed":
        store_id, revision, digest = _PAYLOAD.unpack(payload)
        return cls(store_id.decode(), revision, int.from_bytes(digest, "big"))


NOTHING: Final = Confirmed("0" * 32, 0, 0)  # of a store that is being made


def check_store(path: Path) -> bool:
    """Refuse a store that lost or changed commits. Return False if it is no KeySpace, and cannot become one.

    Only reads. Call it with the writer lock held.
    """
    payload = read_witness(path.parent / WITNESS_FILE)
    said = Confirmed.decode(payload) if payload is not None else None
    if not path.exists():
        if said is not None and said.revision:
            raise _forgot(path, f"{path} is missing, and was at revision {said.revision}")
        return True
    with _readable(path), closing(_open_to_read(path)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if "state" not in tables:
            if said is not None and said.revision:
                raise _forgot(path, f"{path} is empty, and was at revision {said.revision}")
            return not tables  # else its first start was interrupted
        if "digest" not in tables:
            if said is not None and said.revision:
                raise _forgot(path, f"{path} was put back as it was before revision {said.revision}")
            return True  # an older release made it
        if said is None:
            raise _damaged(path, f"{path.parent / WITNESS_FILE} is missing, so nothing says how far the store had come")
        _compare(path, connection, said)
    return True


def _compare(path: Path, connection: sqlite3.Connection, said: Confirmed) -> None:
    queries = Queries(connection, str(path.parent))
    connection.execute("BEGIN")
    status = queries.status()
    if said.revision and status.store_id != said.store_id:
        raise _forgot(path, f"{path} is another KeySpace than {path.parent / WITNESS_FILE} speaks of")
    if status.revision < said.revision:
        raise _forgot(
            path,
            f"{path} is at revision {status.revision}, and had come to {said.revision}: its log {path.name}-wal is "
            "damaged, cut or missing, or an older copy was put back",
        )
    stored = stored_digest(connection)
    if stored is None or stored[0] != status.revision:
        return  # an older release has written since
    if status.revision == said.revision and stored[1] != said.digest:
        raise _damaged(path, f"{path} has another content at revision {said.revision} than was committed")
    if digest_of(queries.range("")) != stored[1]:
        raise _damaged(path, f"{path} is damaged: its keys are not those that its digest speaks of")


def stored_digest(connection: sqlite3.Connection) -> tuple[int, int] | None:
    """Return the digest in the store, and the revision whose it is."""
    row = connection.execute("SELECT revision, digest FROM digest").fetchone()
    return None if row is None else (row[0], int.from_bytes(row[1], "big"))


def _open_to_read(path: Path) -> sqlite3.Connection:
    """A connection that cannot write, so that it also leaves the log alone when it is closed."""
    has_log = path.with_name(f"{path.name}-wal").exists()  # without one, no other process has the store open
    return sqlite3.connect(
        f"file:{quote(str(path))}?{'mode=ro' if has_log else 'immutable=1'}", uri=True, isolation_level=None
    )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise _damaged(path, f"{path} cannot be read: {error}") from error
    except (UnicodeDecodeError, TypeError, ValueError) as error:
        raise _damaged(path, f"{path} is damaged: {error}") from error


def _forgot(path: Path, why: str) -> KeySpaceForgot:
    return KeySpaceForgot(why, next_step=f"penstock fsck {path.parent.parent}", file=str(path))


def _damaged(path: Path, why: str) -> DataDamaged:
    return DataDamaged(why, next_step=f"penstock fsck {path.parent.parent}", file=str(path))
