import doctest
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_lab.bench import plot
from penstock_lab.bench.plot import draw, number


def test_the_examples_in_the_documentation() -> None:
    assert doctest.testmod(plot).failed == 0


def test_proportional_growth_is_a_straight_line() -> None:
    lines = draw({"a": [(1, 1), (10, 10), (100, 100)]}, columns=21, rows=21).splitlines()[:21]
    columns = [line.index("┤" if "┤" in line else "│") for line in lines]
    marked = [len(line) - 1 - column for line, column in zip(lines, columns, strict=True)]
    assert marked == list(range(21, 0, -1))


def test_sides_are_told_apart_without_colours() -> None:
    drawn = draw({"ours": [(1, 1), (10, 10)], "peer": [(1, 10), (10, 1)]})
    assert drawn.count("●") == 3
    assert drawn.count("○") == 3
    assert drawn.endswith("● ours   ○ peer")


@pytest.mark.parametrize("series", [{}, {"a": []}, {"a": [(0, 1), (1, 0), (-1, 5)]}], ids=["none", "empty", "zeros"])
def test_nothing_to_draw_is_said(series: dict[str, list[tuple[float, float]]]) -> None:
    assert draw(series) == "(nothing to draw)"


POSITIVE = st.floats(min_value=1e-9, max_value=1e12)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]), st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=8), min_size=1
    )
)
def test_any_curve_keeps_its_frame(series: dict[str, list[tuple[float, float]]]) -> None:
    lines = draw(series, columns=40, rows=10).splitlines()
    assert len(lines) == 13
    frame = lines[0].index("┤")
    assert all(line[frame] in "┤│" for line in lines[:10])
    assert all(len(line) <= frame + 41 for line in lines[:11])


@settings(deadline=None)
@given(st.floats())
def test_a_number_keeps_three_digits(value: float) -> None:
    text = number(value)
    if math.isfinite(value):
        assert float(text.replace(",", "")) == pytest.approx(value, rel=0.006)
