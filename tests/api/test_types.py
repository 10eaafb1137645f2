"""A type checker knows the API: it accepts a user's script, and finds each mistake in another."""

import subprocess
import sys
from pathlib import Path

from penstock.plumbing.process.blocking import made_methods
from penstock_lab.papers import stubs

GOOD = """
from collections.abc import Iterator

import penstock
import penstock.errors
import penstock.spi


def script() -> None:
    with penstock.connect("127.0.0.1:7070") as stock:
        orders: penstock.Journal = stock.journal("shop/orders").create(exists_ok=True)
        done: penstock.Appended = orders.append(b"...", timeout=3)
        with orders.publisher() as publish:
            publish({"sku": "kettle"})
        found: Iterator[penstock.Message] = orders.read(done.begin)
        print([message.value for message in found])
        shop: penstock.Repository = stock.lake("shop")
        main: penstock.Branch = shop.branch("main")
        main["prices.csv"] = b"1"
        with main.transaction("new prices") as changes:
            changes["prices.csv"] = b"2"
        commit: penstock.Commit | None = changes.committed
        try:
            shop.merge("experiment", into="main")
        except penstock.errors.MergeConflict as error:
            print(error.details, commit)


async def coroutine(framing: penstock.spi.Framing) -> None:
    async with penstock.aio.connect() as stock:
        orders: penstock.aio.Journal = stock.journal("shop/orders")
        async for message in orders.read(framing=framing):
            print(message.value)
        main: penstock.aio.Branch = stock.lake("shop").branch("main")
        data: bytes = await main.read("prices.csv")
        print(data)


class Count(penstock.Application[dict[str, int]]):
    def consume(self, message: penstock.Message, store: dict[str, int], publish: penstock.Publish) -> None:
        store["count"] = store.get("count", 0) + 1
"""
BAD = """
import penstock

stock = penstock.connect()
stock.journal("a").create(replicas=3)
stock.journal("a").append("text")
stock.lake("shop").branch("main").commit()
stock.lake("shop").branch("main").put("a", b"", contenttype="x")
penstock.QuorumLog("127.0.0.1").append(b"", ack="most")
stock.lake("shop").nothing()
x: int = stock.lake("shop").branches()
"""


def checked(script: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    (folder / "script.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), "script.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110, check=False)


def test_a_users_script_is_checked(tmp_path: Path) -> None:
    both = checked(GOOD + BAD.replace("import penstock\n", ""), tmp_path)
    first = len(GOOD.splitlines()) + 4
    lines = sorted({int(line.split(":")[1]) for line in both.stdout.splitlines() if ": error:" in line})
    assert lines == [*range(first, first + 7)], both.stdout


def test_blocking_classes_have_every_method_of_the_asynchronous_ones() -> None:
    for name in stubs.MODULES:
        stubs.stub_of(name)
    made = {kind.__name__: set(members) for kind, members in made_methods().items()}
    assert {"append", "create", "__repr__"} <= made["Journal"]
    assert {"put", "commit", "transaction", "revert"} <= made["Branch"]
    assert {"append", "read", "watch", "explain", "reset_head", "prune"} <= made["BlockingJournals"]
    assert {"append", "subscribe", "take_snapshot"} <= made["BlockingQuorumLog"]
