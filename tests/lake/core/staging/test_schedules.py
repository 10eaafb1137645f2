"""The schedules of lake.md by name, and mutants which seeds meet rarely, each in a schedule of its own.

Here: commits, lost races, resets and aborts (T1 to T7, T18). Duplicates are in `test_schedules_duplicates.py`, deletes,
preconditions and reads in `test_schedules_reads.py`, sinks in `test_schedules_sinks.py`, the collector's in
`test_schedules_garbage.py`.
"""

from collections.abc import Callable

import pytest
from tests.lake.core.staging.desk import MAIN, REPOSITORY, TTL_NS, Desk
from tests.lake.core.staging.lakes import Lake

from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.proposing.port import Build, Commit
from penstock.lake.core.staging.records import (
    CommitId,
    FromCommit,
    Instance,
    Request,
    Row,
    StagingToken,
)
from penstock.lake.core.staging.results import Status
from penstock_lab.sim.workloads.lake_builder import Import, Merge, Revert
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


def t1_a_put_with_the_token_just_announced(mutant: str | None) -> None:
    """F1: the put would go into a sealed area, and PERFORM would drop it."""
    desk = Desk(mutant=mutant)
    desk.put("a", "p1", "x")
    desk.pump()
    token = desk.machine().branches[MAIN].tokens[-1]
    commit = desk.commit("a", "c1")
    desk.pump()
    pinned = desk.put("b", "p2", "y", pinned=token)
    plain = desk.put("b", "p3", "z")
    desk.run()
    assert desk.status(pinned) == "stale-token"
    assert (desk.status(plain), desk.status(commit)) == ("ok", "ok")
    assert sorted(desk.shown()) == ["x", "z"]
    assert sorted(desk.shelf.tree(CommitId(desk.head()))) == ["x"]


def test_t2_an_announcement_of_a_stale_member_after_a_dead_proposer() -> None:
    """F2: it covers what the state machine has, not what the member knew."""
    desk = Desk("abc")
    desk.put("a", "p1", "x")
    desk.pump()
    desk.commit("a", "c1")
    desk.accept()
    desk.deliver("a")
    del desk.members["a"]  # announced, and dead
    desk.put("b", "p2", "y", epoch=1)
    desk.accept()
    desk.deliver("b")
    commit = desk.commit("c", "c2")  # c has seen neither
    desk.run()
    assert desk.status(commit) == "ok"
    assert sorted(desk.shelf.tree(CommitId(desk.head()))) == ["x", "y"]


def test_t3_overlapping_announcements_the_first_performs() -> None:
    desk = Desk()
    desk.put("a", "p1", "x")
    desk.pump()
    one = desk.commit("a", "c1")
    desk.pump()
    desk.put("a", "p2", "y")
    desk.pump()
    two = desk.commit("b", "c2")
    desk.pump()
    desk.run()
    assert (desk.status(one), desk.status(two)) == ("ok", "ok")
    parents = desk.shelf.commits[desk.replies[two].commit].parents
    assert parents == (desk.replies[one].commit,)
    assert sorted(desk.shelf.tree(CommitId(desk.head()))) == ["x", "y"]


def two_commits_of_one_area(desk: Desk) -> None:
    """Both announce the area with x; both have built; the first performs."""
    desk.put("a", "p1", "x")
    desk.pump()
    desk.commit("a", "c1")
    desk.pump("a", "b")
    desk.put("b", "p2", "y")
    desk.pump()
    desk.commit("b", "c2")
    desk.pump()
    first, second = desk.work
    desk.work = [first]
    desk.run()
    assert desk.shelf.commits[CommitId(desk.head())].parents == ("c0",)
    desk.work = [second]


def t4_a_lost_race_and_a_merge_on_the_same_key(mutant: str | None) -> None:
    """F8: the loser's tree has x as it was; the merge's x must stay."""
    desk = Desk(mutant=mutant)
    with_dev(desk)
    desk.put("a", "p0", "x", desk.upload("merged"), instance=DEV)
    desk.run()
    desk.append(r.Perform(desk.request("c0"), DEV, CommitId("c0"), commit_of(desk, DEV), 1))
    desk.run()
    two_commits_of_one_area(desk)
    second, desk.work = desk.work, []
    merged = desk.move("a", "m", Merge(desk.machine().branches[DEV].head))
    desk.run()
    assert desk.status(merged) == "ok"
    desk.work = second
    desk.run()
    tree = desk.shelf.tree(CommitId(desk.head()))
    assert tree["x"].etag == "merged"
    assert sorted(tree) == ["x", "y"]


def commit_of(desk: Desk, instance: Instance) -> CommitId:
    """A commit with what a branch shows."""
    shown = dict(desk.checks.views[-1].branches[instance].shown)
    head = desk.machine().branches[instance].head
    return desk.shelf.write(shown, [head], [head], desk.gce, "test")


def t5_a_lost_race_and_a_revert(mutant: str | None) -> None:
    """After commit and revert the parents' trees are equal: only K says that x is gone."""
    desk = Desk(mutant=mutant)
    two_commits_of_one_area(desk)
    second, desk.work = desk.work, []
    reverted = desk.move("a", "revert", Revert(CommitId(desk.head())))
    desk.run()
    assert desk.status(reverted) == "ok"
    desk.work = second
    desk.run()
    assert sorted(desk.shelf.tree(CommitId(desk.head()))) == ["y"]


