"""Each store keeps the contract of `penstock.consumers.core.store`, on real brokers and databases."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import text
from tests.consumers.stores.recoverylog.site import Site, checkpoint, running_site

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.consumers.core.store import Store
from penstock.consumers.stores.sql_store import SqlStore
from penstock.kernel.errors import Fenced


class Kind:
    """A kind of store: how to open one for the shard, and how an application works with it."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def open(self) -> Store[Any]:
        raise NotImplementedError

    def add(self, handle: Any, note: str) -> None:
        raise NotImplementedError

    def notes(self, handle: Any) -> list[str]:
        raise NotImplementedError


class JsonFiles(Kind):
    def open(self) -> Store[Any]:
        return self.site.json()

    def add(self, handle: Any, note: str) -> None:
        handle["notes"].append(note)

    def notes(self, handle: Any) -> list[str]:
        return list(handle["notes"])


class Sqlite(Kind):
    def open(self) -> Store[Any]:
        return self.site.sqlite()

    def add(self, handle: Any, note: str) -> None:
        handle.execute("INSERT INTO notes VALUES (?)", (note,))

    def notes(self, handle: Any) -> list[str]:
        return [row[0] for row in handle.execute("SELECT note FROM notes ORDER BY rowid")]


class Sql(Kind):
    def open(self) -> Store[Any]:
        return SqlStore(f"sqlite:///{self.site.folder.parent}/sql.db", "shard-one", setup=_make_tables)

    def add(self, handle: Any, note: str) -> None:
        handle.execute(text("INSERT INTO notes VALUES (:note)"), {"note": note})

    def notes(self, handle: Any) -> list[str]:
        return [row.note for row in handle.execute(text("SELECT note FROM notes ORDER BY rowid"))]


def _make_tables(connection: Any) -> None:
    connection.execute(text("CREATE TABLE IF NOT EXISTS notes (note TEXT)"))


@pytest.fixture(params=[JsonFiles, Sqlite, Sql])
async def kind(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kind]:
    async with running_site(tmp_path) as site:
        yield request.param(site)


async def write(kind: Kind, store: Store[Any], note: str, offset: int) -> None:
    """Write and commit one transaction."""
    kind.add(await store.transaction(), note)
    await store.seal(checkpoint(offset))
    await store.commit()


async def read(kind: Kind, store: Store[Any]) -> list[str]:
    return kind.notes(await store.transaction())


async def test_what_was_committed_is_restored_and_nothing_else(kind: Kind) -> None:
    store = kind.open()
    assert await store.restore() == Checkpoint()
    await write(kind, store, "first", 10)
    kind.add(await store.transaction(), "not sealed")
    await store.close()
    second = kind.open()
    assert await second.restore() == checkpoint(10)
    assert await read(kind, second) == ["first"]
    kind.add(await second.transaction(), "sealed, not committed")
    await second.seal(checkpoint(20))
    await second.close()
    third = kind.open()
    assert await third.restore() == checkpoint(10)
    assert await read(kind, third) == ["first"]
    await third.close()


async def test_a_transaction_sees_what_those_before_it_changed(kind: Kind) -> None:
    store = kind.open()
    await store.restore()
    await write(kind, store, "first", 1)
    kind.add(await store.transaction(), "second")
    await store.seal(checkpoint(2))
    committing = asyncio.create_task(store.commit())
    assert kind.notes(await store.transaction()) == ["first", "second"]
    await committing
    kind.add(await store.transaction(), "third")
    await store.seal(checkpoint(3))
    await store.commit()
    await store.close()
    again = kind.open()
    assert await again.restore() == checkpoint(3)
    assert await read(kind, again) == ["first", "second", "third"]
    await again.close()


async def test_an_empty_transaction_moves_the_checkpoint(kind: Kind) -> None:
    store = kind.open()
    await store.restore()
    for offset in (1, 2):
        await store.seal(checkpoint(offset))
        await store.commit()
    await store.close()
    again = kind.open()
    assert await again.restore() == checkpoint(2)
    await again.close()


async def test_after_a_restore_no_older_process_can_commit(kind: Kind) -> None:
    old, new = kind.open(), kind.open()
    await old.restore()
    await write(kind, old, "by the old one", 1)
    assert await new.restore() == checkpoint(1)
    with pytest.raises(Fenced):
        await write(kind, old, "by a zombie", 2)
    await old.close()
    await write(kind, new, "by the new one", 3)
    assert await read(kind, new) == ["by the old one", "by the new one"]
    await new.close()


async def test_through_many_lives_with_zombies_the_store_is_that_of_one_perfect_life(kind: Kind) -> None:
    rng = Random(7)
    expected: list[str] = []
    zombies: list[Store[Any]] = []
    offset = 0
    for life in range(6):
        store = kind.open()
        assert await store.restore() == (checkpoint(offset) if offset else Checkpoint())
        assert await read(kind, store) == expected
        for zombie in zombies:
            with pytest.raises(Fenced):
                await write(kind, zombie, "by a zombie", 999)
            await zombie.close()
        zombies = []
        for number in range(rng.randrange(1, 5)):
            offset += 1
            expected.append(f"{life}.{number}")
            await write(kind, store, expected[-1], offset)
        if rng.random() < 0.5 and not isinstance(store, SqlStore):  # its open transaction would hold a lock
            zombies.append(store)
        else:
            await store.close()
    for zombie in zombies:
        await zombie.close()


async def test_closing_twice_or_before_a_restore_is_no_error(kind: Kind) -> None:
    store = kind.open()
    await store.close()
    await store.close()
    other = kind.open()
    await other.restore()
    await other.close()
    await other.close()
