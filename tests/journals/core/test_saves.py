"""Saves: gates hold back what follows, a primary's own part counts when it is durable, and content does not wait."""

from penstock.journals.core.effects import ContentEnded, ReadContent
from penstock.journals.core.saves import Saves
from penstock.journals.core.spool import Spool
from penstock.journals.records.api import AppendRequest
from penstock.journals.records.epoch import PipelineEpoch
from penstock.kernel.effects import Effect, Requested, SaveState, Send, StateSaved
from penstock.kernel.ids import SECOND, Incarnation, Instant, RequestId, Revision
from penstock_lab.explorer_journal.world import JournalWorld, broker

B0 = broker(0)
EPOCH = PipelineEpoch(Revision(4), 1)


def saves(*, is_kept: bool) -> tuple[Saves, list[Effect]]:
    out: list[Effect] = []
    return Saves(Spool("a/journal", Incarnation("i"), out, is_kept=is_kept)), out


def test_without_a_kept_spool_everything_counts_at_once() -> None:
    made, out = saves(is_kept=False)
    made.gate()
    assert not made.add_own(("acked", EPOCH, 1))
    made.end_step()
    assert out == []


def test_own_parts_of_a_step_share_one_save_behind_everything() -> None:
    made, out = saves(is_kept=True)
    assert made.add_own(("acked", EPOCH, 1))
    assert made.add_own(("acked", EPOCH, 2))
    made.gate()
    assert len(out) == 1
    made.end_step()
    assert len(out) == 2
    assert made.take_saved() == ()
    assert made.take_saved() == (("acked", EPOCH, 1), ("acked", EPOCH, 2))


def test_the_next_appends_content_streams_while_this_one_is_written_to_disk() -> None:
    """The proposal goes out first, then the next append is asked for its content, and the save comes last."""
    world = JournalWorld(is_kept=True).start(synchronized=True)
    replica = world.sites[B0].replica
    body = AppendRequest(deadline=Instant(SECOND))
    now = Instant(0)
    replica.step(Requested(RequestId(1), body), now)
    replica.step(Requested(RequestId(2), body), now)
    effects = replica.step(ContentEnded(RequestId(1), b"s" * 20, b"s" * 20, b"x"), now)
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Send) < kinds.index(ReadContent) < kinds.index(SaveState) == len(kinds) - 1
    assert replica.pipeline is not None
    before = replica.pipeline.acked[B0]
    replica.step(StateSaved(), now)
    assert replica.pipeline.acked[B0] == before + 1, "our own adoption counts now"
