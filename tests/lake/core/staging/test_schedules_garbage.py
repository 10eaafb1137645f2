"""The schedules T20 of lake.md: the garbage collector against late links, copies, commits and another collector."""

from collections.abc import Callable

import pytest
from tests.lake.core.staging.desk import MAIN, REPOSITORY, Desk

from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.records import CommitId, FromCommit, FromStaged, Instance, Row, StagingToken
from penstock_lab.sim.workloads.lake_builder import Import
from penstock_lab.sim.workloads.lake_collector import condemnable, mark

Schedule = Callable[[str | None], None]

DEV = Instance("dev-1")


class Collector:
    """A collector whose steps are taken one by one."""

    def __init__(self, desk: Desk, name: str) -> None:
        self.desk, self.name = desk, name

    def fence(self) -> None:
        self.desk.append(r.GcFence(self.desk.request(f"{self.name} fence"), REPOSITORY))
        self.desk.pump()
        self.gce = self.desk.gce

    def mark(self, *expired: str) -> None:
        """Mark all but these commits."""
        self.expired = tuple(CommitId(commit) for commit in expired)
        machine = self.desk.machine()
        refs = machine.refs(machine.repositories[REPOSITORY])
        kept = [commit for commit in self.desk.checks.ever_heads if commit not in {*self.expired, *refs.expired}]
        self.marked = mark(self.desk.shelf, refs, kept)

    def condemn(self) -> str:
        self.desk.append(r.Condemn(self.desk.request(f"{self.name} condemn"), REPOSITORY, self.gce, self.expired))
        self.desk.pump()
        return self.desk.checks.final[f"{self.name} condemn"].status.value

    def sweep(self) -> None:
        shelf = self.desk.shelf
        for objects in (shelf.data, shelf.ranges):
            for name in [name for name, epoch in objects.items() if epoch < self.gce - 1 and name not in self.marked]:
                del objects[name]
        self.desk.checks.effects.references(self.desk.checks.views[-1])

    def run(self, *expired: str) -> str:
        """Fence, mark, condemn, sweep."""
        self.fence()
        self.mark(*expired)
        condemned = self.condemn()
        if condemned == "ok":
            self.sweep()
        return condemned


def test_t20_a_late_link_over_two_runs() -> None:
    desk = Desk()
    entry, epoch = desk.upload(), desk.gce
    Collector(desk, "g1").run()
    assert entry.address in desk.shelf.data, "an upload may last one whole run"
    Collector(desk, "g2").run()
    late = desk.put("a", "late", "x", entry, epoch=epoch)
    desk.run()
    assert desk.status(late) == "cancelled"
    assert desk.replies[late].detail == "stale-gc"


def t20_a_copy_then_a_delete_of_the_source(mutant: str | None) -> None:
    desk = Desk(mutant=mutant)
    desk.put("a", "p1", "x")
    desk.run()
    found = desk.machine().branches[MAIN].find("x")
    assert found is not None
    desk.write("b", r.Delete(desk.request("d"), MAIN, ("x",)))
    desk.run()
    for number in range(3):
        Collector(desk, f"g{number}").run()
    copy = desk.put("a", "copy", "y", rows=(Row("y", found[0], source=FromStaged(MAIN, "x")),))
    desk.run()
    assert desk.status(copy) == "cancelled"
    assert desk.shown() == {}


def commits_of_x(desk: Desk, count: int) -> list[str]:
    """x is put and committed again and again."""
    heads = []
    for number in range(count):
        desk.put("a", f"x{number}", "x")
        desk.run()
        desk.commit("a", f"commit{number}")
        desk.run()
        heads.append(desk.head())
    return heads


def make_old(desk: Desk, name: str = "idle") -> None:
    """Two runs which give up nothing: what there is is old enough to be swept."""
    for number in range(2):
        assert Collector(desk, f"{name}{number}").run() == "ok"


def t20_a_copy_from_a_commit_being_expired(mutant: str | None) -> None:
    """Between mark and CONDEMN: it is touched, and the collector marks again. Then it is gone for good."""
    desk = Desk(mutant=mutant)
    old, _ = commits_of_x(desk, 2)
    make_old(desk)
    collector = Collector(desk, "g")
    collector.fence()
    collector.mark(old)
    entry = desk.shelf.commits[CommitId(old)].tree["x"]
    desk.put("a", "copy", "y", rows=(Row("y", entry, source=FromCommit(CommitId(old))),))
    desk.run()
    assert collector.condemn() == "refused"
    assert Collector(desk, "g2").run(old) == "ok"
    refused = desk.write("a", r.HardReset(desk.request("h"), MAIN, CommitId(old), StagingToken("t9")))
    desk.run()
    assert desk.status(refused) == "expired-commit"


def t20_a_branch_on_a_commit_being_expired(mutant: str | None) -> None:
    """The branch comes between mark and CONDEMN, and is dropped again: that it was there is enough."""
    desk = Desk(mutant=mutant)
    old, _ = commits_of_x(desk, 2)
    collector = Collector(desk, "g")
    collector.fence()
    collector.mark(old)
    create = r.CreateBranch(desk.request("b"), REPOSITORY, "dev", DEV, StagingToken("d0"), CommitId(old))
    desk.write("a", create)
    desk.write("a", r.DeleteBranch(desk.request("drop"), DEV))
    desk.run()
    assert collector.condemn() == "refused"


