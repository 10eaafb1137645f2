"""The judge of the lake: rules E5 and E6, asked with the shipped client after the calm. Design: rooms.md §3.

E5  Every object that a branch or a commit names can be read whole.
E6  An acknowledged commit is in its branch, with every change acknowledged before it; an object that S3 or REST
    answered with 2xx is readable; a refused one is never seen.
"""

from collections.abc import AsyncIterator, Iterator
from hashlib import md5

from penstock.kernel.errors import PenstockError
from penstock.lake.client.lake_repository import AsyncLake, AsyncRef, AsyncRepository
from penstock_lab.world.lake.ledger import ABSENT, LakeLedger, ToldCommit

__all__ = ["LakeJudge"]

COMMITS_MAX: int = 8  # of a branch, whose trees are compared: the newest
Tree = dict[str, str]  # the sum of each path


class LakeJudge:
    """Asks one member about every answer in the ledger."""

    def __init__(self, ledger: LakeLedger, lake: AsyncLake, branches: tuple[str, ...], end_ns: int) -> None:
        self._book = ledger
        self._lake = lake
        self._branches = branches
        self._end_ns = end_ns
        self._sums: dict[str, str] = {}  # of the bytes at an address

    async def verdict(self, repositories: list[str]) -> str:
        """Return the first broken rule, or nothing."""
        try:
            for name in repositories:
                async for broken in self._repository(self._lake.repository(name)):
                    return broken
        except PenstockError as error:
            return f"E5: after the calm the judge was answered {type(error).__name__}: {error}"
        return ""

    async def _repository(self, repository: AsyncRepository) -> AsyncIterator[str]:
        name, book = repository.name, self._book
        shown = {*await repository.branches(), *await repository.tags()}
        for missing in sorted(book.names[name] - shown):
            yield f"E6: {missing} was made in {name}, and no list has it"
        for branch in self._branches:
            tree = await self._tree(repository.branch(branch))
            for broken in self._compared(name, branch, tree, self._end_ns, self._end_ns, f"{name}@{branch}"):
                yield broken
            if branch == "main":
                for broken in self._once(name, tree):
                    yield broken
            async for broken in self._commits(repository, branch, tree):
                yield broken

    async def _commits(self, repository: AsyncRepository, branch: str, tree: Tree) -> AsyncIterator[str]:
        """Compare the acknowledged commits with the log, and the newest ones with the changes before them."""
        name = repository.name
        told = [each for each in self._book.commits if (each.repository, each.branch) == (name, branch)]
        history = {commit.id async for commit in repository.branch(branch).log()} if told else set()
        for commit in told:
            if commit.id not in history:
                yield f"E6: commit {commit.id} of {name}@{branch} was acknowledged, and is not in its log"
            for broken in self._merged(commit, tree):
                yield broken
        for commit in told[-COMMITS_MAX:]:
            found = await self._tree(repository.ref(commit.id))
            where = f"commit {commit.id[:12]} of {name}@{branch}"
            for broken in self._compared(name, branch, found, commit.began_ns, commit.ended_ns, where):
                yield broken

    async def _tree(self, ref: AsyncRef) -> Tree:
        """Return what a ref shows. The bytes of each object are read once."""
        found = {}
        async for each in ref.list():
            if each.address not in self._sums:
                content = await ref.read(each.path)
                self._sums[each.address] = md5(content, usedforsecurity=False).hexdigest()
            found[each.path] = self._sums[each.address]
        return found

    def _compared(
        self, repository: str, branch: str, tree: Tree, began_ns: int, ended_ns: int, where: str
    ) -> Iterator[str]:
        """Compare a tree with the changes of the branch until then."""
        book = self._book
        for path in book.paths(repository, branch):
            found = tree.get(path, ABSENT)
            if found not in book.allowed(repository, branch, path, began_ns, ended_ns):
                yield f"E6: {where} has {self._shown(found)} at {path}; {self._expected(repository, branch, path)}"
        for path, found in tree.items():
            write = book.by_sum.get(found)
            if write is None or (write.repository, write.path) != (repository, path):
                yield f"E3: {where} has bytes at {path} that no client put there"
            elif write.fate == "refused":
                yield f"E2: {where} has {self._shown(found)} at {path}, which was refused"

    def _once(self, repository: str, tree: Tree) -> Iterator[str]:
        for path, writes in self._book.once.items():
            told = [each for each in writes if each.repository == repository and each.fate == "acknowledged"]
            if len(told) > 1:
                yield f"E6: {path} was created {len(told)} times, each where there was none"
            found = tree.get(path, ABSENT)
            if told and found != told[0].sum:
                yield f"E6: {path} was created with {self._shown(told[0].sum)}, and has {self._shown(found)}"

    def _merged(self, merge: ToldCommit, tree: Tree) -> Iterator[str]:
        """Compare a branch with an acknowledged merge into it: it has every path that was not deleted."""
        if not merge.merged:
            return
        book, source = self._book, merge.merged
        before = [
            each
            for each in book.commits
            if (each.repository, each.branch) == (merge.repository, source) and each.ended_ns <= merge.began_ns
        ]
        if not before:
            return
        for path in book.paths(merge.repository, source):
            allowed = book.allowed(merge.repository, source, path, before[-1].began_ns, self._end_ns)
            if tree.get(path, ABSENT) not in allowed:
                found = self._shown(tree.get(path, ABSENT))
                yield f"E6: {merge.branch} has {found} at {path} after a merge of {source} was acknowledged"

    def _shown(self, sum_: str) -> str:
        write = self._book.by_sum.get(sum_)
        return "nothing" if not sum_ else f"bytes of sum {sum_}" if write is None else f"{write.content!r:.50}"

    def _expected(self, repository: str, branch: str, path: str) -> str:
        allowed = self._book.allowed(repository, branch, path, self._end_ns, self._end_ns)
        return "expected " + " or ".join(self._shown(each) for each in sorted(allowed))
