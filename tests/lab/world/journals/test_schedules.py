"""Schedules of faults that once lost something, as fixed scripts: X1 to X6 of rooms.md, and those a world found."""

import errno
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import msgspec
import pytest

from penstock.journals.broker.config import BrokerConfig
from penstock.journals.client.journal import Journals
from penstock.journals.core.config import JournalConfig
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import Indeterminate, InvalidArgument, PenstockError, Unavailable
from penstock.kernel.ids import MILLISECOND
from penstock.keyspace.core.transaction import Transaction
from penstock_lab.world.guard import guarded
from penstock_lab.world.journals.judge import judge
from penstock_lab.world.journals.ledger import JournalsLedger
from penstock_lab.world.journals.mutants import MUTANTS
from penstock_lab.world.journals.run import ask
from penstock_lab.world.journals.site import MESSAGES, STORE, JournalsSettings, JournalsSite
from penstock_lab.world.mutants import broken
from penstock_lab.world.stories import telling
from penstock_lab.world.world import World, WorldFailed

ORDERS = "shop/orders"
HOUR_MS = 3_600_000


def settings(brokers: int = 3, replication: int = 3, *, fsync: bool = True, length: int = 4 << 10) -> JournalsSettings:
    fragment = FragmentSpec(length=length, stores=(STORE,), refresh_interval_ms=1_000)
    specs = [
        JournalSpec(name=name, replication=replication, fsync=fsync, fragment=fragment) for name in (ORDERS, MESSAGES)
    ]
    core = JournalConfig(retry_ns_max=500 * MILLISECOND, pulse_ns=1_000 * MILLISECOND)
    return JournalsSettings(
        brokers=brokers,
        clients=1,
        writers=4,
        journals=tuple(specs),
        config=BrokerConfig(lease_ms=2_000, drain_s=2.0, reopen_s=0.5, late_upload_ms=1_000, core=core),
        pause_s=0.05,
        records=300,
        sizes=(50, 400),
        timeouts_s=(10.0,),
        run_s=6.0,
    )


def played(script: Callable[[JournalsSite], Any], of: JournalsSettings | None = None, seed: int = 1) -> JournalsSite:
    """Play a script from second 2 on, while clients write; then calm, and the judge."""
    world = World(seed)
    with telling(world), guarded(world):
        site = JournalsSite(world, (), of or settings())
        site.scene.run(1.0)
        script(site)
        site.scene.run(site.settings.run_s)
        site.is_over = True
        site.scene.calm()
        site.scene.run(site.settings.calm_s)
        ask(site)
        world.check()
    assert site.ledger.counts()["acknowledged"] > 60
    return site


def after(site: JournalsSite, seconds: float, do: Callable[[], Any]) -> None:
    site.world.after(int(seconds * 1e9), do)


def full(site: JournalsSite, name: str, seconds: float, code: int = errno.ENOSPC) -> None:
    trouble = site.scene.computers[name].files.trouble
    trouble.is_full, trouble.full_code = True, code
    after(site, seconds, trouble.heal)


def kill(site: JournalsSite, name: str) -> None:
    life = site.scene.life(name)
    if life is not None:
        life.kill()


@pytest.mark.parametrize("seconds", [0.001, 1.5])
def test_x1_a_disk_is_full_between_a_state_and_its_save(seconds: float) -> None:
    happened: list[str] = []

    def script(site: JournalsSite) -> None:
        def at_sync(operation: str, path: str) -> int:
            if operation == "fdatasync" and "open-" in path and not happened:
                happened.append(path)
                full(site, "b1", seconds)
            return 0

        site.scene.computers["b1"].files.trouble.script = at_sync
        after(site, 2.5, lambda: kill(site, "b1"))

    played(script, settings(1, 1))
    assert happened


def test_x2_all_disks_are_full() -> None:
    def script(site: JournalsSite) -> None:
        for name in site.scene.servers:
            full(site, name, 3.0, errno.EDQUOT)

    played(script)


def test_x3_a_disk_is_full_while_fragments_wait_for_the_store() -> None:
    def script(site: JournalsSite) -> None:
        for bucket in site.scene.buckets.values():
            bucket.trouble.is_away = True
            after(site, 4.0, bucket.trouble.heal)
        after(site, 1.0, lambda: full(site, "b1", 2.0))
        after(site, 2.0, lambda: site.scene.life("b1").kill())  # type: ignore[union-attr]

    played(script, settings(1, 1, length=1 << 10))


