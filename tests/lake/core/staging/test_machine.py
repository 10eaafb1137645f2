"""The state machine: random records against a dictionary, one at a time; then the corners, one by one."""

from random import Random
from typing import Any

import pytest
from tests.lake.core.staging.lakes import FIRST, MAIN, REPOSITORY, SECOND_NS, Lake, entry, put

from penstock.lake.core.staging import changes
from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.areas import area
from penstock.lake.core.staging.areas.entry_columns import batch_of, batch_to_bytes
from penstock.lake.core.staging.checkpoint import dump, load
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import CommitId, Instance, Limits, Precondition, Request, Row, StagingToken
from penstock.lake.core.staging.results import Result, Status


def columns(rows: dict[str, Any]) -> bytes:
    return batch_to_bytes(batch_of((path, entry(name) if name else None) for path, name in rows.items()))


class Twins:
    """The machine, dictionaries with its expected content, and another machine loaded from a checkpoint of it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.lake = Lake()
        self.areas: list[dict[str, str | None]] = [{}]
        self.other = StagingMachine()

    def step(self, id_: str) -> None:
        rng, request = self.rng, Request(id_, 1)
        rows = {f"p{rng.randint(0, 25):02d}": rng.choice((None, id_)) for _ in range(rng.randint(1, 8))}
        match rng.randint(0, 7):
            case 0 | 1:
                self.lake.put(id_, *rows.items())
                self.areas[-1] |= rows
            case 2 | 3:
                assert self.lake(r.Put(request, MAIN, 1, batch=columns(rows))).status is Status.OK
                self.areas[-1] |= rows
            case 4:
                self.lake(r.Delete(request, MAIN, tuple(rows)))
                self.areas[-1] |= dict.fromkeys(rows)
            case 5:
                self.commit(id_)
            case 6:
                self.lake(r.Reset(request, MAIN, StagingToken(id_), paths=tuple(rows), prefixes=("p1",)))
                self.areas = [
                    {path: name for path, name in area.items() if path not in rows and not path.startswith("p1")}
                    for area in self.areas
                ]
            case _:
                self.lake(r.Reset(request, MAIN, StagingToken(id_)))
                self.areas = [{}]

    def commit(self, id_: str) -> None:
        announced = self.lake.announce(id_)
        if self.areas[-1]:
            self.areas.append({})
        if self.rng.random() < 0.7:
            assert self.lake.perform(id_, announced, f"c{id_}").status is Status.OK
            self.areas = self.areas[-1:]

    def compare(self) -> None:
        shown = {path: address for area in self.areas for path, address in area.items()}
        assert self.lake.staged() == dict(sorted(shown.items()))
        other = self.other
        for stamp, record in self.lake.log[other.applied :]:
            other.apply(other.applied + 1, stamp, record)
        other.check()
        assert other.state_hash() == self.lake.machine.state_hash()
        checkpoint = dump(self.lake.machine)
        assert dump(other) == checkpoint
        if self.rng.random() < 0.2:
            self.other = load(checkpoint, StagingMachine)


@pytest.mark.parametrize("seed", range(6))
def test_areas_are_dictionaries(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts of rows and of columns, deletes, commits, resets: the uncommitted changes equal the dictionaries; and a
    machine loaded from a checkpoint taken on the way has the same bytes after every record.
    """
    monkeypatch.setattr(area, "MEMTABLE_ROWS_MAX", 5)
    monkeypatch.setattr(changes, "RUN_ROWS_MIN", 4)
    twins = Twins(seed)
    for step in range(50):
        twins.step(f"{seed}-{step}")
        twins.compare()


def test_every_member_has_the_same_bytes_and_hash() -> None:
    lake = Lake()
    for number in range(30):
        lake.put(f"{number}", (f"p{number}", "x"), ("q", f"{number}"))
    twin = StagingMachine()
    for position, (stamp, record) in enumerate(lake.log, start=1):
        twin.apply(position, stamp, record)
        assert twin.apply(position, stamp, record) is None, "L1: what was applied is skipped unseen"
    assert twin.state_hash() == lake.machine.state_hash()
    assert dump(twin) == dump(lake.machine)


