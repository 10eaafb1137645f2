"""How fast a client must be, and how fast a journal may be."""

from penstock.base.ids import SECOND, Instant
from penstock.runtime.journal.appends import Bucket, FlowPolice


def test_a_client_which_is_faster_than_it_must_be_saves_nothing_up() -> None:
    police = FlowPolice(Instant(0), bytes_per_s=1_000, grace_ns=SECOND)
    police.took(1_000_000)
    assert not police.is_too_slow(Instant(0))
    assert not police.is_too_slow(Instant(SECOND))
    assert police.is_too_slow(Instant(3 * SECOND))


def test_a_wait_of_ours_is_forgiven() -> None:
    police = FlowPolice(Instant(0), bytes_per_s=1_000, grace_ns=SECOND)
    police.forgive(Instant(10 * SECOND))
    assert not police.is_too_slow(Instant(11 * SECOND))
    assert police.is_too_slow(Instant(11 * SECOND + 1))


def test_a_bucket_fills_at_its_rate_and_one_chunk_may_overdraw_it() -> None:
    bucket = Bucket(1_000)
    assert bucket.wait_ns(Instant(0)) == 0
    bucket.take(2_250)
    assert bucket.wait_ns(Instant(0)) == 2 * SECOND
    assert bucket.wait_ns(Instant(SECOND)) == SECOND
    assert bucket.wait_ns(Instant(2 * SECOND)) == 0


def test_without_a_rate_nothing_waits() -> None:
    bucket = Bucket(0)
    bucket.take(1 << 40)
    assert bucket.wait_ns(Instant(0)) == 0
