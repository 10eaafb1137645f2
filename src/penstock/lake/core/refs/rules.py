"""The rules of retention, as clients give and get them. Design: lake.md L15."""

from typing import Annotated, Final

import msgspec

from penstock.kernel.bounds import Name
from penstock.kernel.ids import SECOND

__all__ = ["BranchRule", "RetentionRules"]

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
        """Return the time since which shown commits are kept."""
        days = {rule.branch_id: rule.retention_days for rule in self.branches}
        return now_ns - days.get(branch, self.default_retention_days) * DAY_NS
