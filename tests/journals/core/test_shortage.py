"""A broker without room for content: its appends are aborted by name, until it has room again."""

from penstock.journals.core.effects import AppendAborted, ContentRefused, RoomChanged
from penstock.journals.records.api import Fate, Shortage, Status
from penstock.journals.records.messages import ContentRequest, ProposeRequest
from penstock.kernel.ids import RequestId
from penstock.kernel.probes import recording
from penstock_lab.explorer_journal.world import JournalWorld, broker

B0, B1, B2 = map(broker, range(3))
FULL = Shortage(Status.DISK_FULL, "b1", "/data/spools", 4096, "b1 has no room: 4096 bytes are free in /data/spools")


def synchronized(replication: int = 2) -> JournalWorld:
    return JournalWorld(replication=replication).start(synchronized=True)


def refuse_content(world: JournalWorld) -> None:
    """The next message from b0 to b1 brings content, and b1 has no room for it."""
    link = world._link(B0, B1, None)
    message, rest = world.links[link][0], world.links[link][1:]
    assert isinstance(message, ContentRequest | ProposeRequest)
    if rest:
        world.links[link] = rest
    else:
        del world.links[link]
    world.step(B1, RoomChanged(FULL))
    world.step(B1, ContentRefused(B0, message, FULL))


def test_an_append_for_which_a_peer_has_no_room_is_aborted_by_name() -> None:
    world = synchronized()
    append = world.append(B0)
    seen: list[str] = []
    with recording(seen.append):
        refuse_content(world)
    assert "journal.no_room" in seen
    world.settle()
    world.pass_time(B0, 10, "pulse")
    world.settle()
    answer = world.answers[append]
    assert (answer.fate, answer.status, answer.shortage) == (Fate.ABORTED, Status.DISK_FULL, FULL)


def test_content_which_is_streamed_is_aborted_at_once() -> None:
    world = synchronized()
    append = world.append(B0, by_hand=True)
    world.feed(append, is_end=False)
    refuse_content(world)
    world.settle()
    assert (world.answers[append].status, world.answers[append].shortage) == (Status.DISK_FULL, FULL)


def test_while_a_peer_has_no_room_content_is_refused_and_the_pipeline_stays() -> None:
    world = synchronized()
    world.step(B1, RoomChanged(FULL))
    first = world.append(B0)
    world.settle()
    assert world.fate(first) is Fate.COMMITTED, "there was room for this one"
    pipeline = world.sites[B0].replica.pipeline
    refused, barrier = world.append(B0), world.append(B0, length=0)
    world.settle()
    assert (world.answers[refused].fate, world.answers[refused].status) == (Fate.ABORTED, Status.DISK_FULL)
    assert world.fate(barrier) is Fate.COMMITTED
    world.step(B1, RoomChanged(None))
    world.pass_time(B0, 1, "pulse")
    world.settle()
    last = world.append(B0)
    world.settle()
    assert world.fate(last) is Fate.COMMITTED
    assert world.sites[B0].replica.pipeline is pipeline
    world.sites[B0].replica.check()


def test_a_peer_which_has_left_the_route_refuses_nothing() -> None:
    world = JournalWorld(replication=2, size=3).start(2, synchronized=True)
    world.step(B1, RoomChanged(FULL))
    world.append(B0)
    world.settle()
    assert world.sites[B0].replica.lead.shortage() == FULL
    world.expire(B1)
    world.add(B2)
    world.settle()
    world.pass_time(B0, 10, "pulse")
    world.settle()
    append = world.append(B0)
    world.settle()
    assert world.fate(append) is Fate.COMMITTED


def test_the_primary_itself_may_have_no_room() -> None:
    world = synchronized()
    append = world.append(B0, by_hand=True)
    world.feed(append, b"", is_end=False)
    world.step(B0, AppendAborted(RequestId(append), FULL.reason, FULL))
    world.settle()
    assert (world.answers[append].status, world.answers[append].shortage) == (Status.DISK_FULL, FULL)
