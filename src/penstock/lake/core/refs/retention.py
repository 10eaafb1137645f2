"""Retention: how long what a branch once showed is kept. Design: lake.md L15; decision 408.

A commit is kept while something refers to it, and for some days after it was the head of a branch: until its child is
older than that. A head is kept whatever its age, and so is what a tag names. All others may be given up, for ever.
Rules decide what is given up, never whether it is safe to: that is CONDEMN's business (L15 d).
"""

from collections.abc import Iterable, Mapping

from penstock.lake.core.refs.graph import Search
from penstock.lake.core.refs.rules import RetentionRules
from penstock.lake.core.staging.records import CommitId

__all__ = ["retained"]


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
