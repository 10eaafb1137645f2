"""The bank as real processes: three brokers, three consumers, PostgreSQL; transfers all the time; faults; an audit."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from penstock.cli.consumers.consumer import load_application
from penstock.cli.consumers.shard_specs import shard_changes_in
from penstock.cli.journals.journal_specs import changes_in
from penstock.consumers.client.definition import root_of
from penstock.consumers.client.shards import Shards
from penstock.consumers.client.status import ShardCode
from penstock.consumers.stores.application import ShardContext
from penstock.journals.client.journal import Journals
from penstock.journals.client.messages import MessagePublisher
from penstock.kernel.errors import PenstockError, Unavailable
from penstock.kernel.ids import Offset
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.server.cluster.local import LocalCluster

EXAMPLE = Path(__file__).parents[2] / "examples/bank"
ACCOUNTS = 40
LEASE_MS = 5_000
READY_S = 120.0
FROZEN_S = 40.0


class Consumers:
    """Processes c1, c2, c3, which can be killed, frozen and started again."""

    def __init__(self, folder: Path, database: str, lease_ms: int) -> None:
        self.lease_ms = lease_ms
        self.names = ["c1", "c2", "c3"]
        self._folder = folder
        self._environment = {**os.environ, "BANK_DATABASE": database, "PENSTOCK_LOG_FORMAT": "json"}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        arguments = ["consumer", "run", str(EXAMPLE / "bank.py"), "--id", name, "--lease", f"{self.lease_ms}ms"]
        arguments += ["--cluster", str(self._folder), "--folder", str(self._folder / name)]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "penstock", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
            )

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        self._running[name].send_signal(number)
        if number is signal.SIGKILL:
            self._running[name].wait()

    async def ended(self, name: str) -> None:
        """Until this life of it has ended."""
        async with asyncio.timeout(READY_S):
            await asyncio.to_thread(self._running[name].wait)

    def start_dead(self) -> None:
        """Start dead processes, as a supervisor does: a machine under load may cost a process its lease, and then it
        ends.
        """
        for name, running in list(self._running.items()):
            if running.poll() is not None:
                self.start(name)

    def stop_all(self) -> None:
        for running in self._running.values():
            if running.poll() is None:
                running.send_signal(signal.SIGCONT)
                running.kill()
            running.wait()

    def log_tail(self) -> str:
        return "\n".join(
            line
            for name in self.names
            for line in (self._folder / f"{name}.log").read_text(errors="replace").splitlines()[-10:]
        )


class Drill:
    """All processes, and the requests to the bank."""

    def __init__(
        self, cluster: LocalCluster, consumers: Consumers, journals: Journals, keyspace: EmbeddedKeySpace, database: str
    ) -> None:
        self.cluster = cluster
        self.consumers = consumers
        self.journals = journals
        self.keyspace = keyspace
        self.database = database
        self.shards = Shards(keyspace, "bank")
        self.is_over = False  # for the tellers,
        self.is_audited = False  # and for the supervisor
        self.transfers: dict[str, tuple[str, str, int]] = {}
        self._took = asyncio.Event()
        self.taken = 0  # transfers which were acknowledged
        self.ends: dict[str, Offset] = {}  # of the journals of transfers
        self.faults: Counter[str] = Counter()
        bank, _ = load_application(str(EXAMPLE / "bank.py"))
        self.bank: Any = bank
        self.module: Any = sys.modules["bank"]

    # Work

    async def transfer(self, teller: str, rng: Random, pause_s: float = 0.002) -> None:
        """Publish transfers until it is over; each once, through whatever happens to the brokers."""
        number = 0
        async with MessagePublisher(self.journals) as publish:
            while not self.is_over:
                number += 1
                name, amount = f"{teller}-{number}", rng.randrange(1, 50)
                source, target = (f"a{each}" for each in rng.sample(range(ACCOUNTS), 2))
                self.transfers[name] = (source, target, amount)
                journal = self.module.transfers_of(source.encode())
                order = {"id": name, "from": source, "to": target, "amount": amount}
                done = await publish(journal, order)
                self.taken += 1
                self._took.set()
                self.ends[journal] = max(done.end, self.ends.get(journal, Offset(0)))
                await asyncio.sleep(pause_s)

    async def settled(self) -> dict[str, Offset]:
        """Wait until every transfer has taken its full effect: the debits, and their publications."""
        credited: dict[str, Offset] = {}
        for journal, end in self.ends.items():
            stat = await self._stat(f"bank-{journal[-1]}", {journal: end})
            credited |= {name: max(at, credited.get(name, at)) for name, at in stat.items()}
        for journal, end in credited.items():
            await self._stat(f"bank-{journal[-1]}", {journal: end})
        return credited

    async def _stat(self, shard: str, through: dict[str, Offset]) -> dict[str, Offset]:
        deadline = time.monotonic() + READY_S
        while True:
            try:
                return (await self.shards.stat(shard, through, timeout=5.0)).publish_at
            except PenstockError as error:
                if time.monotonic() > deadline:
                    raise Unavailable(f"{error}\n{self.consumers.log_tail()}") from None
                await asyncio.sleep(0.1)

    async def ready(self) -> None:
        """Until every shard has a primary."""
        for number in range(4):
            await self._stat(f"bank-{number}", {})

    # Faults

    async def supervise(self) -> None:
        """Start again whatever has ended, until the audit."""
        while not self.is_audited:
            self.consumers.start_dead()
            for name in self.cluster.names("broker"):
                self.cluster.start(name)
            await asyncio.sleep(0.2)

    async def kill_a_consumer(self, rng: Random) -> None:
        self.consumers.kill(rng.choice(self.consumers.names))
        await self.ready()

    async def kill_a_primary(self, rng: Random) -> None:
        """The process which consumes a shard right now."""
        name = await self._primary(f"bank-{rng.randrange(4)}")
        self.consumers.kill(name)
        await self.ready()

    async def freeze_a_primary(self, rng: Random) -> None:
        """Until others have taken over: it wakes up as a zombie, and must end without doing harm."""
        shard = f"bank-{rng.randrange(4)}"
        while not await self._freeze_until_replaced(shard, await self._primary(shard)):
            pass

    async def _freeze_until_replaced(self, shard: str, name: str) -> bool:
        """False: it was frozen while it held the KeySpace's lock, and all others were as good as frozen with it.

        A shard may change hands for other reasons; a process that keeps its lease meanwhile is no zombie, and
        continues.
        """
        ended = asyncio.create_task(self.consumers.ended(name))
        self.consumers.kill(name, signal.SIGSTOP)
        try:
            async with asyncio.timeout(FROZEN_S):
                await self._lease_lost(name)
                await self._primary(shard, other_than=name)
        except TimeoutError:
            ended.cancel()
            return False
        finally:
            self.consumers.kill(name, signal.SIGCONT)
        await ended
        return True

    async def _lease_lost(self, name: str) -> None:
        while True:
            if not (await self.keyspace.range(f"{root_of('bank')}/members/local#{name}")).entries:
                return
            await asyncio.sleep(0.1)

    async def freeze_a_consumer_briefly(self, rng: Random) -> None:
        """It keeps its lease."""
        name = rng.choice(self.consumers.names)
        self.consumers.kill(name, signal.SIGSTOP)
        await asyncio.sleep(0.3)
        self.consumers.kill(name, signal.SIGCONT)
        await self.ready()

    async def kill_a_broker(self, rng: Random) -> None:
        self.cluster.kill(rng.choice(self.cluster.names("broker")))
        await self.more(20)

    async def freeze_a_broker_briefly(self, rng: Random) -> None:
        name = rng.choice(self.cluster.names("broker"))
        self.cluster.kill(name, signal.SIGSTOP)
        await asyncio.sleep(0.5)
        self.cluster.kill(name, signal.SIGCONT)
        await self.more(20)

    async def more(self, transfers: int) -> None:
        """Wait for `transfers` more transfers."""
        wanted = self.taken + transfers
        async with asyncio.timeout(READY_S):
            while self.taken < wanted:
                self._took.clear()
                await self._took.wait()

    async def _primary(self, shard: str, other_than: str = "") -> str:
        """Return the primary of a shard, as soon as it has one."""
        async with asyncio.timeout(READY_S):
            while True:
                primary = (await self.shards.get(shard)).primary
                name = primary.consumer.partition("#")[2] if primary is not None else other_than
                if primary is not None and primary.status.code is ShardCode.PRIMARY and name != other_than:
                    return name
                await asyncio.sleep(0.1)

    # Audit

    async def audit(self) -> dict[str, int]:
        """Every transfer happened once, on both sides, and no money was made or lost."""
        await self.settled()
        self.is_audited = True
        self.consumers.stop_all()
        balances: dict[str, int] = {}
        entries: Counter[tuple[str, str, int]] = Counter()
        for found_balances, found_entries in (await asyncio.to_thread(self._in_postgres), await self._in_sqlite()):
            assert not set(balances) & set(found_balances), "an account is in two stores"
            balances |= found_balances
            entries.update(found_entries)
        expected: Counter[tuple[str, str, int]] = Counter()
        changes: Counter[str] = Counter()
        for name, (source, target, amount) in self.transfers.items():
            expected.update([(name, source, -amount), (name, target, amount)])
            changes.update({source: -amount, target: amount})
        assert entries == expected, _difference(entries, expected)
        opening = self.module.OPENING
        assert balances == {account: opening + change for account, change in changes.items()}
        assert sum(balances.values()) == opening * len(balances)
        return {"transfers": len(self.transfers), "accounts": len(balances), "entries": sum(entries.values())}

    def _in_postgres(self) -> tuple[dict[str, int], list[tuple[str, str, int]]]:
        with psycopg.connect(self.database.replace("+psycopg", "")) as connection:
            rows = connection.execute("SELECT account, balance FROM accounts").fetchall()
            balances: dict[str, int] = dict(rows)
            return balances, connection.execute("SELECT transfer, account, amount FROM entries").fetchall()

    async def _in_sqlite(self) -> tuple[dict[str, int], list[tuple[str, str, int]]]:
        """Return the state in the recovery logs: nothing of the consumers' files is looked at."""
        balances: dict[str, int] = {}
        entries: list[tuple[str, str, int]] = []
        for number in (2, 3):
            context = ShardContext(
                f"bank-{number}", self.journals, f"recovery/bank-{number}", self.keyspace, root_of("bank"),
                self.cluster.folder / "audit",
            )  # fmt: skip
            store = self.bank.open_store(context)
            try:
                await store.restore()
                connection = await store.transaction()
                balances |= dict(connection.execute("SELECT account, balance FROM accounts").fetchall())
                entries += connection.execute("SELECT transfer, account, amount FROM entries").fetchall()
            finally:
                await store.close()
        return balances, entries


