"""Label sets and selectors: the grammar and meaning of gazette.md §1.3."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.journals.records.labels import Label, LabelSelector, LabelSet
from penstock.kernel.errors import InvalidArgument

ORDERS = LabelSet.of([Label("topic", "orders"), Label("region", "eu"), Label("region", "us"), Label("flag")])


def test_a_set_is_sorted_and_has_no_doubles() -> None:
    labels = LabelSet.of([Label("bb", "2"), Label("aa", "1"), Label("bb", "2")])
    assert labels.labels == (Label("aa", "1"), Label("bb", "2"))
    assert (labels.value_of("bb"), labels.value_of("cc"), labels.values_of("cc")) == ("2", None, ())


def test_union_replaces_all_values_of_a_name_and_subtract_needs_equal_values() -> None:
    assert ORDERS.with_value("region", "ap").values_of("region") == ("ap",)
    assert ORDERS.subtract(LabelSet.of(region="eu")) == ORDERS, "other values: nothing is taken away"
    both = LabelSet.of([Label("region", "eu"), Label("region", "us"), Label("unknown", "x")])
    assert ORDERS.subtract(both).values_of("region") == ()


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (LabelSet((Label("bb"), Label("aa"))), "not sorted"),
        (LabelSet((Label("aa", "1"), Label("aa", "1"))), "not sorted"),
        (LabelSet((Label("aa", ""), Label("aa", "1"))), "empty value and another"),
        (LabelSet((Label("a"),)), "expected 2 to 64"),
        (LabelSet((Label("a b"),)), "' ' at position 1"),
        (LabelSet((Label("aa", "x" * 1025),)), "expected 0 to 1024"),
        (LabelSet(tuple(Label(f"n{number:05}") for number in range(1001))), "at most 1000"),
    ],
)
def test_bad_sets_are_refused(labels: LabelSet, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        labels.validate()


@pytest.mark.parametrize(
    ("text", "is_match"),
    [
        ("", True),
        ("topic=orders", True),
        ("topic == orders", True),
        ("topic=returns", False),
        ("topic", True),
        ("other", False),
        ("!other", True),
        ("!topic", False),
        ("region!=ap", True),
        ("region != eu", False),
        ("region in (ap, us)", True),
        ("region in (ap)", False),
        ("region notin (ap,us)", False),
        ("region not in (ap)", True),
        ("topic=orders, region=eu", True),
        ("topic=orders, region=ap", False),
        ("region=eu, region=ap", True),
        ("topic:prefix=ord", True),
        ("topic:prefix=ret", False),
        ("topic:prefix in (ret, ord)", True),
        ("name=shop/orders/1", True),
        ("name:prefix=shop/", True),
        ("prefix=shop/", True),
        ("prefix=warehouse/", False),
        ("name!=shop/orders/1", False),
        ("flag", True),
    ],
)
def test_selectors(text: str, is_match: bool) -> None:
    selector = LabelSelector.parse(text)
    assert selector.matches(ORDERS, name="shop/orders/1") is is_match
    again = LabelSelector.parse(str(selector))
    assert again == selector, "its text reads back as itself"


@pytest.mark.parametrize(
    "text", ["=", "a=", "topic in orders", "topic in ()", "a b", "topic,,flag", "!topic=orders", "x(", "topic:prefix"]
)
def test_bad_selectors_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        LabelSelector.parse(text)


@given(st.text(max_size=60))
def test_whatever_the_text_it_parses_or_is_refused(text: str) -> None:
    try:
        selector = LabelSelector.parse(text)
    except InvalidArgument:
        return
    assert LabelSelector.parse(str(selector)) == selector


NAMES = st.sampled_from(["aa", "bb", "cc"])
VALUES = st.sampled_from(["", "x", "xy", "z"])
LABELS = st.builds(Label, NAMES, VALUES)


@given(st.lists(LABELS), st.lists(LABELS), st.sets(st.tuples(NAMES, VALUES)))
def test_matching_is_what_the_words_say(
    include: list[Label], exclude: list[Label], pairs: set[tuple[str, str]]
) -> None:
    """Against a model: exclude wins; names are ANDed, values of a name ORed; an empty value is any."""
    selector = LabelSelector(LabelSet(tuple(sorted(set(include)))), LabelSet(tuple(sorted(set(exclude)))))
    labels = LabelSet(tuple(sorted(Label(name, value) for name, value in pairs)))

    def has(one: Label) -> bool:
        return any(name == one.name and one.value in ("", value) for name, value in pairs)

    wanted = {label.name for label in include}
    expected = not any(map(has, exclude)) and all(
        any(has(label) for label in include if label.name == name) for name in wanted
    )
    assert selector.matches(labels) is expected
