"""Schedules of lake.md: records which come twice, late, or again after a restart (T8 to T12)."""

from collections.abc import Callable

import pytest
from tests.lake.core.staging.desk import MAIN, REPOSITORY, Desk
from tests.lake.core.staging.lakes import Lake

from penstock.lake.core.refs.protection import ProtectionRule
from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.checkpoint import dump
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import (
    CommitId,
    Instance,
    Limits,
    Request,
    StagingToken,
)
from penstock.lake.core.staging.results import Status
from penstock.lake.core.staging.tables import RULES
from penstock_lab.sim.workloads.lake_mutants import MUTANTS
from penstock_lab.sim.workloads.lake_parts import LakeParts

Schedule = Callable[[str | None], None]

DEV = Instance("dev-1")


def machine_of(mutant: str | None) -> type[StagingMachine]:
    parts = LakeParts()
    if mutant is not None:
        MUTANTS[mutant].apply(parts)
    return parts.machine


def with_dev(desk: Desk, token: str = "d0", instance: Instance = DEV, name: str = "create") -> None:
    request = desk.request(name)
    desk.append(r.CreateBranch(request, REPOSITORY, "dev", instance, StagingToken(token), branch=MAIN))
    desk.run()


# commits and puts


def every_record(lake: Lake) -> list[r.Record]:
    """Return one record of each kind that takes effect."""
    lake.put("put", ("x", "1"), ("y", "1"))
    lake(r.Delete(Request("delete", 1), MAIN_1, ("y",)))
    announced = lake.announce("commit")
    lake(r.Extend(Request("commit", 1), 0, 1))
    lake.perform("commit", announced, "c1")
    lake.move("merge", "c2")
    lake.put("put2", ("z", "1"))
    lake.announce("aborted")
    lake(r.Abort(Request("aborted", 1), 0, by_owner=True))
    lake(r.Cancel(Request("cancelled", 1)))
    lake(r.Reset(Request("reset", 1), MAIN_1, StagingToken("t5"), ("z",)))
    lake(r.CreateBranch(Request("create", 1), REPOSITORY, "dev", DEV, StagingToken("d0"), branch=MAIN_1))
    lake(r.CreateTag(Request("tag", 1), REPOSITORY, "v1", Instance("v1"), branch=DEV))
    lake(r.SinkRewind(Request("rewind", 1), DEV, "q", 3, "e"))
    lake(r.Atomic(Request("atomic", 1), (r.Delete(Request("", 1), DEV, ("a",)),)))
    lake(r.DeleteTag(Request("untag", 1), REPOSITORY, Instance("v1")))
    lake(r.DeleteBranch(Request("drop", 1), DEV))
    lake(r.HardReset(Request("hard", 1), MAIN_1, CommitId("c1"), StagingToken("t6")))
    lake(r.GcFence(Request("fence", 1), REPOSITORY))
    lake(r.Condemn(Request("condemn", 1), REPOSITORY, 2, (CommitId("c9"),)))
    lake(r.Version(Request("version", 1), RULES, lake.machine.limits))
    lake(r.SetProtection(Request("protect", 1), REPOSITORY, (ProtectionRule("release-*"),)))
    return [record for _, record in lake.log]


MAIN_1 = Instance("b1")


@pytest.mark.parametrize("requests_max", [100, 1], ids=["before eviction", "after eviction"])
def test_t8_duplicates_of_every_record(requests_max: int) -> None:
    """F4, F17: a copy changes nothing, and gets the result of the first, or EXPIRED."""
    lake = Lake(Limits(requests_max=requests_max))
    records = every_record(lake)
    assert len({type(record) for record in records}) == len(lake.machine._handlers) - 1, "DeleteRepository is last"
    before = everything(lake)
    for record in records:
        result = lake(record)
        assert everything(lake) == before, record
        assert result.status.is_final or result.status is Status.EXPIRED, (record, result)
    assert lake(r.DeleteRepository(Request("end", 2), REPOSITORY)).status is Status.OK
    gone = everything(lake)
    for record in records:
        lake(record)
        assert everything(lake) == gone, record