def test_a_hole_in_the_queue_is_no_record_to_apply() -> None:
    with pytest.raises(AssertionError, match="left something out"):
        Lake().machine.apply(7, 1, r.Sync())


@pytest.mark.parametrize(
    "record",
    [
        put("x", ("a", "1"), instance=Instance("none")),
        r.Delete(Request("x", 1), Instance("none"), ("a",)),
        r.Reset(Request("x", 1), Instance("none"), StagingToken("t")),
        r.HardReset(Request("x", 1), Instance("none"), FIRST, StagingToken("t")),
        r.Announce(Request("x", 1), Instance("none"), 0, StagingToken("t"), 1),
        r.Perform(Request("x", 1), Instance("none"), FIRST, CommitId("c"), 1),
        r.DeleteBranch(Request("x", 1), Instance("none")),
        r.SinkRewind(Request("x", 1), Instance("none"), "q"),
        r.CreateBranch(Request("x", 1), REPOSITORY, "n", Instance("i"), StagingToken("t"), branch=Instance("none")),
        r.CreateTag(Request("x", 1), REPOSITORY, "n", Instance("i"), branch=Instance("none")),
    ],
    ids=lambda record: type(record).__name__,
)
def test_what_names_another_instance_changes_nothing(record: r.Changing) -> None:
    lake = Lake()
    lake.put("1", ("a", "1"))
    before = lake.staged(), lake.head, lake.tokens
    assert lake(record).status is Status.NO_BRANCH
    assert (lake.staged(), lake.head, lake.tokens) == before
    assert lake(record).status is Status.NO_BRANCH, "a refusal is final, too"


def test_unknown_repositories() -> None:
    lake = Lake()
    nowhere = Instance("none")
    unknown: list[r.Record] = [
        r.DeleteRepository(Request("a", 1), nowhere),
        r.CreateBranch(Request("b", 1), nowhere, "n", Instance("i"), StagingToken("t"), commit=FIRST),
        r.CreateTag(Request("c", 1), nowhere, "n", Instance("i"), commit=FIRST),
        r.GcFence(Request("d", 1), nowhere),
        r.Condemn(Request("e", 1), nowhere, 1),
    ]
    for record in unknown:
        assert lake(record).status is Status.NO_REPOSITORY, record
    assert lake(r.DeleteTag(Request("f", 1), nowhere, Instance("i"))).status is Status.NO_TAG


def test_names_are_taken_once_and_free_again_after_a_delete() -> None:
    lake = Lake()
    create = r.CreateBranch(Request("1", 1), REPOSITORY, "dev", Instance("b2"), StagingToken("d0"), branch=MAIN)
    assert lake(create) == Result(Status.OK, FIRST)
    taken = r.CreateBranch(Request("2", 1), REPOSITORY, "dev", Instance("b3"), StagingToken("d1"), branch=MAIN)
    assert lake(taken).status is Status.EXISTS
    tag = r.CreateTag(Request("3", 1), REPOSITORY, "v1", Instance("g1"), commit=FIRST)
    assert lake(tag) == Result(Status.OK, FIRST)
    assert lake(r.CreateTag(Request("4", 1), REPOSITORY, "v1", Instance("g2"), commit=FIRST)).status is Status.EXISTS
    assert lake(r.DeleteTag(Request("5", 1), REPOSITORY, Instance("g1"))).status is Status.OK
    assert lake(r.CreateTag(Request("6", 1), REPOSITORY, "v1", Instance("g2"), branch=MAIN)).status is Status.OK
    again = r.CreateRepository(
        Request("7", 1), "repo", Instance("r2"), "mem://", "main", Instance("b9"), StagingToken("t9"), FIRST
    )
    assert lake(again).status is Status.EXISTS
    assert lake(r.DeleteRepository(Request("8", 1), REPOSITORY)).status is Status.OK
    assert lake.machine.branches == {}
    assert lake(r.DeleteBranch(Request("9", 1), Instance("b2"))).status is Status.NO_BRANCH
    redone = r.CreateRepository(
        Request("10", 1), "repo", Instance("r2"), "mem://", "main", Instance("b9"), StagingToken("t9"), FIRST
    )
    assert lake(redone).status is Status.OK


