"""What `resolve` may say."""

import pytest
from tests.lab.sim.checkers.scene import Scene, entry_id

from penstock.quorum.records.resolution import Resolution


def led() -> Scene:
    scene = Scene()
    scene.elect(1, "a", "bc")
    return scene


@pytest.mark.parametrize(
    ("entry", "answer", "why"),
    [
        (entry_id(1, 1), Resolution.ABORTED, "it is committed"),
        (entry_id(1, 9), Resolution.COMMITTED, "it is pending"),
        (entry_id(1, 9), Resolution.ABORTED, "it is pending"),
        (entry_id(1, 1), Resolution.PENDING, "is confirmed beyond"),
        (entry_id(1, 2), Resolution.PENDING, "has committed beyond"),
        (entry_id(0, 9), Resolution.PENDING, "has its barrier at 1"),
        (entry_id(1, 1), Resolution.NOT_LEADER, "is in 1 and knows"),
        (entry_id(1, 1), Resolution.EXPIRED, "its window"),
    ],
)
def test_a_wrong_answer_is_seen(entry: object, answer: Resolution, why: str) -> None:
    scene = led()
    with pytest.raises(AssertionError, match=why):
        scene.checks.resolutions.answered(scene["a"], entry, answer)  # type: ignore[arg-type]


def test_right_answers_pass_and_at_the_end_everybody_knows() -> None:
    scene = led()
    checker = scene.checks.resolutions
    checker.answered(scene["b"], entry_id(1, 9), Resolution.PENDING)
    checker.answered(scene["b"], entry_id(7, 9), Resolution.NOT_LEADER)
    for name in "abc":
        checker.finish(scene[name], entry_id(1, 1))
    with pytest.raises(AssertionError, match="I14: at the end b"):
        checker.finish(scene["b"], entry_id(1, 9))