def everything(lake: Lake) -> object:
    """Return all of the state but its position and its memory of requests."""
    machine = lake.machine
    return (
        [(each.item(), each.sum(), each.sinks) for each in machine.branches.values()],
        [(each.item(), dict(each.tags), dict(each.expired)) for each in machine.repositories.values()],
        dict(machine.attempts),
        machine.version,
    )


def test_t9_a_duplicate_merge_after_a_hard_reset() -> None:
    """F6: parent = head again, and nothing is a prefix of anything."""
    lake = Lake()
    lake.move("m", "c1")
    merge = lake.log[-1][1]
    lake(r.HardReset(Request("h", 1), MAIN_1, CommitId("c0"), StagingToken("t1")))
    assert lake(merge).status is Status.OK
    assert lake.head == "c0"


def t10_a_duplicate_announcement_of_a_superseded_attempt(mutant: str | None) -> None:
    """F3."""
    lake = Lake(kind=machine_of(mutant))
    lake.put("1", ("x", "1"))
    lake.announce("c", 0)
    late = lake.log[-1][1]
    lake.put("2", ("y", "1"))
    second = lake.announce("c", 1)
    lake.put("3", ("z", "1"))
    tokens = lake.tokens
    assert lake(late).status is Status.SUPERSEDED
    assert lake.announce("c", 1) == second
    assert lake.tokens == tokens


def t11_redelivery_and_a_restart_from_a_checkpoint(mutant: str | None) -> None:
    """F16: TICKs are not idempotent; the request table is in the checkpoint."""
    desk = Desk(mutant=mutant)
    desk.put("a", "p1", "x")
    desk.pump()
    desk.cursors["a"] = 2  # the queue is about to deliver the rest again
    saved = desk.checkpoint("a")
    desk.append(r.Tick())
    duplicate = desk.log[-2][1].record
    desk.put("b", "p2", "x")
    desk.pump()
    desk.append(duplicate)
    desk.pump()
    desk.cursors["b"] = 1  # the queue delivers almost all of it again
    desk.pump()
    desk.start("a", saved)
    desk.run()
    assert dump(desk.machine("a")) == dump(desk.machine("b"))


def t12_a_late_link_after_delete_and_recreate(mutant: str | None) -> None:
    """F10: it never lands in a stranger's branch."""
    desk = Desk(mutant=mutant)
    with_dev(desk)
    entry = desk.upload()
    desk.append(r.DeleteBranch(desk.request("drop"), DEV))
    drop = desk.log[-1][1].record
    with_dev(desk, "d1", Instance("dev-2"), "create again")
    late = desk.put("a", "late", "x", entry, instance=DEV)
    desk.append(drop)
    desk.run()
    assert desk.status(late) == "no-branch"
    assert desk.shown(Instance("dev-2")) == {}


def issued_in_the_future(mutant: str | None) -> None:
    """Decision 401: one request from the future would end all others once it is evicted."""
    lake = Lake(Limits(requests_max=1), machine_of(mutant))
    lake.put("1", ("a", "1"), issued=2**62)
    assert lake.put("2", ("a", "2")).status is Status.OK
    assert lake.put("3", ("a", "3"), issued=2).status is Status.OK


SCHEDULES: dict[Schedule, tuple[str, ...]] = {
    t10_a_duplicate_announcement_of_a_superseded_attempt: ("accepts-lower-attempt", "announces-twice"),
    t11_redelivery_and_a_restart_from_a_checkpoint: (
        "checkpoint-by-cursor",
        "checkpoint-without-requests",
        "no-position-check",
    ),
    t12_a_late_link_after_delete_and_recreate: ("puts-by-name",),
    issued_in_the_future: ("believes-issued",),
}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.__name__)
def test_the_schedule_is_clean(schedule: Schedule) -> None:
    schedule(None)


@pytest.mark.parametrize(
    ("schedule", "mutant"), [(schedule, mutant) for schedule, mutants in SCHEDULES.items() for mutant in mutants]
)
def test_the_mutant_falls_in_its_schedule(schedule: Schedule, mutant: str) -> None:
    with pytest.raises(AssertionError):
        schedule(mutant)
