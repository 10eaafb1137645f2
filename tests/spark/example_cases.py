"""The pipelines in `examples/pipelines`: rows for their journals, and their batch answers, computed by plain Python.

Rows come in two parts, and a run follows each. Late rows are late by less than the watermark.
"""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

__all__ = ["CASES", "Case", "World"]

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
Rows = dict[str, list[Any]]  # of each journal; bytes are a line as it is


class World:
    """What a case asks about a finished run."""

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table of the lake."""
        raise NotImplementedError

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query in the database."""
        raise NotImplementedError

    def messages(self, journal: str) -> list[dict[str, Any]]:
        """Return the committed messages of a journal."""
        raise NotImplementedError


class Case(msgspec.Struct, frozen=True):
    """An example with its data."""

    file: str
    parts: tuple[Rows, Rows]
    found: Callable[[World], list[Any]]
    answer: list[Any]
    tables: tuple[Rows, Rows] = ({}, {})  # of the lake, written before each part
    second_file: str = ""  # for the second part
    first: str = "run"  # the command for the first part
    more: tuple[str, ...] = ()  # journals that have no rows

    @property
    def journals(self) -> list[str]:
        return sorted({name for part in self.parts for name in part} | set(self.more))


def at(second: float) -> str:
    return (NOON + timedelta(seconds=second)).isoformat().replace("+00:00", "Z")


def halves(journal: str, rows: list[Any]) -> tuple[Rows, Rows]:
    middle = len(rows) // 2
    return {journal: rows[:middle]}, {journal: rows[middle:]}


def ordered(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)


def sessions() -> Case:
    rng = random.Random(1)
    clicks = [(f"u{rng.randrange(5)}", number * 90.0 + rng.uniform(-25, 25)) for number in range(160)]
    rows = [{"user": user, "page": "/", "at": at(round(second, 3))} for user, second in clicks]
    rows.append({"user": "last", "page": "/", "at": at(200_000)})  # every other session is over then
    answer = []
    for user in {user for user, _ in clicks}:
        begin, end, count = -1e9, -1e9, 0
        for second in [*sorted(round(second, 3) for who, second in clicks if who == user), 1e9]:
            if second >= end:
                if count:
                    answer.append((user, at(begin), at(end), count))
                begin, count = second, 0
            end, count = second + 600, count + 1
    return Case(
        "sessions/sessions.py",
        halves("sessions/clicks", rows),
        lambda world: [
            (row["user"], stamp(row["begin"]), stamp(row["end"]), row["clicks"]) for row in world.table("sessions")
        ],
        answer,
    )


def stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def stream_join() -> Case:
    rng = random.Random(2)
    shown = [(ad, ad * 20.0) for ad in range(120)]
    clicked = [(ad, second + rng.uniform(-60, 700)) for ad, second in shown if rng.random() < 0.6]
    clicked.sort(key=lambda each: each[1])
    one = [{"ad": ad, "page": f"/p{ad % 3}", "at": at(second)} for ad, second in shown]
    two = [{"ad": ad, "at": at(round(second, 3))} for ad, second in clicked]
    first, second = halves("ads/shown", one), halves("ads/clicked", two)
    times = dict(shown)
    pairs = [(ad, f"/p{ad % 3}", at(round(when, 3))) for ad, when in clicked if 0 <= round(when, 3) - times[ad] <= 600]
    return Case(
        "stream_join/stream_join.py",
        ({**first[0], **second[0]}, {**first[1], **second[1]}),
        lambda world: [(row["ad"], row["page"], stamp(row["clicked_at"])) for row in world.table("ads")],
        pairs,
    )


def newest_row() -> Case:
    rng = random.Random(3)
    rows: list[dict[str, Any]] = []
    for version in range(150):
        late = max(0, version - rng.randrange(4))
        rows.append({"id": late % 11, "version": late, "name": f"n{late}", "deleted": late % 7 == 0})
    newest: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["version"] >= newest.get(row["id"], {"version": -1})["version"]:
            newest[row["id"]] = row
    return Case(
        "newest_row/newest_row.py",
        halves("customers/changes", rows),
        lambda world: [(row["id"], row["version"], row["name"]) for row in world.table("customers")],
        [(row["id"], row["version"], row["name"]) for row in newest.values() if not row["deleted"]],
    )