def test_x4_one_flipped_byte_with_intact_replicas() -> None:
    flipped: list[str] = []

    def script(site: JournalsSite) -> None:
        files = site.scene.computers["b1"].files

        def flip() -> None:
            found = [path for path in files.walk(site.admin.folder / "spools") if path.name.startswith("open-")]
            full = [path for path in found if ORDERS in str(path) and files.file(path).data]
            for path in full:
                flipped.append(path.name)
                files.flip(path, len(files.file(path).data) // 2)

        after(site, 1.0, flip)
        after(site, 1.01, lambda: site.scene.life("b1").kill())  # type: ignore[union-attr]

    played(script, settings(length=512 << 20))
    assert flipped


def test_x4_what_a_lone_broker_can_still_read_stays() -> None:
    """J-2: the open content of the only copy is damaged. Finished fragments that wait for the store are stored."""
    world = World(1)
    with telling(world), guarded(world):
        site = JournalsSite(world, (), settings(1, 1, length=1 << 10))
        site.watch.stop()  # damaged bytes have no other copy
        site.scene.run(0.3)
        files, buckets = site.scene.computers["b1"].files, list(site.scene.buckets.values())
        for bucket in buckets:
            bucket.trouble.is_away = True
        site.scene.run(2.0)
        site.scene.hold("b1")
        kill(site, "b1")
        spooled = [path for path in files.walk(site.admin.folder / "spools") if ORDERS in str(path)]
        finished = {path.name for path in spooled if "/final/" in str(path)}
        for path in spooled:
            if path.name.startswith("open-") and files.file(path).data:
                files.flip(path, 0)
        for bucket in buckets:
            bucket.trouble.heal()
        site.scene.start("b1")
        site.scene.run(10.0)
    stored = {key.rpartition("/")[2] for bucket in buckets for key in bucket.objects}
    assert len(finished) > 3
    assert finished <= stored


def test_x5_no_journal_lies_below_another() -> None:
    refused: list[PenstockError] = []

    def script(site: JournalsSite) -> None:
        async def create() -> None:
            async with Journals(site.addresses(site.admin.rng), ports=site.admin.ports) as journals:
                for name in (f"{ORDERS}/old", "shop"):
                    try:
                        await journals.create(msgspec.structs.replace(site.settings.journals[0], name=name))
                    except PenstockError as error:
                        refused.append(error)

        site.admin.spawn(create(), "creates")

    played(script)
    assert [type(error) for error in refused] == [InvalidArgument, InvalidArgument]


@pytest.mark.parametrize("seed", [1, 2])
def test_x6_the_keyspace_is_away_at_a_certification(seed: int) -> None:
    refused: list[str] = []

    def script(site: JournalsSite) -> None:
        def at_head(client: str, what: str, transaction: Transaction | None) -> PenstockError | None:
            if transaction is not None and "/heads/" in what and len(refused) < 3:
                refused.append(what)
                return Unavailable("the KeySpace has no leader")
            return None

        site.scene.keyspace.trouble.script = at_head
        kill(site, "b1")

    played(script, seed=seed)
    assert len(refused) == 3


def x6_at_the_certification(site: JournalsSite, error: type[PenstockError], count: int) -> list[str]:
    """Answer the first transactions on a head with an error, and kill the primary, so that there are some."""
    met: list[str] = []

    def at_head(_client: str, what: str, transaction: Transaction | None) -> PenstockError | None:
        if transaction is not None and f"/heads/{ORDERS}" in what and len(met) < count:
            met.append(what)
            return error("the KeySpace has no leader")
        return None

    site.scene.keyspace.trouble.script = at_head
    site.scene.keyspace.end_lease_of("b1")
    return met


@pytest.mark.parametrize("seed", [1, 2])
def test_x7_a_certification_takes_place_and_nobody_is_told(seed: int) -> None:
    met: list[list[str]] = []
    played(lambda site: met.append(x6_at_the_certification(site, Indeterminate, 2)), seed=seed)
    assert len(met[0]) == 2


@pytest.mark.parametrize("seed", [1, 2])
def test_x9_an_answer_is_late_and_its_connection_breaks(seed: int) -> None:
    """Clients send again; each transaction takes effect once."""

    def script(site: JournalsSite) -> None:
        def cut(name: str) -> None:
            site.scene.links.cut(name, "c1")  # answers stay on their way
            after(site, 0.05, partial(ended, name))

        def ended(name: str) -> None:
            life = site.scene.life(name)
            if life is not None:
                site.scene.links.reset_some(life, 1.0)
            site.scene.links.heal(name, "c1")

        for number, name in enumerate([*site.scene.servers] * 8):
            after(site, 0.1 + 0.1 * number, partial(cut, name))

    played(script, seed=seed)


def test_x11_the_wall_clock_steps_back_across_a_retention() -> None:
    """Retention removes fragments by their age. A clock that is wrong by an hour removes none that is young."""
    of = settings(length=1 << 10)
    specs = tuple(
        msgspec.structs.replace(spec, fragment=msgspec.structs.replace(spec.fragment, retention_ms=2 * HOUR_MS))
        for spec in of.journals
    )

    def script(site: JournalsSite) -> None:
        def step(hours: float) -> None:
            for computer in site.scene.computers.values():
                computer.clock.step(int(hours * HOUR_MS) * MILLISECOND)

        for number, hours in enumerate((1.0, -2.0, 1.0, -1.0)):
            after(site, 1.0 + number, partial(step, hours))

    played(script, msgspec.structs.replace(of, journals=specs))


def test_x14_a_broker_dies_between_the_upload_and_the_end_of_the_file() -> None:
    killed: list[str] = []

    def script(site: JournalsSite) -> None:
        def at_unlink(name: str, operation: str, path: str) -> int:
            if operation == "unlink" and "/final/" in path and len(killed) < 3:
                killed.append(path)
                site.world.after(0, partial(kill, site, name))
                return errno.EIO  # the file stays, as after a kill just before
            return 0

        for name in site.scene.servers:
            site.scene.computers[name].files.trouble.script = partial(at_unlink, name)

    played(script, settings(length=1 << 10))
    assert killed


SCRIPTS: dict[str, Callable[[], None]] = {
    "unavailable-is-lost": lambda: test_x6_the_keyspace_is_away_at_a_certification(1),
    "removes-unread-files": test_x4_what_a_lone_broker_can_still_read_stays,
    "forgets-unseen": lambda: test_x3_a_disk_is_full_while_fragments_wait_for_the_store(),
    "resends-without-number": lambda: test_x9_an_answer_is_late_and_its_connection_breaks(1),
}


@pytest.mark.parametrize("mutant", SCRIPTS)
def test_a_mutant_is_caught_by_its_script(mutant: str) -> None:
    with broken(MUTANTS[mutant]), pytest.raises((WorldFailed, AssertionError)):
        SCRIPTS[mutant]()


@pytest.mark.parametrize("seed", range(3))
def test_synced_appends_survive_a_loss_of_power_of_all(seed: int) -> None:
    """Found by seed 94: no folder of a Spool was synced, since room is reserved in a file before it is written."""

    def script(site: JournalsSite) -> None:
        def off() -> None:
            for name in site.scene.servers:
                site.scene.hold(name)
                site.scene.computers[name].lose_power()
                after(site, 0.5, partial(site.scene.start, name))

        after(site, 1.0, off)

    played(script, seed=seed)


def test_a_drain_of_every_broker_in_turn() -> None:
    def drain(site: JournalsSite, name: str) -> None:
        life = site.scene.life(name)
        assert life is not None
        life.task.cancel()

    def script(site: JournalsSite) -> None:
        for number, name in enumerate(site.scene.servers):
            after(site, 1.0 + 1.5 * number, partial(drain, site, name))

    played(script)


def test_the_judge_sees_a_lost_a_doubled_and_a_foreign_record() -> None:
    """Each rule fires: a judge that never does would call everything clean."""
    ledger = JournalsLedger(Random(1))
    first, second, other = (ledger.record(name, 40) for name in (ORDERS, ORDERS, "users"))
    size = len(first.content)
    ledger.acknowledged(first, 0, size, 7)
    good = first.content + second.content
    assert judge(ledger, {ORDERS: good, "users": b""}) is None
    assert "E1" in str(judge(ledger, {ORDERS: second.content}))
    assert "E1" in str(judge(ledger, {ORDERS: second.content + first.content}))
    assert "E2" in str(judge(ledger, {ORDERS: good + second.content}))
    assert "E3" in str(judge(ledger, {ORDERS: good + other.content}))
    assert "E3" in str(judge(ledger, {ORDERS: good + b"?"}))
    assert "E3" in str(judge(ledger, {ORDERS: good[:size] + second.content[:-3] + b"??\n"}))
    second.fate = "refused"
    assert "E2" in str(judge(ledger, {ORDERS: good}))
