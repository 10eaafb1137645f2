"""Checkpoints: everything is in them, and bad bytes are no checkpoint."""

import pytest
from tests.lake.core.staging.lakes import MAIN, REPOSITORY, Lake

from penstock.kernel.errors import MalformedFrame
from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.checkpoint import dump, freeze, load
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import CommitId, Instance, Request, SinkPart, StagingToken


def full_lake() -> Lake:
    """Something in every table."""
    lake = Lake()
    lake.put("1", ("a", "1"), ("b", None))
    lake.announce("c")
    lake.put("2", ("a", "2"))
    lake.move("sink", "c1", sink=SinkPart("q", 0, "-", "5"))
    lake(r.CreateBranch(Request("b", 1), REPOSITORY, "dev", Instance("b2"), StagingToken("d0"), branch=MAIN))
    lake(r.CreateTag(Request("t", 1), REPOSITORY, "v1", Instance("g1"), commit=CommitId("c0")))
    lake(r.GcFence(Request("f", 1), REPOSITORY))
    lake(r.Condemn(Request("g", 1), REPOSITORY, 2, (CommitId("x"),)))
    lake(r.CreateTag(Request("t2", 1), REPOSITORY, "v2", Instance("g2"), commit=CommitId("y")))
    lake(
        r.CreateRepository(
            Request("r", 1),
            "other",
            Instance("r2"),
            "mem://2",
            "main",
            Instance("b9"),
            StagingToken("t0"),
            CommitId("c0"),
        )
    )
    return lake


def test_a_loaded_machine_is_the_same_machine() -> None:
    lake = full_lake()
    loaded = load(dump(lake.machine), StagingMachine)
    loaded.check()
    assert loaded.state_hash() == lake.machine.state_hash()
    assert dump(loaded) == dump(lake.machine)
    assert loaded.branches[MAIN].find("b") == (None,)
    assert loaded.repositories[REPOSITORY].branches["dev"] is loaded.branches[Instance("b2")]


def test_both_go_on_alike() -> None:
    lake = full_lake()
    loaded = load(dump(lake.machine), StagingMachine)
    lake.put("3", ("z", "3"))
    stamp, record = lake.log[-1]
    loaded.apply(loaded.applied + 1, stamp, record)
    assert dump(loaded) == dump(lake.machine)


def test_no_bytes_are_the_beginning() -> None:
    assert load(b"", StagingMachine).applied == 0


@pytest.mark.parametrize("damage", [b"x", b"\x80", b"\xff" * 40])
def test_bad_bytes_are_refused(damage: bytes) -> None:
    with pytest.raises(MalformedFrame):
        load(damage, StagingMachine)


def test_the_hash_sees_every_table() -> None:
    """Any further entry in any table changes the hash."""
    hashes = {full_lake().machine.state_hash()}
    for record in (
        r.Delete(Request("x", 1), MAIN, ("n",)),
        r.DeleteTag(Request("x", 1), REPOSITORY, Instance("g1")),
        r.DeleteBranch(Request("x", 1), Instance("b2")),
        r.SinkRewind(Request("x", 1), MAIN, "q"),
        r.Extend(Request("c", 1), 0, 10**12),
        r.GcFence(Request("x", 1), REPOSITORY),
        r.Sync(),
    ):
        lake = full_lake()
        lake(record)
        hashes.add(lake.machine.state_hash())
    assert len(hashes) == 8


def test_what_is_frozen_does_not_change_with_the_machine() -> None:
    lake = full_lake()
    expected = dump(lake.machine)
    later = freeze(lake.machine)
    lake.put("3", ("c", "3"))
    lake(r.DeleteTag(Request("t3", 1), REPOSITORY, Instance("g1")))
    lake.move("sink2", "c2", sink=SinkPart("q", 1, "5", "6"))
    assert later() == expected
    assert later() == expected
    assert dump(lake.machine) != expected
