"""The SQL store: a sealed transaction commits with its checkpoint or not at all, and a zombie commits nothing."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.orm import Session

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.consumers.stores.sql_store import SqlStore, session_name
from penstock.kernel.errors import ConfigError, Fenced, Indeterminate, InvalidArgument, PenstockError, Unavailable
from penstock.kernel.ids import Offset
from penstock.messages.read_state import ReadState

WAIT_S = 60.0
Opened = Callable[[str], SqlStore]


def checkpoint(offset: int) -> Checkpoint:
    return Checkpoint({"shop/orders": ReadState(Offset(offset))}, {"shop/out": b"ack"})


def make_table(connection: Connection) -> None:
    connection.execute(text("CREATE TABLE IF NOT EXISTS notes (shard VARCHAR(64), note VARCHAR(64))"))


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return str(request.getfixturevalue("postgres"))


@pytest.fixture
def opened(url: str, request: pytest.FixtureRequest) -> Opened:
    """Stores of shards which no other test uses."""
    return lambda name: SqlStore(url, f"{request.node.name}/{name}", setup=make_table)


def notes(url: str, store: SqlStore) -> list[str]:
    engine = create_engine(url)
    with engine.connect() as connection:
        found = connection.execute(text("SELECT note FROM notes WHERE shard = :s ORDER BY 1"), {"s": store.shard[:64]})
        rows = [row.note for row in found]
    engine.dispose()
    return rows


async def note(store: SqlStore, what: str) -> None:
    connection = await store.transaction()
    await asyncio.to_thread(
        connection.execute,
        text("INSERT INTO notes (shard, note) VALUES (:shard, :note)"),
        {"shard": store.shard[:64], "note": what},
    )


async def test_a_new_store_has_an_empty_checkpoint_and_a_committed_one_is_restored(opened: Opened, url: str) -> None:
    store = opened("a")
    assert await store.restore() == Checkpoint()
    await note(store, "first")
    await store.seal(checkpoint(10))
    await store.commit()
    await note(store, "second, which nobody commits")
    await store.close()
    again = opened("a")
    assert await again.restore() == checkpoint(10)
    assert notes(url, again) == ["first"]
    await again.close()


async def test_the_next_transaction_waits_for_the_commit_and_sees_what_it_changed(opened: Opened) -> None:
    store = opened("a")
    await store.restore()
    await note(store, "first")
    await store.seal(checkpoint(1))
    following = asyncio.create_task(store.transaction())
    await asyncio.sleep(0)
    assert not following.done()
    await store.commit()
    connection = await following
    found = await asyncio.to_thread(
        lambda: connection.execute(
            text("SELECT count(*) FROM notes WHERE shard = :s"), {"s": store.shard[:64]}
        ).scalar()
    )
    assert found == 1
    await store.close()


async def test_a_zombie_is_fenced_and_leaves_nothing(opened: Opened, url: str) -> None:
    old, new = opened("a"), opened("a")
    await old.restore()
    await note(old, "committed by the old one")
    await old.seal(checkpoint(1))
    await old.commit()
    assert await new.restore() == checkpoint(1)
    with pytest.raises(Fenced) as fenced:
        await old.seal(checkpoint(2))
    assert not fenced.value.retryable
    await old.close()
    await note(new, "by the new one")
    await new.seal(checkpoint(3))
    await new.commit()
    assert notes(url, new) == ["by the new one", "committed by the old one"]
    await new.close()


async def test_on_postgresql_a_frozen_zombie_holds_up_nobody(postgres: str) -> None:
    """It is in the middle of a transaction, sealed even: it holds locks, and will not let go by itself."""
    old, new = (SqlStore(postgres, "frozen", setup=make_table) for _ in range(2))
    await old.restore()
    await note(old, "never committed")
    await old.seal(checkpoint(2))
    async with asyncio.timeout(WAIT_S):
        assert await new.restore() == Checkpoint()
    with pytest.raises(Indeterminate):
        await old.commit()
    await old.close()
    await note(new, "by the new one")
    await new.seal(checkpoint(3))
    await new.commit()
    assert notes(postgres, new) == ["by the new one"]
    await new.close()


async def test_shards_of_one_database_do_not_fence_each_other(opened: Opened) -> None:
    stores = [opened(name) for name in ("a", "b", "c")]
    assert await asyncio.gather(*(store.restore() for store in stores)) == [Checkpoint()] * 3
    for number, store in enumerate(stores):
        await note(store, "note")
        await store.seal(checkpoint(number))
        await store.commit()
        await store.close()
    again = [opened(name) for name in ("a", "b", "c")]
    for number, store in enumerate(again):
        assert await store.restore() == checkpoint(number)
        await store.close()


async def test_an_application_may_use_a_session(opened: Opened, url: str) -> None:
    store = opened("a")
    await store.restore()
    connection = await store.transaction()

    def work() -> None:
        with Session(connection) as session:
            session.execute(
                text("INSERT INTO notes (shard, note) VALUES (:shard, :note)"),
                {"shard": store.shard[:64], "note": "through a session"},
            )
            session.commit()  # ends the session's part; ours is still open

    await asyncio.to_thread(work)
    assert notes(url, store) == []
    await store.seal(checkpoint(1))
    await store.commit()
    assert notes(url, store) == ["through a session"]
    await store.close()


async def test_a_database_which_is_not_there_is_unavailable() -> None:
    store = SqlStore("postgresql+psycopg://nobody@127.0.0.1:1/nothing", "a")
    with pytest.raises(Unavailable, match="the database failed") as refused:
        await store.restore()
    assert isinstance(refused.value, PenstockError)
    await store.close()


def test_session_names_fit_into_what_postgresql_keeps_of_them() -> None:
    assert len(session_name("x" * 500)) <= 63
    assert session_name("a") != session_name("b")


async def test_a_shard_of_another_group_is_refused_before_its_owner_is_fenced(opened: Opened, url: str) -> None:
    mine = opened("one")
    await mine.restore()
    await note(mine, "mine")
    other = SqlStore(url, mine.shard, owner="/penstock-consumers/other", setup=make_table)
    with pytest.raises(ConfigError, match="this database has the state of that shard of /penstock; expected"):
        await other.restore()
    await other.close()
    await mine.seal(checkpoint(1))
    await mine.commit()
    assert notes(url, mine) == ["mine"]
    await mine.close()


async def test_a_store_made_before_groups_were_kept_is_taken_over_by_the_first(opened: Opened, url: str) -> None:
    store = opened("one")
    await store.restore()
    await store.seal(checkpoint(7))
    await store.commit()
    await store.close()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE penstock_owners"))
    engine.dispose()
    first, second = (SqlStore(url, store.shard, owner=owner, setup=make_table) for owner in ("/a", "/b"))
    assert await first.restore() == checkpoint(7)
    with pytest.raises(ConfigError):
        await second.restore()
    await first.close()
    await second.close()


ENDINGS: dict[str, Callable[[Connection], object]] = {
    "commit": lambda connection: connection.commit(),
    "transaction": lambda connection: connection.get_transaction().commit(),  # type: ignore[union-attr]
    "sql": lambda connection: connection.execute(text(" Commit")),
    "end": lambda connection: connection.exec_driver_sql("END"),
}


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS.keys())
async def test_a_commit_of_the_application_is_refused(
    opened: Opened, url: str, end: Callable[[Connection], object]
) -> None:
    store = opened("one")
    await store.restore()
    await note(store, "never")
    connection = await store.transaction()
    with pytest.raises(InvalidArgument, match="the application may not"):
        await asyncio.to_thread(end, connection)
    with pytest.raises(InvalidArgument, match="the application may not"):
        await store.seal(checkpoint(1))  # the application caught the error
    await store.close()
    assert notes(url, store) == []


@pytest.mark.parametrize("is_session", [False, True])
async def test_nothing_is_sealed_after_a_roll_back_of_the_application(
    opened: Opened, url: str, is_session: bool
) -> None:
    store = opened("one")
    await store.restore()
    await note(store, "never")
    connection = await store.transaction()
    await asyncio.to_thread(Session(connection).rollback if is_session else connection.rollback)
    if not is_session:
        await note(store, "nor this")
        with pytest.raises(InvalidArgument, match="the application may not roll back"):
            await store.seal(checkpoint(1))
    await store.close()
    assert notes(url, store) == []


async def test_savepoints_are_the_applications_own(opened: Opened, url: str) -> None:
    store = opened("one")
    await store.restore()
    connection = await store.transaction()
    inner = await asyncio.to_thread(connection.begin_nested)
    await note(store, "undone")
    await asyncio.to_thread(inner.rollback)
    async with asyncio.timeout(WAIT_S):
        with Session(connection) as session:
            await asyncio.to_thread(session.commit)
    await note(store, "kept")
    await store.seal(checkpoint(1))
    await store.commit()
    await store.close()
    assert notes(url, store) == ["kept"]
