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
    agreement.own(7, own)
    begun = [agreement.heard(f"m{number}", 7, said) for number, said in enumerate(others)]
    assert begun.count(True) == (len(set(own + others)) > 1)
    assert agreement.count(7) == expected


def test_what_a_member_says_of_itself_is_not_asked_of_others() -> None:
    agreement = Agreement("me")
    agreement.own(7, "x")
    assert not agreement.heard("me", 7, "a report of an earlier start")


def test_few_positions_are_remembered() -> None:
    agreement = Agreement("me")
    for position in range(POSITIONS_MAX + 1):
        agreement.own(position, "x")
        agreement.heard("you", position, "x")
    assert not agreement.heard("other", 0, "y"), "nothing to compare it with"
    assert agreement.heard("other", 1, "y")


def test_a_dispute_is_remembered_until_it_is_counted() -> None:
    """A healthy member that forgot the reports found no majority and stopped."""
    agreement = Agreement("me")
    agreement.own(0, "x")
    assert [agreement.heard("you", 0, "x"), agreement.heard("bad", 0, "y")] == [False, True]
    for position in range(1, 2 * POSITIONS_MAX):
        agreement.own(position, "x")
        agreement.heard("you", position, "x")
    assert agreement.count(0) == (Verdict.AGREED, ["y"])
    agreement.own(POSITIONS_MAX * 2, "x")
    agreement.heard("you", POSITIONS_MAX * 2, "x")
    assert not agreement.heard("bad", 0, "z"), "counted, so forgotten"
