"""The demo's story: orders come in, a pipeline carries them into the lake, faults strike, an auditor counts.

The auditor trusts no component: it knows the orders by their numbers, reads the lake's Parquet files itself, and
compares row by row and cent by cent. Only then is the branch merged.
"""

import asyncio
import io
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.journals.client.journal import Journals
from penstock.journals.client.messages import MessagePublisher
from penstock.kernel.errors import AlreadyExists, NoChanges, PenstockError, Unavailable
from penstock.lake.client.lake import LakeClient, LakeUrl
from penstock.spark.tables.lake_access import LakeAccess
from penstock.spark.tables.lake_tree import files_of
from penstock_lab.demo.demo_shop import PRODUCTS, Findings, ShopFinding, audit, books_of, order
from penstock_lab.demo.demo_stage import JOURNAL, Stage

__all__ = ["FAULTS", "Account", "DemoFault", "Story"]

LOOK_S: Final = 0.5
TELL_S: Final = 3.0
RESTART_S: Final = 1.0
PATIENCE_S: Final = 1200.0  # how long nothing may happen at all: a busy machine starts Spark in minutes
PUBLISH_AT_ONCE: Final = 50
RESTARTS_MAX: Final = 30
LAKE_S: Final = 180.0  # which the lake has to start
INGEST: Final = LakeUrl("shop", "ingest", "orders/")


class DemoFault(msgspec.Struct, frozen=True):
    """A fault: its kind, and the part of the orders that must be in the lake before it strikes."""

    what: str
    part: float


FAULTS: Final = {
    "broker": DemoFault("kill -9 the broker which takes the orders", 0.2),
    "leader": DemoFault("kill -9 the leader of the quorum log", 0.4),
    "driver": DemoFault("kill -9 Spark's driver", 0.6),
}


class Account(msgspec.Struct, frozen=True):
    """How it ended."""

    orders: int
    books: Decimal
    findings: Findings
    commits: int
    faults: tuple[str, ...]
    merged: str
    is_same_on_main: bool
    seconds: float

    @property
    def is_clean(self) -> bool:
        return self.findings.is_clean and self.is_same_on_main

    def verdict(self) -> str:
        return "Every order is there once, to the cent." if self.is_clean else "SOMETHING IS WRONG: a defect."

    def rows(self) -> list[tuple[str, str]]:
        found = self.findings
        return [
            ("orders published", f"{self.orders:,}"),
            ("orders lost", f"{found.lost:,}"),
            ("orders twice", f"{found.doubled:,}"),
            ("rows which say something else", f"{found.strange:,}"),
            ("revenue by the books", f"{self.books:,}"),
            ("revenue in the lake", f"{found.revenue:,}"),
            ("totals per product", "right" if found.totals_right else "WRONG"),
            ("commits of the pipeline", f"{self.commits:,}"),
            ("killed on the way", f"{len(self.faults)} processes" if self.faults else "nothing"),
            ("merged into main after the audit", self.merged[:12] or "no"),
            ("seconds", f"{self.seconds:,.0f}"),
        ]

    def as_data(self) -> dict[str, Any]:
        return {
            "ok": self.is_clean,
            "orders": self.orders,
            "lost": self.findings.lost,
            "doubled": self.findings.doubled,
            "strange": self.findings.strange,
            "revenue": str(self.findings.revenue),
            "books": str(self.books),
            "totals_right": self.findings.totals_right,
            "commits": self.commits,
            "faults": list(self.faults),
            "merged": self.merged,
            "seconds": round(self.seconds, 1),
        }


