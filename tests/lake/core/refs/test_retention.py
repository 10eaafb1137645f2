"""Which commits retention rules keep."""

import msgspec
import pytest
from tests.lake.core.refs.history import History

from penstock.lake.core.refs.graph import run_search
from penstock.lake.core.refs.retention import retained
from penstock.lake.core.refs.rules import DAY_NS, BranchRule, RetentionRules
from penstock.lake.core.staging.records import CommitId

TODAY = 100 * DAY_NS


def kept(history: History, rules: RetentionRules, heads: dict[str, CommitId], *tags: CommitId) -> list[str]:
    found = run_search(retained(rules, heads, tags, TODAY), history.commits.__getitem__)
    return sorted(history.commits[each].message for each in found)


def days(history: History, *ages: int) -> list[CommitId]:
    """Make a line of commits with these ages in days."""
    line: list[CommitId] = []
    for age in ages:
        line.append(history.commit(f"{age}", *line[-1:], created_ns=TODAY - age * DAY_NS))
    return line


def test_what_a_branch_showed_within_its_days_is_kept() -> None:
    """The head of ten days ago was the commit of 30 days ago: its child is 8 days old."""
    history = History()
    *_, head = days(history, 90, 30, 8, 1)
    assert kept(history, RetentionRules(10), {"main": head}) == ["1", "30", "8"]
    assert kept(history, RetentionRules(60), {"main": head}) == ["1", "30", "8", "90"]


def test_heads_and_tags_are_kept_whatever_their_age() -> None:
    history = History()
    oldest, _, head = days(history, 90, 80, 70)
    assert kept(history, RetentionRules(1), {"main": head}, oldest) == ["70", "90"]


def test_each_branch_has_its_own_days_and_the_most_patient_one_decides() -> None:
    history = History()
    first, second, head = days(history, 50, 40, 30)
    rules = RetentionRules(1, (BranchRule("main", 35),))
    assert kept(history, rules, {"main": head, "work": second}) == ["30", "40"]
    assert kept(history, rules, {"work": head, "other": first}) == ["30", "50"]


def test_both_parents_of_a_young_merge_are_kept() -> None:
    history = History()
    _, left = days(history, 90, 60)
    (right,) = days(history, 70)
    merge = history.commit("merge", left, right, created_ns=TODAY)
    assert kept(history, RetentionRules(5), {"main": merge}) == ["60", "70", "merge"]


@pytest.mark.parametrize(
    "text", ['{"default_retention_days": 0}', '{"branches": []}', '{"default_retention_days": "1"}']
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=RetentionRules)
