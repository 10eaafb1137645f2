"""A member and the requests that wait for it, besides the schedules."""

from tests.lake.core.staging.desk import CONFIG, MAIN, REPOSITORY, Desk

from penstock.kernel.ids import MILLISECOND
from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.proposing.port import BuildFailed, BuildMove, GiveUp, LookUp, Read, RefsRead
from penstock.lake.core.staging.records import CommitId, FromStaged, Limits, Precondition, Row
from penstock.lake.core.staging.results import Status
from penstock_lab.sim.workloads.lake_builder import Import, Merge

ABSENT = Precondition(absent=True)


def test_a_lost_record_is_sent_again_under_the_same_token() -> None:
    desk = Desk()
    put = desk.put("a", "p1", "x")
    sent = desk.sent
    desk.lose()
    desk.sleep(30)
    assert [envelope for envelope in desk.sent if isinstance(envelope.record, r.Put)] == sent
    desk.run()
    assert desk.status(put) == "ok"


def test_a_lost_sync_is_sent_again_with_its_reads() -> None:
    desk = Desk()
    reads = [desk.ask("a", Read("repo", "main")) for _ in range(4)]
    desk.lose()
    desk.sleep(30)
    desk.run()
    assert all(desk.replies[read].head == "c0" for read in reads)


def test_a_put_on_an_old_view_looks_again_with_the_same_request() -> None:
    desk = Desk()
    put = r.Put(desk.request("p1"), MAIN, 1, (Row("x", desk.upload(), ABSENT),))  # no basis at all
    request = desk.write("a", put)
    desk.pump()
    ((_, effect),) = desk.work
    assert isinstance(effect, LookUp)
    assert effect.result.status is Status.STALE_BASIS
    desk.run()
    assert desk.status(request) == "ok"


def test_a_copy_whose_source_was_committed_meanwhile_is_found_there() -> None:
    desk = Desk()
    desk.put("a", "p1", "x")
    desk.run()
    found = desk.machine().branches[MAIN].find("x")
    assert found is not None
    row = Row("y", found[0], source=FromStaged(MAIN, "x"))
    desk.commit("a", "c1")
    desk.run()
    copy = desk.put("b", "copy", "y", rows=(row,))
    desk.run()
    assert desk.status(copy) == "ok"
    assert desk.shown()["y"] == desk.shown()["x"]


def test_a_busy_branch_is_tried_again_and_then_given_up_for_certain() -> None:
    desk = Desk()
    desk.append(r.Version(desk.request("v"), 1, Limits(staged_rows_max=1)))
    desk.put("a", "p1", "x")
    desk.run()
    busy = desk.put("a", "p2", "y")
    desk.run()
    assert desk.status(busy) is None
    for _ in range(CONFIG.retries_max + 1):
        desk.sleep(2)
        desk.run()
    assert (desk.status(busy), desk.replies[busy].detail) == ("cancelled", "busy")


def test_a_put_which_was_busy_goes_through_when_there_is_room() -> None:
    desk = Desk()
    desk.append(r.Version(desk.request("v"), 1, Limits(staged_rows_max=1)))
    desk.put("a", "p1", "x")
    desk.run()
    busy = desk.put("a", "p2", "y")
    desk.run()
    desk.commit("b", "c1")
    desk.run()
    desk.sleep(2)
    desk.run()
    assert desk.status(busy) == "ok"


def test_after_a_long_silence_time_comes_to_the_present_before_anything_is_announced() -> None:
    """Decision 402: a deadline set in the past would be over a few records later."""
    desk = Desk()
    step = 10 * MILLISECOND
    desk.append(r.Version(desk.request("v"), 1, Limits(now_step_ns=step)))
    desk.put("a", "p1", "x")
    desk.run()
    behind = desk.machine().now
    desk.now += 50 * step  # type: ignore[assignment]
    desk.start("b", desk.checkpoint("b"))
    desk.commit("b", "c1")
    desk.accept()
    desk.deliver("b")
    assert not desk.machine("b").attempts
    desk.run()
    desk.sleep(2)
    desk.run()
    assert desk.machine("b").now >= behind + 50 * step
    assert desk.checks.final["c1"].status is Status.OK


def test_an_owner_moves_its_deadline_while_it_builds() -> None:
    desk = Desk()
    desk.put("a", "p1", "x")
    desk.run()
    commit = desk.commit("a", "c1")
    desk.pump()
    for _ in range(10):
        desk.sleep(50)
        desk.pump()
    assert desk.machine("b").attempts, "nobody aborted it"
    desk.run()
    assert desk.status(commit) == "ok"


def test_an_idle_queue_gets_a_tick() -> None:
    desk = Desk()
    length = len(desk.log)
    desk.sleep(60)
    desk.accept()
    assert {type(envelope.record) for _, envelope in desk.log[length:]} == {r.Tick}


def test_a_build_that_fails_ends_the_request() -> None:
    desk = Desk()
    desk.put("a", "p1", "x")
    desk.run()
    commit = desk.commit("a", "c1")
    desk.pump()
    desk.builder.run = lambda effect: None  # type: ignore[method-assign]
    desk.run()
    assert desk.status(commit) == "aborted"
    move = desk.move("a", "m1", Merge(desk.machine().branches[MAIN].head))
    desk.run()
    assert (desk.status(move), desk.replies[move].detail) == ("cancelled", "it broke")


