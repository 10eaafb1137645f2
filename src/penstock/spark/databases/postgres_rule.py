"""The driver's transaction on PostgreSQL: one batch of a sink, once. Design: spark-2.md P7.

    penstock_sinks(sink, query, batch, guard, ends, rows, at)     the register of each sink, next to its tables

The transaction locks the register, applies the rule of all sinks (`lake/core/staging/proposing/sink_rule.py`), takes
the staged rows of the attempts that won, and moves the register. So all of it is committed, or nothing. A driver that
was frozen and wakes up finds a register that has moved on.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from penstock.kernel.errors import PreconditionFailed
from penstock.lake.core.staging.proposing.sink_rule import BatchOffer, Register, SinkVerdict, verdict
from penstock.lake.records.sink_batch import SinkBody

__all__ = [
    "REGISTER",
    "TableTarget",
    "commit",
    "create_register",
    "drop_stages",
    "name_of",
    "names",
    "registered",
    "stage_name",
]

REGISTER: Final = "penstock_sinks"
LOCK_MS: Final = 5_000  # for a stage of another driver that is still being written
_CREATE: Final = f"""CREATE TABLE IF NOT EXISTS {REGISTER} (
    sink text PRIMARY KEY, query text NOT NULL, batch bigint NOT NULL, guard text NOT NULL DEFAULT '',
    ends text NOT NULL DEFAULT '', rows bigint NOT NULL DEFAULT 0, at timestamptz NOT NULL DEFAULT now())"""


class TableTarget(msgspec.Struct, frozen=True):
    """A table that a batch is written to, and the stage that has its rows."""

    table: str
    stage: str
    columns: tuple[str, ...]
    mode: str = "append"
    keys: tuple[str, ...] = ()
    order_by: str = ""


def commit(connection: Any, sink: str, offer: BatchOffer, targets: Sequence[TableTarget], attempts: list[str]) -> bool:
    """Commit one batch; return False if it was committed before. `PreconditionFailed` if another query has the sink."""
    with connection.transaction(), connection.cursor() as cursor:
        last = _locked(cursor, sink)
        what = verdict(last, offer)
        if what is not SinkVerdict.COMMIT:
            if what is SinkVerdict.REPLAY:
                return False
            assert last is not None
            raise _refused(sink, what, last, offer)
        rows = 0
        for target in targets:
            cursor.execute(_insert(target), (attempts,))
            rows += cursor.rowcount
            cursor.execute(f"DELETE FROM {name_of(target.stage)} WHERE _attempt = ANY(%s)", (attempts,))
        cursor.execute(
            f"UPDATE {REGISTER} SET query = %s, batch = %s, guard = %s, ends = %s, rows = %s, at = now()"
            " WHERE sink = %s",
            (offer.query, offer.batch, offer.guard, offer.ends, rows, sink),
        )
    return True


def registered(connection: Any, sink: str) -> SinkBody | None:
    """Return the register of a sink; None before its first batch."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s)", (REGISTER,))
        if cursor.fetchone()[0] is None:
            return None
        cursor.execute(f"SELECT query, batch, guard, ends FROM {REGISTER} WHERE sink = %s AND batch >= 0", (sink,))
        found = cursor.fetchone()
    return None if found is None else SinkBody(sink, found[0], found[1], found[2], ends=found[3])


def stage_name(sink: str, token: str, number: int) -> str:
    """Return the name of a stage: those of one sink have one beginning."""
    return f"{_stages(sink)}{token}_{number}"


def drop_stages(connection: Any, sink: str) -> int:
    """Drop the stages that earlier drivers of a sink left; return how many. One that is in use is left for later."""
    dropped = 0
    pattern = _stages(sink).replace("_", "\\_") + "%"
    found = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE %s", (pattern,)).fetchall()
    for (name,) in found:
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
                connection.execute(f"DROP TABLE IF EXISTS {name_of(name)}")
        except Exception as error:
            if getattr(error, "sqlstate", "") != "55P03":  # its lock was not available
                raise
            continue
        dropped += 1
    return dropped


def _stages(sink: str) -> str:
    return f"penstock_stage_{hashlib.sha256(sink.encode()).hexdigest()[:12]}_"


def _locked(cursor: Any, sink: str) -> Register | None:
    """Lock the register of a sink, and return its content."""
    cursor.execute(
        f"INSERT INTO {REGISTER} (sink, query, batch) VALUES (%s, '', -1) ON CONFLICT (sink) DO NOTHING", (sink,)
    )
    cursor.execute(f"SELECT query, batch, guard, ends FROM {REGISTER} WHERE sink = %s FOR UPDATE", (sink,))
    query, batch, guard, ends = cursor.fetchone()
    return None if not query else Register(query, batch, guard, ends)


def create_register(connection: Any) -> None:
    """Make the table of registers."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (REGISTER,))  # two drivers may come at once
        connection.execute(_CREATE)


def _insert(target: TableTarget) -> str:
    columns = ", ".join(name_of(each) for each in target.columns)
    won = f"FROM {name_of(target.stage)} WHERE _attempt = ANY(%s)"
    if target.mode == "append":
        return f"INSERT INTO {name_of(target.table)} ({columns}) SELECT {columns} {won}"
    keys = ", ".join(name_of(each) for each in target.keys)
    newest = [f"{name_of(target.order_by)} DESC NULLS LAST"] if target.order_by else []
    order = ", ".join([keys, *newest, "_n DESC"])
    others = [each for each in target.columns if each not in target.keys]
    insert = (
        f"INSERT INTO {name_of(target.table)} AS old ({columns}) "
        f"SELECT DISTINCT ON ({keys}) {columns} {won} ORDER BY {order} ON CONFLICT ({keys}) DO "
    )
    if not others:
        return insert + "NOTHING"
    changes = ", ".join(f"{name_of(each)} = EXCLUDED.{name_of(each)}" for each in others)
    by = name_of(target.order_by)
    late = f" WHERE old.{by} IS NULL OR old.{by} <= EXCLUDED.{by}" if target.order_by else ""
    return f"{insert}UPDATE SET {changes}{late}"


def _refused(sink: str, what: SinkVerdict, last: Register, offer: BatchOffer) -> PreconditionFailed:
    at = f"batch {last.batch} of query {last.query}"
    this = f"this is {offer.query}, batch {offer.batch}"
    why = {
        SinkVerdict.OTHER_QUERY: "its checkpoint was reset, or two queries share the sink",
        SinkVerdict.OTHER_PLAN: "the batch was planned again with other offsets",
        SinkVerdict.OTHER_BEGIN: "the batch does not begin where the last one ended",
    }.get(what, "a stale driver, or a checkpoint that was rewound")
    step = f"DELETE FROM {REGISTER} WHERE sink = '{sink}', if this query is the right one"
    return PreconditionFailed(
        f"sink {sink} belongs to query {last.query}: it is at {at}, and {this}: {why}", next_step=step
    )


def name_of(name: str) -> str:
    """Return a name as SQL takes it: `schema.table` has two parts."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def names(columns: Iterable[str]) -> str:
    return ", ".join(name_of(each) for each in columns)
