"""When a Fragment is rolled: by length, by flush interval, by codec and postfix if it is empty."""

import msgspec
import pytest

from penstock.journals.core.lead import Lead
from penstock.journals.core.replica import Replica
from penstock.journals.core.rolling import maybe_roll, postfix_at
from penstock.journals.records.fragment import CompressionCodec
from penstock.journals.records.spec import FragmentSpec
from penstock.kernel.ids import NodeId
from penstock_lab.explorer_journal.world import JournalWorld, broker

B0 = broker(0)
MINUTE = 60_000


def replica(appends: int, **changes: object) -> Replica:
    """Give a primary with this many bytes in its Fragment, and then another spec."""
    world = JournalWorld(replication=1, size=1).start(synchronized=True)
    for _ in range(appends):
        world.append(NodeId(B0))
    made = world.sites[B0].replica
    assert made.topology.spec is not None
    fragment = msgspec.structs.replace(FragmentSpec(), **changes)
    spec = msgspec.structs.replace(made.topology.spec, fragment=fragment)
    made.topology = msgspec.structs.replace(made.topology, spec=spec)
    return made


def test_by_length() -> None:
    assert maybe_roll(replica(2, length=3), 0) is None
    rolled = maybe_roll(replica(3, length=3), 0)
    assert rolled is not None
    assert (rolled.begin, rolled.end) == (3, 3)


@pytest.mark.parametrize("replication", [1, 3])
def test_a_full_fragment_is_rolled_as_soon_as_everybody_has_it(replication: int) -> None:
    world = JournalWorld(replication=replication, size=3, fragment_length=2).start(synchronized=True)
    for expected in ([], [(0, 2)], [(0, 2)], [(0, 2), (2, 4)]):
        world.append(B0)
        world.settle()
        assert [(each.begin, each.end) for each in world.sites[B0].uploads] == expected


def test_a_full_fragment_that_waits_for_an_append_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lead, "_roll_full", lambda _: None)
    with pytest.raises(AssertionError):
        test_a_full_fragment_is_rolled_as_soon_as_everybody_has_it(3)


def test_an_empty_fragment_takes_another_codec_at_once_and_a_full_one_later() -> None:
    gzip = CompressionCodec.GZIP
    empty = maybe_roll(replica(0, compression_codec=gzip), 0)
    assert empty is not None
    assert empty.codec is gzip
    assert maybe_roll(replica(1, compression_codec=gzip), 0) is None


def test_by_flush_interval() -> None:
    made = replica(1, flush_interval_ms=10 * MINUTE)
    made.lead.first_append_ms = 19 * MINUTE
    assert maybe_roll(made, 19 * MINUTE + 59_000) is None
    assert maybe_roll(made, 20 * MINUTE) is not None
    made.lead.first_append_ms = 0
    assert maybe_roll(made, 20 * MINUTE) is None, "nobody knows when its first append came"


def test_postfixes_are_of_utc() -> None:
    assert postfix_at("date=%Y-%m-%d/hour=%H", 0) == "date=1970-01-01/hour=00"
    assert postfix_at("", 0) == ""