def test_a_missing_source_is_malformed() -> None:
    lake = Lake()
    bare = r.CreateBranch(Request("1", 1), REPOSITORY, "dev", Instance("b2"), StagingToken("d0"))
    assert lake(bare).status is Status.MALFORMED
    assert lake(put("2", ("", "x"))).status is Status.MALFORMED
    assert lake(r.Delete(Request("3", 1), MAIN, ("",))).status is Status.MALFORMED
    assert lake(r.Put(Request("4", 1), MAIN, 1, batch=b"no arrow")).status is Status.MALFORMED


def test_all_rows_or_none() -> None:
    lake = Lake()
    lake.put("1", ("a", "1"))
    rows = (Row("b", entry("2")), Row("a", entry("3"), Precondition(absent=True)))
    assert lake.put("2", rows=rows) == Result(Status.PRECONDITION_FAILED, detail="a")
    assert lake.staged() == {"a": "1"}


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        (Precondition(absent=True), False),
        (Precondition(), True),
        (Precondition(etag="e1"), True),
        (Precondition(etag="e2"), False),
        (Precondition(address="x1"), True),
        (Precondition(address="x2"), False),
    ],
)
def test_preconditions(when: Precondition, holds: bool) -> None:
    assert when.holds(entry("x1", "e1")) is holds
    assert when.holds(None) is when.absent


def test_a_pinned_put_needs_the_last_token() -> None:
    lake = Lake()
    assert lake.put("1", ("a", "1"), pinned="t0").status is Status.OK
    lake.announce("c")
    assert lake.put("2", ("a", "2"), pinned="t0").status is Status.STALE_TOKEN
    assert lake.put("3", ("a", "3"), pinned="t-c-0").status is Status.OK


def test_a_token_is_used_once() -> None:
    lake = Lake()
    lake.put("1", ("a", "1"))
    assert lake.announce("c", token="t0").status is Status.STALE_TOKEN
    assert lake(r.Reset(Request("2", 1), MAIN, StagingToken("t0"))).status is Status.STALE_TOKEN
    assert lake(r.HardReset(Request("3", 1), MAIN, FIRST, StagingToken("t0"))).status is Status.STALE_TOKEN


def test_an_expected_head() -> None:
    lake = Lake()
    lake.put("1", ("a", "1"))
    assert lake.announce("c", expected_head=CommitId("other")).status is Status.PRECONDITION_FAILED
    assert lake.announce("d", expected_head=FIRST).status is Status.ANNOUNCED


def test_an_empty_area_is_not_sealed() -> None:
    lake = Lake()
    assert lake.announce("c") == Result(Status.ANNOUNCED, FIRST, ())
    assert lake.tokens == ("t0",)


def test_a_clean_move_is_refused_on_a_dirty_branch() -> None:
    lake = Lake()
    lake.put("1", ("a", "1"))
    assert lake.move("m", "c1", is_clean=True).status is Status.DIRTY
    assert lake.move("n", "c1").status is Status.OK


def test_a_range_needs_an_attempt() -> None:
    lake = Lake()
    lake.put("1", ("a", "1"))
    assert lake.move("m", "c1", range=(StagingToken("t0"),)).status is Status.MALFORMED


# limits


def test_what_is_bounded_says_busy_and_records_nothing() -> None:
    lake = Lake(Limits(attempts_max=1, staged_rows_max=2))
    lake.put("1", ("a", "1"), ("b", "1"))
    assert lake.put("2", ("c", "1")).status is Status.BUSY
    assert lake(r.Delete(Request("3", 1), MAIN, ("c",))).status is Status.BUSY
    announced = lake.announce("c")
    assert lake.announce("d").status is Status.BUSY
    assert lake.perform("c", announced, "c1").status is Status.OK
    assert lake.put("2", ("c", "1")).status is Status.OK
    assert lake.announce("d").status is Status.ANNOUNCED