def _difference(entries: Counter[Any], expected: Counter[Any]) -> str:
    lost, extra = list((expected - entries).items()), list((entries - expected).items())
    return f"{len(lost)} lost, like {lost[:3]}; {len(extra)} too many, like {extra[:3]}"


@asynccontextmanager
async def running_bank(folder: Path, database: str, lease_ms: int = LEASE_MS) -> AsyncIterator[Drill]:
    """Brokers, journals, shards and consumers; when this returns, every shard is consumed."""
    cluster = LocalCluster.create(folder, nodes=0, brokers=3, lease_ms=lease_ms)
    consumers = Consumers(folder, database, lease_ms)
    try:
        cluster.start_all()
        for name in consumers.names:
            consumers.start(name)
        async with (
            Journals(cluster.addresses("broker")) as journals,
            await EmbeddedKeySpace.open(folder / "keyspace") as keyspace,
        ):
            await _create(journals)
            drill = Drill(cluster, consumers, journals, keyspace, database)
            supervisor = asyncio.create_task(drill.supervise())
            await drill.shards.apply(shard_changes_in(Path("shards.yaml"), (EXAMPLE / "shards.yaml").read_bytes())[1])
            try:
                await drill.ready()
                yield drill
            finally:
                drill.is_over = drill.is_audited = True
                await supervisor
    finally:
        consumers.stop_all()
        cluster.stop_all()


async def _create(journals: Journals) -> None:
    changes = changes_in(Path("journals.yaml"), (EXAMPLE / "journals.yaml").read_bytes())
    async with asyncio.timeout(READY_S):
        while True:
            try:
                await journals.apply(changes)
                return
            except Unavailable:
                await asyncio.sleep(0.05)
