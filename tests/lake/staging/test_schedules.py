"""The schedules T1 to T19 of lake.md, by name; and mutants which seeds meet rarely, each in a schedule of its own.

T20, the garbage collector's, are in `test_schedules_garbage.py`.
"""

from collections.abc import Callable

import pytest
from tests.lake.staging.desk import MAIN, REPOSITORY, TTL_NS, Desk
from tests.lake.staging.lakes import Lake

from penstock.lake.staging import records as r
from penstock.lake.staging.checkpoint import dump
from penstock.lake.staging.machine import StagingMachine
from penstock.lake.staging.port import Build, Commit, GiveUp, Read
from penstock.lake.staging.records import (
    CommitId,
    FromCommit,
    Instance,
    Limits,
    Precondition,
    Request,
    Row,
    SinkPart,
    StagingToken,
)
from penstock.lake.staging.results import Status
from penstock.sim.workloads.lake_builder import Import, Merge, Revert
from penstock.sim.workloads.lake_lookup import with_basis
from penstock.sim.workloads.lake_mutants import MUTANTS
from penstock.sim.workloads.lake_parts import Parts

Schedule = Callable[[str | None], None]

DEV = Instance("dev-1")


def machine_of(mutant: str | None) -> type[StagingMachine]:
    parts = Parts()
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
    """F9: what was reset does not come back; what was not is committed all the same (decision 403)."""
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


def every_record(lake: Lake) -> list[r.Record]:
    """One of each kind which takes effect."""
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
    lake(r.Version(Request("version", 1), 2, lake.machine.limits))
    return [record for _, record in lake.log]


MAIN_1 = Instance("b1")


@pytest.mark.parametrize("requests_max", [100, 1], ids=["before eviction", "after eviction"])
def test_t8_duplicates_of_every_record(requests_max: int) -> None:
    """F4, F17: a copy changes nothing, and is answered with what came of the first, or with EXPIRED."""
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
    """All of the state but how far it is and what it remembers of requests."""
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


def test_t13_a_delete_over_a_sealed_put() -> None:
    """F11: the sealed entry must not show through."""
    desk = Desk()
    desk.put("a", "p1", "x")
    desk.pump()
    desk.commit("a", "c1")
    desk.pump()
    desk.put("a", "p2", "x")
    desk.pump()
    desk.write("a", r.Delete(desk.request("d"), MAIN, ("x",)))
    desk.pump()
    assert desk.shown() == {}
    desk.run()
    assert desk.shown() == {}


# preconditions


def conditional(desk: Desk, name: str, id_: str, when: Precondition, path: str = "x") -> r.Put:
    """A PUT on a condition, with the basis a member knows now."""
    put = r.Put(desk.request(id_), MAIN, desk.gce, (Row(path, desk.upload(id_), when),))
    return with_basis(desk.shelf, desk.machine(name), put)


def test_t14_if_none_match_twice_across_a_perform() -> None:
    desk = Desk()
    one = conditional(desk, "a", "p1", Precondition(absent=True))
    two = conditional(desk, "b", "p2", Precondition(absent=True))
    first = desk.write("a", one)
    desk.pump()
    desk.commit("a", "c1")
    desk.run()
    second = desk.write("b", two)  # its basis is of the old head
    desk.run()
    assert (desk.status(first), desk.status(second)) == ("ok", "precondition-failed")


def t14_if_match_across_a_merge(mutant: str | None) -> None:
    """F12: the basis is of a head which a merge has replaced."""
    desk = Desk(mutant=mutant)
    desk.move("a", "m1", Import((("x", desk.upload("old")),)))
    desk.run()
    put = conditional(desk, "a", "p1", Precondition(etag="old"))
    desk.move("b", "m2", Import((("x", desk.upload("new")),)))
    desk.run()
    refused = desk.write("a", put)
    desk.run()
    assert desk.status(refused) == "precondition-failed"


def test_t14_a_conditional_put_is_retried_after_a_time_out() -> None:
    """F5: the retry, through another member, finds its own success; no 412 for a put that was made."""
    desk = Desk()
    put = conditional(desk, "a", "p1", Precondition(absent=True))
    desk.write("a", put)
    desk.accept()
    del desk.members["a"]  # no answer
    retry = desk.write("b", put)
    desk.run()
    assert desk.status(retry) == "ok"


# reads


def t15_a_read_does_not_join_a_sync_already_sent(mutant: str | None) -> None:
    """F13."""
    desk = Desk(mutant=mutant)
    early = desk.ask("a", Read("repo", "main"))
    desk.accept()
    put = desk.put("b", "p1", "x")
    desk.accept()
    desk.deliver("b")
    assert desk.status(put) == "ok"
    late = desk.ask("a", Read("repo", "main"))
    desk.run()
    assert (desk.replies[early].overlay.find("x"), desk.replies[late].overlay.find("x") is None) == (None, False)


def test_many_reads_wait_on_one_sync() -> None:
    desk = Desk()
    first = [desk.ask("a", Read("repo", "main")) for _ in range(2)]
    many = [desk.ask("a", Read("repo", "main")) for _ in range(50)]
    assert len(desk.sent) == 2, "two SYNCs may be on their way; the others wait for the next, together"
    desk.accept()
    desk.deliver("a")
    assert len(desk.sent) == 1
    desk.run()
    assert all(desk.replies[read].applied for read in first + many)


