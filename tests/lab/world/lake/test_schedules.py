"""Schedules of the lake's defects L-1 to L-4, L-7, L-14 to L-16 and L-19: each passes, and fails with its mutant."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import pytest

from penstock.kernel.errors import DataDamaged, DataMissing, InvalidArgument, NotFound, PenstockError
from penstock.lake.client.lake_repository import AsyncLake
from penstock_lab.world.guard import guarded
from penstock_lab.world.lake.mutants import SCHEDULED
from penstock_lab.world.lake.run import answers
from penstock_lab.world.lake.site import STORE, LakeSettings, LakeSite
from penstock_lab.world.mutants import broken
from penstock_lab.world.stories import telling
from penstock_lab.world.world import World, WorldFailed

SETTINGS = LakeSettings(
    members=3,
    clients=0,
    writers=0,
    repositories=2,
    checkpoint_span=10,
    kept=0,
    pause_s=0.1,
    changes=0,
    sizes=(60, 100),
    timeouts_s=(20.0,),
    queue_trouble="",
)


class Broken(AssertionError):
    """A schedule ended otherwise than it must."""


def must(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)


def played(script: Callable[[LakeSite], Any], mutant: str | None = None, **settings: Any) -> None:
    """Play a script in a world of three members; then calm, and the judge."""
    world = World(1)
    try:
        with broken(SCHEDULED[mutant] if mutant else None), telling(world), guarded(world):
            site = LakeSite(world, (), msgspec.structs.replace(SETTINGS, **settings))
            script(site)
            site.scene.calm()
            site.scene.run(3.0)
            found = site.do(answers(site), 30)
            must(found == "", f"after the calm: {found}")
            world.check()
    except WorldFailed as error:
        raise Broken(str(error)) from error
    finally:
        world.end()


def done(site: LakeSite, member: int, work: Callable[[AsyncLake], Any], seconds: float = 15.0) -> Any:
    """Ask a member; return the result, or the error."""

    async def ask_it() -> Any:
        async with site.lake(member) as lake:
            try:
                return await work(lake) or True
            except PenstockError as error:
                return error

    return site.do(ask_it(), seconds)


async def put(lake: AsyncLake, path: str, content: bytes, repository: str = "shop", **how: Any) -> Any:
    return await lake.repository(repository).branch("main").put(path, content, **how)


async def commit(lake: AsyncLake, repository: str = "shop") -> str:
    return (await lake.repository(repository).branch("main").commit("of a schedule")).id


async def read(lake: AsyncLake, path: str) -> bytes:
    return await lake.repository("shop").branch("main").read(path)


def life_numbers(site: LakeSite) -> dict[str, int]:
    return {name: site.scene.computers[name].lives for name in site.scene.servers}


def numbers(site: LakeSite) -> None:
    """L-1: one number ends a request, and no server."""
    before = life_numbers(site)
    done(site, 0, lambda lake: put(lake, "a", b"a"))
    api, body = "/repositories/shop/branches/main/commits", {"message": "m", "date": 1_780_000_000_000}
    found = done(site, 0, lambda lake: lake.api.call("POST", api, body))
    must(isinstance(found, InvalidArgument), f"REST says {found!r}")
    for name in site.services:
        service = site.services[name]

        async def commits(service: Any = service) -> Any:
            with suppress(PenstockError):
                await service.commit("shop", "main", "m", created_at=1_780_000_000_000)
            place = await service.upload_address("shop", "main", "b")
            await service.store.put(place.key, b"b")
            with suppress(PenstockError):
                await service.link("shop", "main", "b", place.address, size=1, etag="b", mtime=1_780_000_000_000)
            return True

        life = site.scene.life(name)
        assert life is not None
        site.scene.do(life, commits(), 20)
    must(life_numbers(site) == before, "a member ended")
    must(isinstance(done(site, 0, commit), str), "no commit after it")


def namespaces(site: LakeSite) -> None:
    """L-2: of two repositories on one namespace one is made, although the members know nothing of each other."""

    async def both() -> list[Any]:
        lakes = [site.lake(number) for number in range(3)]
        found = await asyncio.gather(
            *(lake.repository(f"one-{number}").create(storage=f"{STORE}/one") for number, lake in enumerate(lakes)),
            return_exceptions=True,
        )
        for lake in lakes:
            await lake.close()
        return found

    found = site.do(both(), 20)
    must(found is not None and found.count(None) == 1, f"{found}")


def imports(site: LakeSite) -> None:
    """L-3: an import from another repository outlives the collector there."""
    theirs = done(site, 0, lambda lake: put(lake, "a", b"bytes", "crm"))
    body = {
        "paths": [{"path": theirs.address, "destination": "mine", "type": "object"}],
        "commit": {"message": "take"},
    }

    async def take(lake: AsyncLake) -> Any:
        made = await lake.api.call("POST", "/repositories/shop/branches/main/import", body)
        for _ in range(50):
            found = await lake.api.call("GET", "/repositories/shop/branches/main/import", id=made["id"])
            if found["completed"]:
                return found
            await asyncio.sleep(0.1)
        return None

    async def collect(lake: AsyncLake) -> None:
        for _ in range(4):
            work = await lake.api.call("POST", "/repositories/crm/gc", {"grace_seconds": 0})
            for _ in range(100):
                if (await lake.api.call("GET", f"/repositories/crm/gc/{work['id']}"))["completed"]:
                    break
                await asyncio.sleep(0.05)

    taken = done(site, 0, take)
    must(taken["completed"] and "error" not in taken, f"{taken}")
    done(site, 0, lambda lake: lake.repository("crm").branch("main").reset())
    done(site, 1, collect)
    must(done(site, 2, lambda lake: read(lake, "mine")) == b"bytes", "the import lost its bytes")
    done(site, 0, lambda lake: lake.repository("shop").branch("main").remove(["mine"]))


def _data_keys(site: LakeSite) -> list[str]:
    return [key for key in site.scene.bucket(STORE).objects if key.startswith("shop/data/")]


def damage(site: LakeSite) -> None:
    """L-4: damaged bytes are not served."""
    done(site, 0, lambda lake: put(lake, "a", b"these are the bytes"))
    site.scene.bucket(STORE).damage(_data_keys(site)[0], 3)
    found = done(site, 1, lambda lake: read(lake, "a"))
    must(isinstance(found, DataDamaged), f"it reads {found!r}")
    done(site, 0, lambda lake: lake.repository("shop").branch("main").remove(["a"]))


def loss(site: LakeSite) -> None:
    """L-4: lost bytes are missing, not absent: "create if absent" is refused there."""
    done(site, 0, lambda lake: put(lake, "a", b"these are the bytes"))
    del site.scene.bucket(STORE).objects[_data_keys(site)[0]]
    found = done(site, 1, lambda lake: read(lake, "a"))
    must(isinstance(found, DataMissing) and not isinstance(found, NotFound), f"it reads {found!r}")
    again = done(site, 1, lambda lake: put(lake, "a", b"other", if_absent=True))
    must(isinstance(again, PenstockError), "another object was put there")
    done(site, 0, lambda lake: lake.repository("shop").branch("main").remove(["a"]))


def _checkpoints(site: LakeSite) -> list[str]:
    return sorted(key for key in site.scene.bucket(STORE).objects if key.startswith("_penstock/lake/"))


def _restart(site: LakeSite) -> None:
    for name in ("m1", "m2", "m3"):
        life = site.scene.life(name)
        if life is not None:
            life.kill()
    site.scene.run(4.0)


def damaged_checkpoint(site: LakeSite) -> None:
    """L-7: members begin with an older checkpoint where the newest is damaged."""
    for number in range(12):
        done(site, 0, lambda lake, number=number: put(lake, f"a/{number}", b"%d" % number))  # type: ignore[misc]
        site.scene.run(0.3)
    must(len(_checkpoints(site)) >= 2, f"{_checkpoints(site)}")
    newest = _checkpoints(site)[-1]
    site.scene.bucket(STORE).damage(newest, 60)
    _restart(site)
    must(done(site, 0, lambda lake: read(lake, "a/11")) == b"11", "an acknowledged object is gone")
    names = [f"a/{number}" for number in range(12)]
    done(site, 0, lambda lake: lake.repository("shop").branch("main").remove(names))


def differing_members(site: LakeSite) -> None:
    """L-14: a member with another state stops, and no member begins with its checkpoint."""
    site.may_stop = True
    before = life_numbers(site)
    machine = site.services["m1"].engine.machine
    repository = machine.repository_named("shop")
    assert repository is not None
    machine.drop_branch(repository.branches["work-2"])
    for number in range(15):
        done(site, 1, lambda lake, number=number: put(lake, f"a/{number}", b"%d" % number))  # type: ignore[misc]
    site.scene.run(9.0)
    after = life_numbers(site)
    must(after["m1"] > before["m1"], "the wrong member goes on")
    must((after["m2"], after["m3"]) == (before["m2"], before["m3"]), f"a right member stopped: {after}")
    _restart(site)
    for number in range(3):
        shown = done(site, number, lambda lake: lake.repository("shop").branches())
        must(isinstance(shown, list) and "work-2" in shown, f"m{number + 1} shows {shown}")
    names = [f"a/{number}" for number in range(15)]
    done(site, 0, lambda lake: lake.repository("shop").branch("main").remove(names))


def failing_checkpoints(site: LakeSite) -> None:
    """L-15: members continue while the store takes no checkpoint."""
    before = life_numbers(site)
    site.scene.bucket(STORE).trouble.is_away = True
    for number in range(12):
        done(site, 0, lambda lake, number=number: lake.repository("shop").branches())  # type: ignore[misc]
        site.scene.run(0.2)
    site.scene.bucket(STORE).trouble.heal()
    must(life_numbers(site) == before, "a member ended")


def unknown_kind(site: LakeSite) -> None:
    """L-16: a member stops at a record of an unknown kind."""
    site.may_stop = True
    before = life_numbers(site)
    ops = msgspec.msgpack.encode(("lake-1", 1, [{"type": "lake", "token": None, "record": {"type": "of-tomorrow"}}]))
    offset = site.log.write("a member of a newer release", ops)
    site.scene.run(6.0)
    must(all(count > before[name] for name, count in life_numbers(site).items()), "a member goes on")
    del site.log.entries[offset - site.log.first]  # a newer release takes over; here: it never was
    site.log.entries.insert(offset - site.log.first, site.log.entries[-1])
    _restart(site)


def fresh_lists(site: LakeSite) -> None:
    """L-19: each list has what another member has just acknowledged."""
    site.log.trouble.lag_ns = 1_000_000_000
    for number in range(4):
        name = f"b{number}"
        made = done(site, number % 3, lambda lake, name=name: lake.repository("shop").create_branch(name, "main"))  # type: ignore[misc]
        must(not isinstance(made, PenstockError), f"{made!r}")
        shown = done(site, (number + 1) % 3, lambda lake: lake.repository("shop").branches())
        must(isinstance(shown, list) and name in shown, f"{shown}")
    site.log.trouble.heal()


CASES = {
    "L-1": (numbers, "numbers-unchecked"),
    "L-2": (namespaces, "namespaces-overlap"),
    "L-3": (imports, "imports-share"),
    "L-4 damaged": (damage, "damage-served"),
    "L-4 lost": (loss, "lost-is-absent"),
    "L-7": (damaged_checkpoint, "damaged-checkpoint-ends"),
    "L-14": (differing_members, "first-save-is-right"),
    "L-15": (failing_checkpoints, "checkpoint-ends"),
    "L-16": (unknown_kind, "unknown-kinds-skipped"),
    "L-19": (fresh_lists, "reads-without-sync"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_ends_well(name: str) -> None:
    played(CASES[name][0])


@pytest.mark.parametrize("name", CASES)
def test_the_mutant_of_a_schedule_is_caught(name: str) -> None:
    script, mutant = CASES[name]
    with pytest.raises(Broken):
        played(script, mutant)


def test_a_schedule_is_one_run() -> None:
    """A script says everything: two runs end in the same place."""
    ends = []
    for _ in range(2):
        world = World(1)
        with telling(world), guarded(world):
            partial(numbers, LakeSite(world, (), SETTINGS))()
        ends.append((world.digest, world.now_ns))
        world.end()
    assert ends[0] == ends[1]
