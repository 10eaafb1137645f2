"""The retention rules of a repository: kept in its storage namespace, so that every member and Spark find them.

<namespace>/_penstock/retention      JSON, as lakeFS's API has it
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from penstock.kernel.errors import NotFound, ObjectStoreFailed
from penstock.lake.core.refs.retention import retained
from penstock.lake.core.refs.rules import RetentionRules
from penstock.lake.core.staging.records import CommitId
from penstock.lake.member.engine import Engine
from penstock.lake.member.shelves import LakeShelf

__all__ = ["Retention", "kept_by_rules"]

_KEY: Final = "_penstock/retention"


class Retention:
    """The part of the service which keeps retention rules."""

    engine: Engine

    async def retention(self, repository: str) -> RetentionRules | None:
        """The rules; None if there are none, and everything which a branch or a tag reaches is kept."""
        return await _read(self.engine.shelves.of(await self.engine.repository(repository)))

    async def set_retention(self, repository: str, rules: RetentionRules | None) -> None:
        """Other rules, from the next run of the garbage collector on; None for none."""
        shelf = self.engine.shelves.of(await self.engine.repository(repository))
        if rules is None:
            await shelf.store.delete(shelf.folder + _KEY)
        else:
            await shelf.store.put(shelf.folder + _KEY, msgspec.json.encode(rules))


async def kept_by_rules(
    shelf: LakeShelf, heads: Mapping[str, CommitId], tags: tuple[CommitId, ...], reachable: set[CommitId]
) -> set[CommitId]:
    """Return the kept commits among those that heads and tags reach: all of them, if there are no rules."""
    rules = await _read(shelf)
    return (
        reachable
        if rules is None
        else await shelf.history.search(retained(rules, heads, tags, shelf.ports.clock.time_ns()))
    )


async def _read(shelf: LakeShelf) -> RetentionRules | None:
    try:
        data = (await shelf.store.get(shelf.folder + _KEY)).data
    except NotFound:
        return None
    try:
        return msgspec.json.decode(data, type=RetentionRules)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        # A collector that cannot read the rules must not collect without them.
        raise ObjectStoreFailed(
            f"{_KEY} of {shelf.storage} holds no retention rules: {error}", retryable=False
        ) from None