class Story:
    """One run of the demo."""

    def __init__(
        self, stage: Stage, say: Callable[[str], None], *, orders: int, seconds: float, faults: Sequence[str]
    ) -> None:
        self.stage = stage
        self._say = say
        self._orders = orders
        self._seconds = seconds
        self._faults = sorted(faults, key=lambda name: FAULTS[name].part)
        self._published = 0
        self._in_lake = 0
        self._restarts = 0
        self._begun = time.monotonic()

    async def run(self) -> Account:
        say, stage = self._say, self.stage
        say(f"starting 3 brokers, 3 quorum nodes, an operator and a lake in {stage.folder} …")
        await stage.start()
        await asyncio.to_thread(self._open_shop)
        say(f"the shop is open: {self._orders:,} orders to come; starting Spark …")
        stage.start_pipeline()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._publish())
            tasks.create_task(self._tell())
            watching = tasks.create_task(self._strike())
        assert watching.done()
        say("everything is in the lake; the audit begins")
        stage.end("pipeline")
        return await asyncio.to_thread(self._close)

    # before

    def _open_shop(self) -> None:
        """A repository with the products in it, and a branch for the pipeline to write to."""
        lake = self.stage.lake
        made = {"name": "shop", "storage_namespace": "local://shop"}
        with suppress(AlreadyExists):  # asked again, because the first answer was lost; so below
            lake.ask("POST", "/repositories", made, patience_s=LAKE_S)
        names = {"sku": list(PRODUCTS), "name": [name for name, _ in PRODUCTS.values()]}
        file = io.BytesIO()
        pq.write_table(pa.table(names), file)
        file.seek(0)
        with LakeClient(lake.url, lake.key, lake.secret) as client:
            client.upload(LakeUrl("shop", "main", "products/all.parquet"), file)
        with suppress(NoChanges):
            lake.ask("POST", "/repositories/shop/branches/main/commits", {"message": "products"})
        with suppress(AlreadyExists):
            lake.ask("POST", "/repositories/shop/branches", {"name": "ingest", "source": "main"})

    # meanwhile

    async def _publish(self) -> None:
        """Orders at an even pace, in order, through whatever happens to brokers."""
        pause = self._seconds * PUBLISH_AT_ONCE / self._orders
        async with Journals(self.stage.brokers) as journals, MessagePublisher(journals) as publish:
            while self._published < self._orders:
                end = min(self._orders, self._published + PUBLISH_AT_ONCE)
                await publish(JOURNAL, *(order(number) for number in range(self._published, end)))
                self._published = end
                await asyncio.sleep(pause)

    async def _strike(self) -> None:
        """Faults at their time; until all orders are in the lake, rows and totals alike."""
        left = list(self._faults)
        last_change, last = time.monotonic(), -1
        while True:
            self._in_lake, totals = await asyncio.to_thread(self._look)
            if self._in_lake != last:
                last_change, last = time.monotonic(), self._in_lake
            if left and self._in_lake >= FAULTS[left[0]].part * self._orders:
                await self._blow(left.pop(0))
            if not left and self._in_lake >= self._orders and totals >= self._orders:
                return
            self._supervise()
            if time.monotonic() - last_change > PATIENCE_S:
                raise Unavailable(f"no order came for {PATIENCE_S:.0f} s:\n{self.stage.last_words('pipeline')}")
            await asyncio.sleep(LOOK_S)

    def _supervise(self) -> None:
        """Whatever ends by itself is started again, as a supervisor would: but not for ever."""
        for name in self.stage.ended():
            self._restarts += 1
            words = self.stage.last_words(name)
            if self._restarts > RESTARTS_MAX:
                raise Unavailable(f"{name} has ended, and nothing is started more than {RESTARTS_MAX} times:\n{words}")
            self._say(
                f"  {name} has ended ({words.splitlines()[-1][:120] if words else 'no words'}); starting it again"
            )
            self.stage.start_again(name)

    async def _blow(self, name: str) -> None:
        self._say(f"  {FAULTS[name].what}")
        stage = self.stage
        if name == "driver":
            stage.kill("pipeline")
            await asyncio.sleep(RESTART_S)
            stage.start_pipeline()
            return
        find: dict[str, Callable[[], Awaitable[str]]] = {"broker": stage.primary, "leader": stage.leader}
        process = await find[name]()
        stage.cluster.kill(process)
        await asyncio.sleep(RESTART_S)
        stage.cluster.start(process)
        self._say(f"  {process} is started again")

    def _look(self) -> tuple[int, int]:
        """Return how many orders the newest commits claim to have: in rows, and in totals."""
        rows, totals = 0, 0
        try:
            for commit in _log(self.stage.lake):
                said = commit["metadata"]
                if said.get("penstock.sink") == "demo.enriched":
                    rows += int(said["penstock.rows"])
            if rows >= self._orders:
                totals = sum(count for count, _ in _totals(self.stage.lake, "ingest").values())
        except PenstockError:
            return self._in_lake, 0  # the lake is busy with a new leader: look again
        return rows, totals

    async def _tell(self) -> None:
        while self._in_lake < self._orders:
            await asyncio.sleep(TELL_S)
            seconds = time.monotonic() - self._begun
            self._say(f"{seconds:5.0f} s   {self._published:8,} published   {self._in_lake:8,} in the lake")

    # after

    def _close(self) -> Account:
        lake = self.stage.lake
        books = books_of(self._orders)
        findings = audit(books, _found(lake, "ingest"))
        commits = sum("penstock.sink" in each["metadata"] for each in _log(lake))
        merged, is_same = "", False
        if findings.is_clean:
            body = {"message": "Orders, audited", "metadata": {"audit": "passed"}}
            with suppress(NoChanges):
                lake.ask("POST", "/repositories/shop/refs/ingest/merge/main", body)
            merged = lake.ask("GET", "/repositories/shop/branches/main")["commit_id"]
            is_same = audit(books, _found(lake, "main")).is_clean
        return Account(
            self._orders,
            books.revenue,
            findings,
            commits,
            tuple(FAULTS[name].what.removeprefix("kill -9 ") for name in self._faults),
            merged,
            is_same,
            time.monotonic() - self._begun,
        )


def _log(lake: LakeAccess) -> list[dict[str, Any]]:
    return lake.pages("/repositories/shop/refs/ingest/commits")


def _table(lake: LakeAccess, ref: str, path: str) -> pa.Table:
    """A table's files, read as they lie in the store: no part of the pipeline is asked."""
    files = files_of(lake, LakeUrl("shop", ref, path)).files
    return pa.concat_tables(pq.read_table(Path(unquote(urlsplit(each.url).path))) for each in files)


def _totals(lake: LakeAccess, ref: str) -> dict[str, tuple[int, Decimal]]:
    try:
        rows = _table(lake, ref, "totals/").to_pylist()
    except pa.ArrowInvalid:
        return {}  # there are no files yet
    return {row["sku"]: (row["orders"], row["amount"]) for row in rows}


def _found(lake: LakeAccess, ref: str) -> ShopFinding:
    rows = _table(lake, ref, "orders/").to_pylist()
    return ShopFinding([(row["id"], row["sku"], row["name"], row["amount"]) for row in rows], _totals(lake, ref))