def test_more_references_than_can_be_remembered_stop_the_collector_only() -> None:
    lake = Lake(Limits(touched_max=1))
    for number in range(3):
        lake(
            r.CreateTag(
                Request(f"{number}", 1), REPOSITORY, f"v{number}", Instance(f"g{number}"), CommitId(f"x{number}")
            )
        )
    condemn = r.Condemn(Request("g", 1), REPOSITORY, 1, (CommitId("y"),))
    assert lake(condemn).status is Status.REFUSED
    lake(r.GcFence(Request("f", 1), REPOSITORY))
    assert lake(r.Condemn(Request("h", 1), REPOSITORY, 2, (CommitId("y"),))).status is Status.OK


def test_limits_change_at_one_position_for_all() -> None:
    lake = Lake()
    assert lake(r.Version(Request("v", 1), 2, Limits(requests_max=1))).status is Status.OK
    assert len(lake.machine.requests) == 1
    assert (lake.machine.version, load(dump(lake.machine), StagingMachine).limits.requests_max) == (2, 1)


# ATOMIC


def both(*parts: Any) -> r.Atomic:
    return r.Atomic(Request("atomic", 1), parts)


def test_an_atomic_record_is_made_whole() -> None:
    lake = Lake()
    lake(r.CreateBranch(Request("1", 1), REPOSITORY, "dev", Instance("b2"), StagingToken("d0"), branch=MAIN))
    parts = put("", ("a", "1")), put("", ("a", "2"), instance=Instance("b2"))
    assert lake(both(*parts)).status is Status.OK
    assert (lake.staged(), lake.staged(Instance("b2"))) == ({"a": "1"}, {"a": "2"})
    assert lake(both(*parts)).status is Status.OK, "a copy of it is known"


def test_an_atomic_record_is_refused_whole() -> None:
    lake = Lake()
    assert lake(both(put("", ("a", "1")), put("", ("a", "2"), instance=Instance("b2")))).status is Status.NO_BRANCH
    assert lake.staged() == {}


def test_an_atomic_record_names_each_instance_once() -> None:
    lake = Lake()
    move = r.Perform(Request("", 1), MAIN, FIRST, CommitId("c1"), 1)
    assert lake(both(move, move)).status is Status.MALFORMED
    assert lake.head == FIRST


# time


def test_now_goes_forward_by_a_step_at_most() -> None:
    lake = Lake(Limits(now_step_ns=10))
    assert lake.machine.now == SECOND_NS, "the first stamp says when it is"
    for stamp, now in ((5 * SECOND_NS, SECOND_NS + 10), (0, SECOND_NS + 10), (SECOND_NS + 15, SECOND_NS + 15)):
        lake.stamp = stamp
        lake(r.Tick())
        assert lake.machine.now == now


def test_a_deadline_is_moved_by_its_owner() -> None:
    lake = Lake()
    lake.put("1", ("a", "1"))
    lake.announce("c")
    lake.sleep(9)
    assert lake(r.Extend(Request("c", 1), 0, 10 * SECOND_NS)).status is Status.EXTENDED
    lake.sleep(9)
    assert lake(r.Abort(Request("c", 1), 0)).status is Status.NOT_YET
    assert lake(r.Extend(Request("c", 1), 1, SECOND_NS)).status is Status.SUPERSEDED
    lake.sleep(2)
    assert lake(r.Abort(Request("c", 1), 0)).status is Status.ABORTED
    assert lake(r.Extend(Request("c", 1), 0, SECOND_NS)).status is Status.ABORTED


def test_a_request_issued_in_the_future_does_nothing() -> None:
    """It would raise the floor, when it is evicted, over every request still to come (decision 401)."""
    lake = Lake(Limits(requests_max=1))
    assert lake.put("1", ("a", "1"), issued=2**62).status is Status.EXPIRED
    assert lake.put("2", ("a", "2")).status is Status.OK
    assert lake.put("3", ("a", "3"), issued=2).status is Status.OK