def test_a_move_is_made_on_the_head_it_replaces() -> None:
    desk = Desk()
    one = desk.move("a", "m1", Import((("x", desk.upload()),)))
    two = desk.move("b", "m2", Import((("y", desk.upload()),)))
    desk.pump()
    parents = [effect.parent for _, effect in desk.work if isinstance(effect, BuildMove)]
    assert parents == ["c0", "c0"]
    desk.run()
    assert (desk.status(one), desk.status(two)) == ("ok", "ok")
    assert sorted(desk.shown()) == ["x", "y"]


def built_on(desk: Desk) -> list[str]:
    return [effect.parent for _, effect in desk.work if isinstance(effect, BuildMove)]


def added_by_each(desk: Desk) -> list[str]:
    """Return the path that each commit of the branch added, oldest first."""
    paths: list[str] = []
    commit = desk.shelf.commits[CommitId(desk.head())]
    while commit.parents:
        parent = desk.shelf.commits[commit.parents[0]]
        paths += set(commit.tree) - set(parent.tree)
        commit = parent
    return paths[::-1]


def test_moves_of_one_branch_are_built_in_line_each_on_the_one_before() -> None:
    desk = Desk()
    moves = [desk.move("a", f"m{number}", Import(((f"x{number}", desk.upload()),))) for number in range(3)]
    desk.pump()
    assert built_on(desk) == ["c0"]
    desk.build()
    assert built_on(desk) == ["c1"]  # its PERFORM is still on the way
    desk.build()
    assert built_on(desk) == ["c2"]
    desk.run()
    assert [desk.status(move) for move in moves] == ["ok", "ok", "ok"]
    assert sorted(desk.shown()) == ["x0", "x1", "x2"]
    assert len(desk.shelf.commits) == 1 + 3  # none was built twice


def test_moves_behind_a_lost_race_are_built_again_in_their_order() -> None:
    desk = Desk()
    moves = [desk.move("a", f"m{number}", Import(((f"x{number}", desk.upload()),))) for number in range(3)]
    desk.pump()
    other = desk.move("b", "n", Import((("y", desk.upload()),)))
    desk.pump()
    desk.build()
    mine = [envelope for envelope in desk.sent if envelope.token is not None and envelope.token.member == "a"]
    desk.sent = [*(each for each in desk.sent if each not in mine), *mine]  # the other member comes first
    desk.run()
    assert {desk.status(move) for move in [*moves, other]} == {"ok"}
    assert sorted(desk.shown()) == ["x0", "x1", "x2", "y"]
    assert added_by_each(desk) == ["y", "x0", "x1", "x2"]


def test_a_conflict_with_a_commit_that_never_was_is_no_answer() -> None:
    desk = Desk()
    one = desk.move("a", "m1", Import((("x", desk.upload()),)))
    two = desk.move("a", "m2", Import((("y", desk.upload()),)))
    desk.pump()
    desk.build()
    desk.work, waiting = [], [effect.waiting for _, effect in desk.work if isinstance(effect, BuildMove)]
    desk.step("a", BuildFailed(waiting[0], "conflict"))  # with the first one, which is not applied yet
    assert (desk.status(two), built_on(desk)) == (None, [])
    desk.pump()
    assert (desk.status(one), built_on(desk)) == ("ok", [desk.head()])
    desk.step("a", BuildFailed(waiting[0], "conflict"))
    desk.run()
    assert (desk.status(two), desk.replies[two].detail) == ("cancelled", "conflict")


def test_a_move_that_is_given_up_lets_the_next_one_begin() -> None:
    desk = Desk()
    one = desk.move("a", "m1", Import((("x", desk.upload()),)))
    two = desk.move("a", "m2", Import((("y", desk.upload()),)))
    desk.pump()
    desk.ask("a", GiveUp(one))
    assert built_on(desk) == ["c0", "c0"]
    desk.run()
    assert (desk.status(one), desk.status(two)) == ("cancelled", "ok")


def test_what_moves_a_branch_that_is_not_there_is_told_so() -> None:
    desk = Desk()
    move = desk.move("a", "m1", Import(()), instance=r.Instance("gone"))
    desk.run()
    assert (desk.status(move), desk.replies[move].detail) == ("cancelled", "no-branch")


def test_names_are_read_at_one_position() -> None:
    desk = Desk()
    desk.append(r.CreateTag(desk.request("tag"), REPOSITORY, "v1", r.Instance("g1"), branch=MAIN))
    refs = desk.ask("a", RefsRead("repo"))
    nowhere = desk.ask("a", Read("none", "main"))
    no_branch = desk.ask("a", Read("repo", "none"))
    desk.run()
    found = desk.replies[refs]
    assert (list(found.branches), found.tags["v1"].commit) == (["main"], "c0")
    assert (desk.replies[nowhere], desk.replies[no_branch]) == (None, None)


def test_giving_up_what_is_over_does_nothing() -> None:
    desk = Desk()
    put = desk.put("a", "p1", "x")
    desk.run()
    desk.ask("a", GiveUp(put))
    assert desk.sent == []


def test_a_slow_queue_is_not_buried_under_copies() -> None:
    """Each time a record is sent again, more rarely: seed 20649 of the simulator had 37,000 copies of thirty wishes."""
    desk = Desk()
    desk.put("a", "p1", "x")
    desk.ask("a", Read("repo", "main"))
    desk.accept()
    length = len(desk.log)
    for _ in range(400):
        desk.sleep(5)
        desk.accept()
    copies = [type(envelope.record) for _, envelope in desk.log[length:] if envelope.token is not None]
    assert copies.count(r.Put) == copies.count(r.Sync) == 6, "after 20, 40, 80, 160, 320 and 640 ms"