def t20_a_new_range_with_the_content_of_a_garbage_one(mutant: str | None) -> None:
    """It is written again, at a place of its own, whatever exists already."""
    desk = Desk(mutant=mutant)
    (old,) = commits_of_x(desk, 1)
    entry = desk.shelf.commits[CommitId(old)].tree["x"]
    desk.put("a", "keep", "k", rows=(Row("k", entry, source=FromCommit(CommitId(old))),))
    desk.write("a", r.Delete(desk.request("d"), MAIN, ("x",)))
    desk.run()
    desk.commit("a", "without x")
    desk.run()
    make_old(desk)
    collector = Collector(desk, "g")
    collector.fence()
    collector.mark(old)
    desk.put("a", "again", "x", rows=(Row("x", entry, source=FromCommit(CommitId(desk.head()))),))
    desk.run()
    desk.commit("a", "with x")
    desk.run()
    assert collector.condemn() == "ok"
    collector.sweep()


def test_t20_a_commit_between_mark_and_condemn() -> None:
    """The head at the mark is replaced before CONDEMN: what the new one shares with it was marked."""
    desk = Desk()
    commits_of_x(desk, 1)
    make_old(desk)
    collector = Collector(desk, "g")
    collector.fence()
    collector.mark()
    desk.put("a", "y", "y")
    desk.run()
    desk.commit("a", "with y")
    desk.run()
    assert collector.condemn() == "ok"
    collector.sweep()
    assert sorted(desk.shelf.tree(CommitId(desk.head()))) == ["x", "y"]


def test_t20_a_perform_announced_two_runs_ago() -> None:
    """Announce it again, because its files may be swept."""
    desk = Desk()
    desk.put("a", "p1", "x")
    desk.run()
    commit = desk.commit("a", "c1")
    desk.pump()
    desk.build()
    sent, desk.sent = desk.sent, []
    make_old(desk)
    desk.accept(sent)
    desk.run()
    assert desk.status(commit) == "ok"
    assert sorted(desk.shelf.tree(CommitId(desk.head()))) == ["x"]


def t20_two_collectors(mutant: str | None) -> None:
    """The second fence forgets the changes since the first: the first run is over with it."""
    desk = Desk(mutant=mutant)
    old, _ = commits_of_x(desk, 2)
    make_old(desk)
    first, second = Collector(desk, "g1"), Collector(desk, "g2")
    first.fence()
    first.mark(old)
    entry = desk.shelf.commits[CommitId(old)].tree["x"]
    desk.put("a", "copy", "y", rows=(Row("y", entry, source=FromCommit(CommitId(old))),))
    desk.run()
    second.fence()
    if first.condemn() == "ok":
        first.sweep()
    second.mark(old)
    assert second.condemn() == "ok"
    second.sweep()
    assert sorted(desk.shown()) == ["x", "y"]


def an_old_parent_is_condemned(mutant: str | None) -> None:
    """Decision 404: a commit is built on P and loses to H, which has the same content in ranges of its own. Laid over H
    it still refers to the ranges of P: if P is condemned meanwhile, it must not become the head as it is."""
    desk = Desk(mutant=mutant)
    desk.move("a", "import", Import((("a", desk.upload()), ("b", desk.upload()))))
    desk.run()
    old = CommitId(desk.head())
    make_old(desk)
    desk.put("a", "p1", "d")
    desk.run()
    commit = desk.commit("a", "c1")
    desk.pump()
    desk.build()
    perform, desk.sent = desk.sent, []
    twin = desk.shelf.write(dict(desk.shelf.tree(old)), [old], [], desk.gce, "twin")
    desk.append(r.Perform(desk.request("twin"), MAIN, old, twin, desk.gce))
    desk.accept(perform)
    desk.pump()
    desk.build()  # it lost, and is laid over the twin
    perform, desk.sent = desk.sent, []
    collector = Collector(desk, "g")
    collector.fence()
    collector.mark(old)
    assert collector.condemn() == "ok"
    collector.sweep()
    desk.accept(perform)
    desk.run()
    assert desk.status(commit) == "ok"
    assert sorted(desk.shelf.tree(CommitId(desk.head()))) == ["a", "b", "d"]


def a_commit_is_on_its_way(mutant: str | None) -> None:
    """Decision 407: it is written, and no head yet. A caller that gives it up has a condemned head when it is
    performed.
    """
    desk = Desk(mutant=mutant)
    desk.put("a", "p1", "x")
    desk.run()
    commit = desk.commit("a", "c1")
    desk.pump()
    desk.build()
    perform, desk.sent = desk.sent, []
    collector = Collector(desk, "g")
    collector.fence()
    orphans = [each for each in desk.shelf.commits if each not in desk.checks.ever_heads]
    assert orphans
    earlier = [(0 if desk.parts.habits.condemns_young else desk.gce, orphans)]
    collector.mark(*condemnable(earlier, collector.gce))
    assert collector.condemn() == "ok"
    collector.sweep()
    desk.accept(perform)
    desk.run()
    assert desk.status(commit) == "ok"


SCHEDULES: dict[Schedule, tuple[str, ...]] = {
    t20_a_copy_then_a_delete_of_the_source: ("copy-unchecked",),
    t20_a_copy_from_a_commit_being_expired: ("expired-ignored",),
    t20_a_branch_on_a_commit_being_expired: ("touched-ignored",),
    t20_a_new_range_with_the_content_of_a_garbage_one: ("metadata-by-content",),
    t20_two_collectors: ("condemns-old-run",),
    a_commit_is_on_its_way: ("condemns-young",),
    an_old_parent_is_condemned: ("old-parent-unnamed",),
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
