"""Small histories in a dictionary."""

from collections.abc import Sequence

from hypothesis import strategies as st

from penstock.lake.core.committed.metarange import EMPTY_TREE
from penstock.lake.core.refs.commit import Commit, commit_id, generation_of
from penstock.lake.core.staging.records import CommitId


class History:
    """Commits by id; each is made of those before it."""

    def __init__(self) -> None:
        self.commits: dict[CommitId, Commit] = {}

    def commit(self, message: str, *parents: CommitId, created_ns: int | None = None) -> CommitId:
        made = Commit(
            tree=EMPTY_TREE,
            parents=parents,
            committer="ada",
            message=message,
            created_ns=len(self.commits) if created_ns is None else created_ns,
            metadata={},
            request=f"request-{len(self.commits)}",
            generation=generation_of([self.commits[parent] for parent in parents]),
        )
        self.commits[commit_id(made)] = made
        return commit_id(made)

    def ancestors(self, of: CommitId) -> set[CommitId]:
        """The commit and all before it."""
        found = {of}
        for parent in self.commits[of].parents:
            found |= self.ancestors(parent)
        return found


@st.composite
def histories(draw: st.DrawFn) -> tuple[History, Sequence[CommitId]]:
    """Draw up to a dozen commits, each with none, one or two parents, at times that may disagree with the graph."""
    history = History()
    made: list[CommitId] = []
    for number in range(draw(st.integers(1, 12))):
        parents = draw(st.lists(st.sampled_from(made), max_size=2, unique=True)) if made else []
        made.append(history.commit(str(number), *parents, created_ns=draw(st.integers(0, 5))))
    return history, made
