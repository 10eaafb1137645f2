"""A notebook shows an error in a few lines: the user's own, and what the error says."""

import pytest

from penstock.journals.records.labels import LabelSelector
from penstock.kernel.errors import InternalError, PenstockError
from penstock.kernel.notebook import html_table


def raised() -> PenstockError:
    try:
        LabelSelector.parse("(((")
    except PenstockError as error:
        return error
    raise AssertionError


def test_an_error_is_a_few_lines_without_the_frames_of_penstock() -> None:
    first, *rest = raised()._render_traceback_()
    assert first.endswith(': LabelSelector.parse("(((")')
    assert rest == raised().describe().splitlines()
    assert len(rest) <= 3


def test_a_defect_keeps_its_frames() -> None:
    with pytest.raises(NotImplementedError):
        InternalError("broken")._render_traceback_()


def test_cells_are_escaped() -> None:
    assert html_table(("a", "b"), [(1, "<x>")]) == (
        "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>&lt;x&gt;</td></tr></table>"
    )
