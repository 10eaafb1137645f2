from collections.abc import Iterator, Sequence

from hypothesis import given, settings
from tests.lake.core.refs.history import History, histories

from penstock.lake.core.refs.graph import CommitLog, merge_base, run_search
from penstock.lake.core.staging.records import CommitId


def base_of(history: History, left: CommitId, right: CommitId) -> CommitId | None:
    return run_search(merge_base(left, right), history.commits.__getitem__)


def log_of(history: History, head: CommitId, *, first_parent: bool = False) -> Iterator[CommitId]:
    log = CommitLog(head, first_parent=first_parent)
    while (line := run_search(log.following(), history.commits.__getitem__)) is not None:
        assert line.commit == history.commits[line.id]
        yield line.id


@settings(deadline=None, max_examples=50)
@given(histories())
def test_no_common_ancestor_descends_from_the_merge_base(drawn: tuple[History, Sequence[CommitId]]) -> None:
    history, made = drawn
    left, right = made[-1], made[len(made) // 2]
    common = history.ancestors(left) & history.ancestors(right)

    found = base_of(history, left, right)

    assert (found is None) == (not common)
    assert found == base_of(history, right, left)
    if found is not None:
        assert found in common
        assert not any(found in history.ancestors(other) for other in common - {found})


@settings(deadline=None, max_examples=50)
@given(histories())
def test_a_log_has_every_ancestor_once_and_none_before_all_its_children(
    drawn: tuple[History, Sequence[CommitId]],
) -> None:
    history, made = drawn

    lines = list(log_of(history, made[-1]))

    assert sorted(lines) == sorted(history.ancestors(made[-1]))
    for number, id_ in enumerate(lines[1:], 1):
        assert any(id_ in history.commits[child].parents for child in lines[:number])


def test_a_log_is_newest_first() -> None:
    history = History()
    root = history.commit("root")
    left, right = history.commit("left", root, created_ns=10), history.commit("right", root, created_ns=20)
    merge = history.commit("merge", left, right, created_ns=30)

    assert list(log_of(history, merge)) == [merge, right, left, root]
    assert list(log_of(history, merge, first_parent=True)) == [merge, left, root]


def test_of_equal_times_the_child_comes_first() -> None:
    history = History()
    root = history.commit("root", created_ns=5)
    child = history.commit("child", root, created_ns=5)
    merge = history.commit("merge", root, child, created_ns=5)

    assert list(log_of(history, merge)) == [merge, child, root]


def test_only_what_is_needed_is_loaded() -> None:
    history = History()
    ids = [history.commit("0")]
    for number in range(1, 100):
        ids.append(history.commit(str(number), ids[-1]))
    branch = history.commit("branch", ids[95])
    loaded: list[CommitId] = []

    def get(id_: CommitId) -> object:
        loaded.append(id_)
        return history.commits[id_]

    assert run_search(merge_base(ids[-1], branch), get) == ids[95]  # type: ignore[arg-type]
    assert len(loaded) <= 7
    assert base_of(history, ids[3], ids[3]) == ids[3]
