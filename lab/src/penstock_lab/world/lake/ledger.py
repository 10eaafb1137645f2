"""The ledger of a lake's world: every change that a client asked for, with its answer; what a ref may show follows.

One writer changes a path of a branch, one change after the other. So a ref shows at a path the last acknowledged
change, or one whose fate is not known, which may take effect late. A content tells its path, its branch and its number.
"""

from collections import defaultdict
from collections.abc import Iterator
from hashlib import md5

import msgspec

__all__ = ["ABSENT", "LakeLedger", "LakeWrite", "ToldCommit"]

ABSENT = ""  # the sum of a path without an object


class LakeWrite(msgspec.Struct):
    """A change of a path, and the answer to it."""

    number: int
    repository: str
    branch: str
    path: str
    content: bytes | None  # None: the path is deleted
    began_ns: int
    sum: str  # MD5 of the content, which is the ETag
    fate: str = "open"  # acknowledged, refused, unknown; open: the client died before the answer
    ended_ns: int = 0


class ToldCommit(msgspec.Struct, frozen=True):
    """A commit that a member acknowledged."""

    repository: str
    branch: str
    id: str
    began_ns: int
    ended_ns: int
    merged: str = ""  # the branch whose head was merged


class LakeLedger:
    """Everything that clients did."""

    def __init__(self) -> None:
        self.writes: list[LakeWrite] = []
        self.commits: list[ToldCommit] = []
        self.once: dict[str, list[LakeWrite]] = {}  # paths where several clients create, each if there is none
        self.names: dict[str, set[str]] = defaultdict(set)  # acknowledged: branches and tags by repository
        self.by_sum: dict[str, LakeWrite] = {}
        self._by_path: dict[tuple[str, str, str], list[LakeWrite]] = defaultdict(list)
        self.reads = 0

    def write(
        self, repository: str, branch: str, path: str, size: int | None, now_ns: int, *, is_once: bool = False
    ) -> LakeWrite:
        """Begin a change; `size` of its content, or None to delete."""
        number = len(self.writes)
        content = None if size is None else _content(repository, branch, path, number, size)
        sum_ = ABSENT if content is None else md5(content, usedforsecurity=False).hexdigest()
        made = LakeWrite(number, repository, branch, path, content, now_ns, sum_)
        self.writes.append(made)
        if content is not None:
            self.by_sum[sum_] = made
        if is_once:
            self.once.setdefault(path, []).append(made)
        else:
            self._by_path[repository, branch, path].append(made)
        return made

    def paths(self, repository: str, branch: str) -> Iterator[str]:
        for other, name, path in self._by_path:
            if (other, name) == (repository, branch):
                yield path

    def allowed(self, repository: str, branch: str, path: str, began_ns: int, ended_ns: int) -> set[str]:
        """Return the sums that a read of a branch between two times may find at a path."""
        found = {ABSENT}
        for each in self._by_path.get((repository, branch, path), ()):
            if each.fate == "refused" or each.began_ns >= ended_ns:
                continue
            if each.fate == "acknowledged" and each.ended_ns <= began_ns:
                # Older ones of unknown fate may still take effect later.
                found = {other.sum for other in self._unknown(each)} | {each.sum}
            else:
                found.add(each.sum)
        return found

    def _unknown(self, before: LakeWrite) -> Iterator[LakeWrite]:
        for each in self._by_path[before.repository, before.branch, before.path]:
            if each is before:
                return
            if each.fate in ("open", "unknown"):
                yield each

    def ever(self, repository: str, branch: str, path: str) -> set[str]:
        """Return the sums that a path of a branch may ever have had."""
        writes = self._by_path.get((repository, branch, path), ())
        return {ABSENT} | {each.sum for each in writes if each.fate != "refused"}

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {"commits": len(self.commits), "reads": self.reads}
        for each in self.writes:
            found[each.fate] = found.get(each.fate, 0) + 1
        return found


def _content(repository: str, branch: str, path: str, number: int, size: int) -> bytes:
    head = b"<%s@%s/%s|%d|" % (repository.encode(), branch.encode(), path.encode(), number)
    return head + bytes([97 + number % 26]) * max(0, size - len(head))