@pytest.mark.parametrize("paths", [(), ("x",)], ids=["all", "path"])
def test_t6_a_reset_between_build_and_perform(paths: tuple[str, ...]) -> None:
    """F9: reset changes do not come back; the others are committed all the same (decision 403)."""
    desk = Desk()
    desk.put("a", "p1", "x")
    desk.put("a", "p2", "y")
    desk.pump()
    commit = desk.commit("a", "c1")
    desk.pump()
    desk.append(r.Reset(desk.request("reset"), MAIN, StagingToken("fresh"), paths))
    desk.pump()
    desk.run()
    assert desk.status(commit) == ("ok" if paths else "no-changes")
    assert sorted(desk.shown()) == (["y"] if paths else [])


def test_t7_abort_then_perform() -> None:
    """F7: told ABORTED means never."""
    desk = Desk()
    desk.put("a", "p1", "x")
    desk.pump()
    commit = desk.commit("a", "c1")
    desk.pump()
    desk.now += TTL_NS  # type: ignore[assignment]
    desk.append(r.Abort(desk.request("c1"), 0))
    desk.run()
    assert desk.status(commit) == "aborted"
    assert (desk.head(), sorted(desk.shown())) == ("c0", ["x"])
    again = desk.commit("b", "c2")
    desk.run()
    assert desk.status(again) == "ok", "nothing is orphaned"


def test_t7_perform_then_abort() -> None:
    lake = Lake()
    lake.put("1", ("x", "1"))
    announced = lake.announce("c")
    done = lake.perform("c", announced, "c1")
    lake.sleep(20)
    assert lake(r.Abort(Request("c", 1), 0)) == done


def t7_an_abort_of_the_first_attempt_does_not_end_the_second(mutant: str | None) -> None:
    lake = Lake(kind=machine_of(mutant))
    lake.put("1", ("x", "1"))
    first = lake.announce("c", 0)
    lake.sleep(20)
    second = lake.announce("c", 1)
    assert lake(r.Abort(Request("c", 1), 0)).status is Status.SUPERSEDED
    assert lake.perform("c", first, "c1", 0).status is Status.SUPERSEDED
    assert lake.perform("c", second, "c1", 1).status is Status.OK


def test_a_dead_proposer_is_aborted_by_any_member() -> None:
    desk = Desk("abc")
    desk.put("a", "p1", "x")
    desk.pump()
    desk.commit("a", "c1")
    desk.pump()
    del desk.members["a"]
    for _ in range(30):
        desk.sleep(10)
        desk.run()
    assert not desk.machine("b").attempts
    assert desk.checks.final["c1"].status is Status.ABORTED


# requests


def test_t18_a_put_of_what_is_committed_a_merge_and_an_empty_perform() -> None:
    """F18: "nothing to commit" holds for its parent only."""
    desk = Desk()
    old = desk.upload("old")
    desk.move("a", "m1", Import((("z", old),)))
    desk.run()
    desk.put("a", "p1", "z", rows=(Row("z", old, source=FromCommit(CommitId(desk.head()))),))
    desk.pump()
    commit = desk.commit("a", "c1")
    desk.pump()
    build, desk.work = desk.work, []
    desk.move("b", "m2", Import((("z", desk.upload("new")),)))
    desk.run()
    desk.work = build
    desk.run()
    assert desk.status(commit) == "ok", "z is put again over what the merge made of it"
    assert desk.shown() == {"z": old.address}


def test_nothing_to_commit() -> None:
    desk = Desk()
    nothing, empty = desk.commit("a", "c1"), desk.commit("b", "c2", allow_empty=True)
    desk.run()
    assert (desk.status(nothing), desk.status(empty)) == ("no-changes", "ok")


# sinks


def a_lost_race_and_another_address(mutant: str | None) -> None:
    """The same content is uploaded again: the address is another one, and that address must stay."""
    desk = Desk(mutant=mutant)
    desk.move("a", "m1", Import((("x", desk.upload("same")),)))
    desk.run()
    desk.put("a", "p1", "y")
    desk.run()
    commit = desk.commit("a", "c1")
    desk.pump()
    build, desk.work = desk.work, []
    name, effect = build[0]
    assert isinstance(effect, Build)
    built = desk.builder.run(effect)
    again = desk.upload("same")
    desk.move("b", "m2", Import((("x", again),)))
    desk.run()
    desk.step(name, built)
    desk.run()
    assert desk.status(commit) == "ok"
    assert desk.shelf.tree(CommitId(desk.head()))["x"] == again


SCHEDULES: dict[Schedule, tuple[str, ...]] = {
    t1_a_put_with_the_token_just_announced: ("puts-by-token",),
    t4_a_lost_race_and_a_merge_on_the_same_key: ("reparents-three-way",),
    t5_a_lost_race_and_a_revert: ("reparents-if-disjoint", "patch-without-gone"),
    t7_an_abort_of_the_first_attempt_does_not_end_the_second: ("attempt-unchecked", "keeps-old-attempt"),
    a_lost_race_and_another_address: ("differing-by-identity",),
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


def test_a_commit_is_one_for_its_request_wherever_it_is_asked_for() -> None:
    """The same request at two members: one commit, and both answer with it."""
    desk = Desk()
    desk.put("a", "p1", "x")
    desk.run()
    one = desk.commit("a", "c1")
    desk.pump()
    two = desk.ask("b", Commit(desk.request("c1"), MAIN, TTL_NS))
    desk.run()
    for _ in range(5):
        desk.sleep(10)
        desk.run()
    assert desk.replies[one] == desk.replies[two]
    assert len(desk.shelf.ancestors(CommitId(desk.head()))) == 2
    assert desk.status(one) == "ok"
