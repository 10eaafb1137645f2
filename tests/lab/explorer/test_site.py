"""One node on its disk, as the explorer runs it."""

from penstock.kernel.effects import Received
from penstock.kernel.ids import Epoch, Incarnation, NodeId, RequestId
from penstock.quorum.records.answers import Fate
from penstock.quorum.records.effects import Append, AppendRequest
from penstock.quorum.records.entry import Barrier, ClientId
from penstock.quorum.records.messages import BecomeLeaderRequest, FenceRequest, FenceResponse, Role
from penstock.quorum.records.state import NodeState
from penstock_lab.explorer.desks import member
from penstock_lab.explorer.disk_image import DiskImage
from penstock_lab.explorer.facts import AppendFact, CommitFact, Crashes, Opens, Tells
from penstock_lab.explorer.site import ModelNode, SiteConfig

OPERATOR, ME, ONE = NodeId("op1"), Incarnation("i1"), Epoch(1)
ALONE = BecomeLeaderRequest(ONE, ME, (member("A"),), ())


def booted(*, is_slow: bool) -> ModelNode:
    return ModelNode.boot(SiteConfig(), DiskImage(NodeState(member("A"), is_formatted=True)), is_slow=is_slow).site


def leading(*, is_slow: bool) -> ModelNode:
    """A leader without followers."""
    site = booted(is_slow=is_slow).step(Received(OPERATOR, FenceRequest(ONE, ME))).site
    while site.disk.pending:
        site = site.finish_write().site
    return site.step(Received(OPERATOR, ALONE)).site


def test_a_fast_disk_is_done_within_the_step() -> None:
    step = booted(is_slow=False).step(Received(OPERATOR, FenceRequest(ONE, ME)))
    assert [type(message) for _, message in step.sent] == [FenceResponse]
    assert step.site.disk.state.epoch == 1


def test_a_slow_disk_takes_a_step_of_its_own() -> None:
    step = booted(is_slow=True).step(Received(OPERATOR, FenceRequest(ONE, ME)))
    assert step.sent == ()
    assert len(step.site.disk.pending) == 1
    done = step.site.finish_write()
    assert [type(message) for _, message in done.sent] == [FenceResponse]


def test_what_a_step_means_is_told_in_facts() -> None:
    site = leading(is_slow=True)
    done = site.finish_write()
    assert [type(fact) for fact in done.facts][:1] == [CommitFact], "its own barrier is durable, and it is alone"
    request = AppendRequest(RequestId(1), ClientId("c"), 1, b"")
    step = done.site.step(Append((request,)))
    assert [type(fact) for fact in step.facts] == [AppendFact]
    told: list[Tells] = []
    while not told:
        step = step.site.finish_write()
        told = [fact for fact in step.facts if isinstance(fact, Tells)]
    assert [(fact.request, fact.fate) for fact in told] == [(1, Fate.COMMITTED)]


def test_leading_begins_with_an_epoch_and_its_barrier() -> None:
    site = booted(is_slow=False).step(Received(OPERATOR, FenceRequest(ONE, ME))).site
    facts = site.step(Received(OPERATOR, ALONE)).facts
    assert facts[:2] == (Opens(NodeId("A"), ONE, 1, ()), AppendFact(NodeId("A"), ONE, 1, (Barrier(ONE),), 0))  # type: ignore[arg-type]


def test_a_crash_forgets_what_was_not_durable() -> None:
    site = leading(is_slow=True)
    kept, lost = (site.crash(image) for image in reversed(list(site.disk.survivors())))
    assert len(kept.site.disk.records) == 1
    assert lost.site.disk.records == ()
    assert lost.site.node.role is Role.FENCED
    assert isinstance(lost.facts[0], Crashes)


def test_a_step_leaves_the_site_it_started_from_as_it_was() -> None:
    site = leading(is_slow=True)
    before = site.fingerprint()
    site.finish_write()
    site.step(Received(OPERATOR, FenceRequest(Epoch(2), ME)))
    assert site.fingerprint() == before


def test_time_counts_from_the_sites_own_clock() -> None:
    """Two leaders whose clients wait equally long are equal, whatever their clocks say."""
    request = AppendRequest(RequestId(1), ClientId("c"), 1, b"", timeout_ns=10_000_000)
    early = leading(is_slow=True).step(Append((request,)))
    other = leading(is_slow=True)
    other.clock = type(other.clock)(5_000_000_000)
    late = other.step(Append((request,)))
    assert early.site.fingerprint() == late.site.fingerprint()
    assert early.site.deadlines() != late.site.deadlines()
