"""Patterns of branches, against the standard library's; no pattern takes long."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lake.core.refs.protection import RULES_MAX, ProtectionRule, are_sound, blocks, etag_of, is_match


@given(st.text("ab*?-", min_size=1, max_size=12), st.text("ab-", max_size=12))
def test_stars_and_question_marks_match_as_in_a_shell(pattern: str, name: str) -> None:
    assert is_match(pattern, name) == fnmatchcase(name, pattern)


@pytest.mark.parametrize(
    ("pattern", "name", "is_one"),
    [
        ("release-[0-9]", "release-7", True),
        ("release-[0-9]", "release-x", False),
        ("[!a-c]*", "beta", False),
        ("[^a-c]*", "main", True),
        ("[a-]x", "-x", True),
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
        ("main", "main-2", False),
        ("*", "", True),
    ],
)
def test_sets_and_escapes(pattern: str, name: str, is_one: bool) -> None:
    assert is_match(pattern, name) is is_one


def test_a_pattern_of_many_stars_is_not_slow() -> None:
    assert not is_match("*a" * 100 + "*b", "a" * 255)


def test_the_actions_of_a_rule() -> None:
    rules = (ProtectionRule("main"), ProtectionRule("v*", ("commit",)))
    assert blocks(rules, "main", "staging_write")
    assert blocks(rules, "v1", "commit")
    assert not blocks(rules, "v1", "staging_write")
    assert not blocks(rules, "dev", "commit")


@pytest.mark.parametrize("pattern", ["", "x" * 256, "a[b", "{a,b}", "a\\"])
def test_patterns_that_cannot_be_read(pattern: str) -> None:
    assert not are_sound((ProtectionRule(pattern),))


def test_bounds_and_names_of_rules() -> None:
    assert are_sound((ProtectionRule("a"),) * RULES_MAX)
    assert not are_sound((ProtectionRule("a"),) * (RULES_MAX + 1))
    assert not are_sound((ProtectionRule("a", ()),))
    assert etag_of(()) == ""
    assert etag_of((ProtectionRule("a"),)) != etag_of((ProtectionRule("a", ("commit",)),))