def test_t16_a_list_during_delete_put_and_commit() -> None:
    """F14: head and areas are of one position."""
    desk = Desk()
    desk.put("a", "p1", "x")
    desk.run()
    desk.commit("a", "c1")
    desk.run()
    read = desk.ask("a", Read("repo", "main"))
    desk.accept()
    desk.write("b", r.Delete(desk.request("d"), MAIN, ("x",)))
    desk.put("b", "p2", "y")
    desk.accept()
    desk.deliver("a")
    desk.commit("b", "c2")
    desk.run()
    assert desk.replies[read].head == desk.shelf.commits[CommitId(desk.head())].parents[0]
    assert sorted(desk.shown()) == ["y"]


def t17_a_restarted_member_reuses_a_token_number(mutant: str | None) -> None:
    """F15: an old record releases nobody, and is warned about."""
    desk = Desk(mutant=mutant)
    desk.put("a", "p1", "x")
    sent, desk.sent = desk.sent, []
    desk.start("a")
    desk.accept()  # its SYNC
    new = desk.put("a", "p2", "y")
    desk.lose()
    desk.accept(sent)
    desk.pump()
    assert desk.status(new) is None
    assert len(desk.warnings) == 1
    desk.sleep(25)
    desk.run()
    assert desk.status(new) == "ok"


def test_a_stale_ok_read_waits_until_the_member_has_caught_up_once() -> None:
    desk = Desk()
    desk.put("b", "p1", "x")
    desk.run()
    desk.start("a")
    read = desk.ask("a", Read("repo", "main", stale_ok=True))
    assert read not in desk.replies
    desk.run()
    again = desk.ask("a", Read("repo", "main", stale_ok=True))
    assert desk.replies[again].applied == desk.machine("a").applied


def test_who_gives_up_is_told_what_the_queue_decided() -> None:
    desk = Desk()
    lost = desk.put("a", "p1", "x")
    desk.lose()
    desk.ask("a", GiveUp(lost))
    late = desk.put("a", "p2", "y")
    desk.ask("a", GiveUp(late))  # its record is already on its way
    commit = desk.commit("a", "c1")
    desk.ask("a", GiveUp(commit))
    desk.run()
    assert [desk.status(each) for each in (lost, late, commit)] == ["cancelled", "ok", "cancelled"]
    assert not desk.machine().attempts


# commits without changes


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


def batch(desk: Desk, number: int, start: str, end: str) -> dict[str, object]:
    return {
        "what": Import(((f"q/{number:04d}", desk.upload()),)),
        "sink": SinkPart("q", number, start, end),
        "link_epoch": 1,
    }


def test_t19_two_drivers_and_one_batch() -> None:
    """F19: the same plan is answered with the first commit, another one is fenced off."""
    desk = Desk()
    one, same, other = (
        desk.move(name, id_, **batch(desk, 0, "-", end))
        for name, id_, end in (("a", "d1", "5"), ("b", "d2", "5"), ("b", "d3", "6"))
    )
    desk.run()
    assert [desk.status(each) for each in (one, same, other)] == ["ok", "ok", "fenced"]
    assert desk.replies[same] == desk.replies[one]


def test_t19_a_zombie_after_the_next_batch() -> None:
    desk = Desk()
    for number in range(2):
        desk.move("a", f"d{number}", **batch(desk, number, f"{number}", f"{number + 1}"))
        desk.run()
    zombie = desk.move("b", "z", **batch(desk, 0, "0", "1"))
    skips = desk.move("b", "s", **batch(desk, 3, "2", "3"))
    rewound = desk.move("b", "w", **batch(desk, 2, "elsewhere", "3"))
    desk.run()
    assert [desk.status(each) for each in (zombie, skips, rewound)] == ["already", "fenced", "fenced"]
    desk.append(r.SinkRewind(desk.request("rewind"), MAIN, "q", 1, "elsewhere"))
    allowed = desk.move("b", "w2", **batch(desk, 2, "elsewhere", "3"))
    desk.checks.sinks[MAIN, "q"] = (1, "elsewhere")
    desk.run()
    assert desk.status(allowed) == "ok"


def test_t19_a_driver_dies_between_upload_and_commit() -> None:
    """Nothing was linked, so nothing of it shows."""
    desk = Desk()
    desk.move("a", "d1", **batch(desk, 0, "-", "5"))
    desk.pump()
    del desk.members["a"]
    desk.work = []
    assert desk.shown() == {}
    again = desk.move("b", "d2", **batch(desk, 0, "-", "5"))
    desk.run()
    assert desk.status(again) == "ok"
    assert list(desk.shown()) == ["q/0000"]


def issued_in_the_future(mutant: str | None) -> None:
    """Decision 401: one request from the future would end all others once it is evicted."""
    lake = Lake(Limits(requests_max=1), machine_of(mutant))
    lake.put("1", ("a", "1"), issued=2**62)
    assert lake.put("2", ("a", "2")).status is Status.OK
    assert lake.put("3", ("a", "3"), issued=2).status is Status.OK


def a_lost_race_and_another_address(mutant: str | None) -> None:
    """Somebody else uploads the same content again: the address is another one, and it is that one which must stay."""
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
    t10_a_duplicate_announcement_of_a_superseded_attempt: ("accepts-lower-attempt", "announces-twice"),
    t11_redelivery_and_a_restart_from_a_checkpoint: (
        "checkpoint-by-cursor",
        "checkpoint-without-requests",
        "no-position-check",
    ),
    t12_a_late_link_after_delete_and_recreate: ("puts-by-name",),
    t14_if_match_across_a_merge: ("basis-not-compared",),
    t15_a_read_does_not_join_a_sync_already_sent: ("joins-sent-sync",),
    t17_a_restarted_member_reuses_a_token_number: ("token-without-boot",),
    a_lost_race_and_another_address: ("differing-by-identity",),
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


def test_a_commit_is_one_for_its_request_wherever_it_is_asked_for() -> None:
    """The same request at two members: one commit, and both are told of it."""
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
