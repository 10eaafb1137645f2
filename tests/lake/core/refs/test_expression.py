import pytest
from tests.lake.core.refs.history import History

from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.lake.core.refs.expression import BaseKind, RefExpression, Step, StepKind, follow, lookup_order, parse_ref
from penstock.lake.core.refs.graph import run_search
from penstock.lake.core.staging.records import CommitId

UP, PARENT = StepKind.ANCESTOR, StepKind.PARENT


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("main", RefExpression("main")),
        ("main@", RefExpression("main", (), committed_only=True)),
        ("v1.2~", RefExpression("v1.2", (Step(UP, 1),), committed_only=True)),
        ("main~2", RefExpression("main", (Step(UP, 2),), committed_only=True)),
        ("tag^", RefExpression("tag", (Step(PARENT, 1),), committed_only=True)),
        ("tag^2~3^", RefExpression("tag", (Step(PARENT, 2), Step(UP, 3), Step(PARENT, 1)), committed_only=True)),
        ("main~~@", RefExpression("main", (Step(UP, 1), Step(UP, 1)), committed_only=True)),
    ],
)
def test_expressions_are_taken_apart(text: str, ref: RefExpression) -> None:
    assert parse_ref(text) == ref


@pytest.mark.parametrize("text", ["", "~1", "^", "@", "main@~1", "main~x", "a b", "main$", "main~1001", "main:path"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_ref(text)


def test_bases_are_looked_up_as_commits_only_if_they_look_so() -> None:
    assert lookup_order("a" * 64) == [BaseKind.COMMIT, BaseKind.BRANCH, BaseKind.TAG]
    assert lookup_order("abcd") == [BaseKind.BRANCH, BaseKind.TAG, BaseKind.COMMIT_PREFIX]
    for name in ("abc", "main", "ABCD", "a" * 65):
        assert lookup_order(name) == [BaseKind.BRANCH, BaseKind.TAG]


def test_steps_lead_along_the_parents() -> None:
    history = History()
    root = history.commit("root")
    left, right = history.commit("left", root), history.commit("right", root)
    merge = history.commit("merge", left, right)

    def resolve(text: str) -> CommitId:
        return run_search(follow(merge, parse_ref(text).steps), history.commits.__getitem__)

    assert [resolve(f"m{steps}") for steps in ("", "^0", "~0", "^", "^1", "~", "^2", "^2^", "~2", "^^")] == [
        *[merge] * 3,
        *[left] * 3,
        right,
        *[root] * 3,
    ]
    for steps in ("^3", "~3", "^2^2"):
        with pytest.raises(NotFound):
            resolve(f"m{steps}")
