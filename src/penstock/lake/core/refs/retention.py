"""Retention: how long what a branch once showed is kept. Design: lake.md L15; decision 408.

A commit is kept while something refers to it, and for some days after it was the head of a branch: until its child is
older than that. A head is kept whatever its age, and so is what a tag names. All others may be given up, for ever.
Rules decide what is given up, never whether it is safe to: that is CONDEMN's business (L15 d).
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec

from penstock.kernel.bounds import Name
from penstock.kernel.ids import SECOND
from penstock.lake.core.refs.graph import Search
from penstock.lake.core.staging.records import CommitId

__all__ = ["BranchRule", "RetentionRules", "retained"]

DAY_NS: Final = 24 * 60 * 60 * SECOND
Days = Annotated[int, msgspec.Meta(ge=1, le=36_500)]


class BranchRule(msgspec.Struct, frozen=True):
    """A branch which keeps its history longer, or less long, than others."""

    branch_id: Name
    retention_days: Days


class RetentionRules(msgspec.Struct, frozen=True):
    """The rules of one repository; the names are those of lakeFS's API."""

    default_retention_days: Days
    branches: Annotated[tuple[BranchRule, ...], msgspec.Meta(max_length=10_000)] = ()

    def since_ns(self, branch: str, now_ns: int) -> int:
        """What was shown at this time or later is kept."""
        days = {rule.branch_id: rule.retention_days for rule in self.branches}
        return now_ns - days.get(branch, self.default_retention_days) * DAY_NS


def retained(
    rules: RetentionRules, heads: Mapping[str, CommitId], tags: Iterable[CommitId], now_ns: int
) -> Search[set[CommitId]]:
    """The commits which the rules keep, of all that branches (name to head) and tags reach."""
    kept = set(tags)
    for branch, head in heads.items():
        since_ns = rules.since_ns(branch, now_ns)
        mine, waiting = {head}, [head]
        while waiting:
            commit = yield waiting.pop()
            new = [each for each in commit.parents if each not in mine] if commit.created_ns >= since_ns else []
            mine.update(new)
            waiting += new
        kept |= mine
    return kept