def enrichment() -> Case:
    rows = [{"id": id_, "sku": f"s{id_ % 4}", "quantity": id_ % 5} for id_ in range(120)]
    prices = (
        [{"sku": f"s{at}", "price": at + 1} for at in range(3)],
        [{"sku": f"s{at}", "price": 10} for at in range(4)],
    )
    parts = halves("priced/orders", rows)
    answer = []
    for part, table in zip(parts, prices, strict=True):
        known = {row["sku"]: row["price"] for row in table}
        mine = [row for row in part["priced/orders"] if row["sku"] in known]
        answer += [(row["id"], row["sku"], row["quantity"] * known[row["sku"]]) for row in mine]
    return Case(
        "enrichment/enrichment.py",
        parts,
        lambda world: [(row["id"], row["sku"], row["amount"]) for row in world.table("priced")],
        answer,
        tables=({"products": prices[0]}, {"products": prices[1]}),
    )


def bad_lines() -> Case:
    rows: list[Any] = [{"sensor": f"s{n % 3}", "value": n / 2} for n in range(200)]
    for place in (17, 90, 91, 160):
        rows.insert(place, b'{"sensor": "cut sh\n')
    return Case(
        "bad_lines/bad_lines.py",
        halves("readings/raw", rows),
        lambda world: [(row["sensor"], row["value"]) for row in world.table("readings")],
        [(row["sensor"], row["value"]) for row in rows if isinstance(row, dict)],
    )


def new_column() -> Case:
    before = [{"id": n, "kind": f"k{n % 2}"} for n in range(80)]
    after = [{"id": n, "kind": f"k{n % 2}", "colour": "red"} for n in range(80, 160)]
    return Case(
        "new_column/before.py",
        ({"events/all": before}, {"events/all": after}),
        lambda world: [(row["id"], row.get("colour")) for row in world.table("events")],
        [(row["id"], row.get("colour")) for row in [*before, *after]],
        second_file="new_column/after.py",
    )


def backlog() -> Case:
    rows = [{"id": n, "amount": f"{n % 9}.50" if n % 10 else "-1.00"} for n in range(400)]
    return Case(
        "backlog/backlog.py",
        ({"backlog/orders": rows[:360]}, {"backlog/orders": rows[360:]}),
        lambda world: [row["id"] for row in world.table("backlog")],
        [n for n in range(400) if n % 10],
        first="backfill",
    )


def mart() -> Case:
    rows: list[dict[str, Any]] = [{"id": n, "sku": f"s{n % 4}", "amount": f"{n}.25"} for n in range(200)]
    totals = {
        sku: (sku, sum(Decimal(row["amount"]) for row in rows if row["sku"] == sku), 50)
        for sku in {row["sku"] for row in rows}
    }
    return Case(
        "mart/mart.py",
        halves("mart/orders", rows),
        lambda world: [*world.query("SELECT sku, amount, orders FROM totals"), *world.query("SELECT id FROM orders")],
        [*totals.values(), *((n,) for n in range(200))],
    )


def many_journals() -> Case:
    parts = tuple({f"meters/m{m:03d}": [{"n": n + 10 * part} for n in range(3)] for m in range(20)} for part in (0, 1))
    return Case(
        "many_journals/many_journals.py",
        (parts[0], parts[1]),
        lambda world: [(row["meter"], row["n"]) for row in world.table("meters")],
        [(name.partition("/")[2], row["n"]) for part in parts for name, rows in part.items() for row in rows],
    )


def journal_filter() -> Case:
    rows: list[dict[str, Any]] = [{"id": n, "amount": f"{(n * 37) % 200}.00"} for n in range(300)]
    return Case(
        "filter/filter.py",
        halves("filter/orders", rows),
        lambda world: [row["id"] for row in world.messages("filter/large")],
        [row["id"] for row in rows if float(row["amount"]) >= 100],
        more=("filter/large",),
    )


CASES = {
    each.__name__: each
    for each in (
        *(sessions, stream_join, newest_row, enrichment, bad_lines),
        *(new_column, backlog, mart, many_journals, journal_filter),
    )
}
