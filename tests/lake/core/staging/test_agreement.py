"""The hash of more than half of the members is right. The order of the reports does not matter."""

import pytest

from penstock.lake.core.staging.proposing.agreement import POSITIONS_MAX, Agreement, Verdict


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        ("x", "xx", (Verdict.AGREED, [])),
        ("y", "xx", (Verdict.WRONG, ["y"])),
        ("x", "xy", (Verdict.AGREED, ["y"])),
        ("x", "y", (Verdict.UNKNOWN, ["x", "y"])),
        ("x", "yz", (Verdict.UNKNOWN, ["x", "y", "z"])),
        ("x", "xyy", (Verdict.UNKNOWN, ["x", "y"])),
    ],
)
def test_most_members_are_right(own: str, others: str, expected: tuple[Verdict, list[str]]) -> None:
    agreement = Agreement("me")
    for number, said in enumerate(others):
        agreement.heard(f"m{number}", 7, said)
    agreement.own(7, own)
    assert agreement.count(7) == expected
    assert agreement.is_disputed(7) == (len(set(own + others)) > 1)


def test_what_a_member_says_of_itself_is_not_asked_of_others() -> None:
    agreement = Agreement("me")
    agreement.own(7, "x")
    agreement.heard("me", 7, "a report of an earlier start")
    assert not agreement.is_disputed(7)


def test_few_positions_are_remembered() -> None:
    agreement = Agreement("me")
    for position in range(POSITIONS_MAX + 1):
        agreement.own(position, "x")
        agreement.heard("you", position, "y")
    assert not agreement.is_disputed(0)
    assert agreement.is_disputed(1)
