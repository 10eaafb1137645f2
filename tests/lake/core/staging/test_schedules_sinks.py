"""Schedules of lake.md: drivers of a sink (T19)."""

from tests.lake.core.staging.desk import MAIN, Desk

from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.records import (
    SinkPart,
)
from penstock_lab.sim.workloads.lake_builder import Import


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
    """Show nothing of the batch, since nothing was linked."""
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
