"""Probes: silent in production, recorded in a run."""

from penstock.kernel.probes import reached, recording


def test_probes_are_recorded_only_while_the_block_runs() -> None:
    seen: list[str] = []
    reached("before")
    with recording(seen.append):
        reached("outer")
        with recording(lambda name: seen.append(f"inner {name}")):
            reached("x")
        reached("outer again")
    reached("after")
    assert seen == ["outer", "inner x", "outer again"]
