"""When a Fragment is rolled: closed, and a new one begun. Design: gazette.md §2.1 (maybeRoll); journals.md J11.

An append is never split, so Fragments hold whole appends, and the last one may make them longer than was asked for.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.journals.records.point import Point

if TYPE_CHECKING:
    from penstock.journals.core.replica import Replica

__all__ = ["maybe_roll", "postfix_at"]


def maybe_roll(replica: "Replica", unix_ms: int) -> Point | None:
    """Return the empty Fragment to begin before the next append; None to continue the present one."""
    spec, head = replica.topology.spec, replica.spool.points[-1]
    assert spec is not None
    fragment = spec.fragment
    if 0 < head.end - head.begin < fragment.length:
        flush_ms, first_ms = fragment.flush_interval_ms, replica.lead.first_append_ms
        if not (flush_ms and unix_ms and first_ms and unix_ms // flush_ms != first_ms // flush_ms):
            return None
    rolled = head.rolled(fragment.compression_codec, postfix_at(fragment.path_postfix_template, unix_ms))
    return rolled if rolled != head else None


def postfix_at(template: str, unix_ms: int) -> str:
    """The path postfix of a Fragment whose first append came at that time.

    >>> postfix_at("date=%Y-%m-%d/hour=%H", 1_763_208_000_000)
    'date=2025-11-15/hour=12'
    """
    return datetime.fromtimestamp(unix_ms / 1_000, UTC).strftime(template) if template else ""
