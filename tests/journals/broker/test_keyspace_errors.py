"""Errors of the KeySpace: one of them, of any kind, must not stop a journal."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.journals.broker.cluster import CONFIG, Cluster

from penstock.journals.core.effects import TransactionEnd
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import DiskFull, Indeterminate, LimitExceeded, PenstockError, Unavailable
from penstock.keyspace.core.transaction import Compare, Operation, PutKey, TransactOutcome
from penstock.keyspace.shell.port import KeySpace

ORDERS = JournalSpec(name="shop/orders", replication=1)


class Failing:
    """A KeySpace that fails one transaction for each (prefix, error): the next with a Put there, before or after it."""

    def __init__(self, keyspace: KeySpace) -> None:
        self._keyspace = keyspace
        self.failures: list[tuple[str, PenstockError]] = []
        self.takes_place = False

    async def transact(
        self, compares: Iterable[Compare] = (), then: Iterable[Operation] = (), otherwise: Iterable[Operation] = ()
    ) -> TransactOutcome:
        operations = list(then)
        keys = [each.key for each in operations if isinstance(each, PutKey)]
        if self.failures and any(key.startswith(self.failures[0][0]) for key in keys):
            _, error = self.failures.pop(0)
            if self.takes_place:
                await self._keyspace.transact(compares, operations, otherwise)
            raise error
        return await self._keyspace.transact(compares, operations, otherwise)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._keyspace, name)

    async def __aenter__(self) -> "Failing":
        await self._keyspace.__aenter__()
        return self

    async def __aexit__(self, *of: object) -> None:
        await self._keyspace.__aexit__(*of)


class FailingCluster(Cluster):
    """Brokers with such KeySpaces."""

    last: Failing

    async def _open_keyspace(self) -> KeySpace:
        self.last = Failing(await super()._open_keyspace())
        return self.last


HEADS, FENCE = "/penstock/heads/", "/penstock/assign/"
CASES: dict[str, tuple[list[tuple[str, PenstockError]], bool]] = {
    "unavailable": ([(HEADS, Unavailable("away"))], False),
    "unavailable, and for the fence too": ([(HEADS, Unavailable("away")), (FENCE, Unavailable("away"))], False),
    "unavailable for a while": ([(HEADS, Unavailable("away"))] * 4, False),
    "indeterminate, not done": ([(HEADS, Indeterminate("no answer"))], False),
    "indeterminate, done": ([(HEADS, Indeterminate("no answer"))], True),
    "disk full": ([(HEADS, DiskFull("no room"))], False),
    "limit exceeded": ([(HEADS, LimitExceeded("too large"))], False),
}


async def append_after(tmp_path: Path, name: str, timeout: float) -> None:
    cluster = FailingCluster(tmp_path, CONFIG)
    try:
        await cluster.start("b1")
        failures, cluster.last.takes_place = CASES[name]
        cluster.last.failures = list(failures)
        async with cluster.client() as journals:
            await journals.create(ORDERS)
            done = await journals.append("shop/orders", b"one", timeout=timeout)
            assert not cluster.last.failures
            assert [bytes(chunk.content) async for chunk in journals.read("shop/orders", 0)] == [b"one"]
            assert done.end == 3
    finally:
        await cluster.close()


@pytest.mark.parametrize("name", CASES)
async def test_a_certification_that_meets_an_error_is_made_again(tmp_path: Path, name: str) -> None:
    await append_after(tmp_path, name, timeout=8.0)


@pytest.mark.parametrize("name", ["unavailable", "limit exceeded"])
async def test_an_error_told_as_lost_stops_the_journal(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Put the defect back: a replica that reads LOST waits for a change, and none comes."""
    monkeypatch.setattr(TransactionEnd, "of_error", lambda code: TransactionEnd.LOST)
    with pytest.raises(Unavailable):
        await append_after(tmp_path, name, timeout=1.0)
