from collections import Counter
from random import Random

import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.messages.mapping import fnv1a_32, modulo, random, rendezvous

JOURNALS = [f"orders/part-{number:03}" for number in range(8)]
KEYS = [f"key-{number}".encode() for number in range(4000)]


def test_the_hash_is_fnv1a() -> None:
    assert [fnv1a_32(text) for text in (b"", b"a", b"foobar")] == [0x811C9DC5, 0xE40C292C, 0xBF9CF968]


@pytest.mark.parametrize("mapping", [modulo, rendezvous])
def test_a_key_stays_in_its_journal_and_keys_spread(mapping: type) -> None:
    one, other = mapping(JOURNALS), mapping(JOURNALS[::-1])
    counts = Counter(map(one, KEYS))
    assert set(counts) == set(JOURNALS)
    assert [one(key) for key in KEYS] == [other(key) for key in KEYS], "the order of the names does not count"


def test_rendezvous_moves_only_the_keys_of_a_journal_which_goes() -> None:
    before, after = rendezvous(JOURNALS), rendezvous(JOURNALS[1:])
    for key in KEYS:
        assert before(key) in (after(key), JOURNALS[0])


def test_random_is_drawn_from_the_given_generator() -> None:
    one, other = random(JOURNALS, Random(1)), random(JOURNALS, Random(1))
    assert [one(b"k") for _ in range(50)] == [other(b"k") for _ in range(50)]
    assert len({one(b"k") for _ in range(50)}) > 1


def test_no_journals_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no journal"):
        modulo([])
