"""Fold: which packs an attempt copies live leaves out of, so that packs stay few and mostly live.

A pack of which less than a third is live is folded, and so are all packs of one size class (of four to the power of n
live leaves, below `SMALL`) once there are `FEW`. A fold is done whole or not at all, cheapest first, within a bound for
each commit; what does not fit waits for the next one.
"""

from collections.abc import Mapping
from typing import Final

__all__ = ["COPIES_MIN", "plan_fold"]

COPIES_MIN: Final = 2048  # leaves one commit may copy, however few it changes
SMALL: Final = 512
FEW: Final = 4
LIVE_PART: Final = 3


def plan_fold(
    live: Mapping[str, int], written: Mapping[str, int], changed: int, *, fresh: frozenset[str] = frozenset()
) -> set[str]:
    """Return the packs to copy out of; `live` are their live leaves with this commit's changes made.

    `fresh` packs are this attempt's own.
    """
    old = {pack: count for pack, count in live.items() if pack not in fresh}
    folds = [{pack} for pack, count in old.items() if count * LIVE_PART < written[pack]]
    classes: dict[int, set[str]] = {}
    for pack, count in old.items():
        if count < SMALL and count * LIVE_PART >= written[pack]:
            classes.setdefault((count.bit_length() - 1) // 2, set()).add(pack)
    folds += [packs for packs in classes.values() if len(packs) >= FEW]
    room = max(COPIES_MIN, 2 * changed)
    chosen: set[str] = set()
    for cost, packs in sorted((sum(old[pack] for pack in packs), sorted(packs)) for packs in folds):
        if cost <= room:
            room -= cost
            chosen.update(packs)
    return chosen
