"""Packs stay few and mostly live, and no commit copies more than its bound: thousands of commits, as counts alone."""

from random import Random

import pytest

from penstock.lake.core.committed.leaves.fold import COPIES_MIN, plan_fold


def test_mostly_dead_packs_are_folded_and_others_are_not() -> None:
    live = {"a": 1000, "b": 300, "c": 340}

    assert plan_fold(live, dict.fromkeys(live, 1000), 10) == {"b"}


def test_four_packs_of_a_size_are_folded_and_three_are_not() -> None:
    live = dict.fromkeys("abcd", 5) | dict.fromkeys("efg", 17)

    assert plan_fold(live, live, 1) == set("abcd")
    assert plan_fold(dict.fromkeys("abcd", 600), dict.fromkeys("abcd", 600), 1) == set()


def test_a_fold_is_whole_and_cheapest_first_within_the_bound() -> None:
    live = {"a": 1500, "b": 1000, "c": 900}
    written = dict.fromkeys(live, 9000)

    assert plan_fold(live, written, 1) == {"b", "c"}
    assert plan_fold(live, written, 1700) == {"a", "b", "c"}


@pytest.mark.parametrize(("changed", "commits"), [(1, 1000), (10, 600), (100, 300), (1000, 150)])
def test_packs_stay_few_and_live(changed: int, commits: int) -> None:
    packs, space, copied = simulate(changed, commits, leaves=39_257)

    assert packs <= 128
    assert space <= 2.1
    assert copied <= max(COPIES_MIN, 2 * changed)


def simulate(changed: int, commits: int, leaves: int) -> tuple[int, float, int]:
    """Return the most packs, the most space per live leaf, and the most copies of one commit."""
    rng = Random(changed)
    place = [number // 1024 for number in range(leaves)]
    live: dict[int, set[int]] = {}
    for leaf, pack in enumerate(place):
        live.setdefault(pack, set()).add(leaf)
    written = {pack: len(held) for pack, held in live.items()}
    packs, space, most = 0, 0.0, 0
    for commit in range(commits):
        own = 1_000_000 + commit
        moved = rng.sample(range(leaves), changed)
        move(moved, own, place, live)
        counts = {str(pack): len(held) for pack, held in live.items() if pack != own}
        folded = plan_fold(counts, {str(pack): count for pack, count in written.items()}, changed)
        copies = [leaf for pack in folded for leaf in live[int(pack)]]
        move(copies, own, place, live)
        written[own] = changed + len(copies)
        packs, most = max(packs, len(live)), max(most, len(copies))
        space = max(space, sum(written[pack] for pack in live) / leaves)
    return packs, space, most


def move(leaves: list[int], to: int, place: list[int], live: dict[int, set[int]]) -> None:
    for leaf in leaves:
        live[place[leaf]].discard(leaf)
        if not live[place[leaf]]:
            del live[place[leaf]]
        place[leaf] = to
        live.setdefault(to, set()).add(leaf)
