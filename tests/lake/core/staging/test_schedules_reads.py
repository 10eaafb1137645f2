"""Schedules of lake.md: deletes, preconditions, and what readers see (T13 to T17)."""

from collections.abc import Callable

import pytest
from tests.lake.core.staging.desk import MAIN, Desk

from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.proposing.port import GiveUp, Read
from penstock.lake.core.staging.records import (
    CommitId,
    Instance,
    Precondition,
    Row,
)
from penstock_lab.sim.workloads.lake_builder import Import
from penstock_lab.sim.workloads.lake_lookup import with_basis

Schedule = Callable[[str | None], None]

DEV = Instance("dev-1")


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
    """F15: an old record releases no request, and is warned about."""
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


SCHEDULES: dict[Schedule, tuple[str, ...]] = {
    t14_if_match_across_a_merge: ("basis-not-compared",),
    t15_a_read_does_not_join_a_sync_already_sent: ("joins-sent-sync",),
    t17_a_restarted_member_reuses_a_token_number: ("token-without-boot",),
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
