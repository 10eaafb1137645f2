from typing import Any

import msgspec
import pytest
from tests.quorum.core.cluster import entry_id, members

from penstock.kernel.effects import Effect, Received, Reply, Requested, Send, SetTimer, TimerFired
from penstock.kernel.errors import InvalidArgument, PreconditionFailed, Unavailable
from penstock.kernel.ids import NO_ENTRY, SECOND, EntryId, Epoch, Instant, Offset, RequestId, Revision
from penstock.quorum.core.config import OperatorConfig
from penstock.quorum.core.operator import Elect, Operator, Reconfigure
from penstock.quorum.records.member import Ensemble, Member
from penstock.quorum.records.messages import (
    AddFollowerRequest,
    BecomeLeaderRequest,
    BecomeLeaderResponse,
    Change,
    ChangeOp,
    CommitReconfigurationRequest,
    CommitReconfigurationResponse,
    DrainRequest,
    DrainResponse,
    FenceRequest,
    FenceResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    PrepareReconfigurationRequest,
    PrepareReconfigurationResponse,
    Reason,
    Refusal,
    Request,
    Response,
    Role,
)
from penstock.quorum.records.metadata import (
    Metadata,
    MetadataRead,
    MetadataWritten,
    PeerLost,
    ReadMetadata,
    Status,
    WriteMetadata,
)

A, B, C, D = members("ABCD")
NEW = Metadata((A, B, C))
STEADY = Metadata((A, B, C), Epoch(4), Status.STEADY_STATE, A, None, is_formed=True)
NEXT = WriteMetadata(STEADY.in_election(Epoch(5)), Revision(1))
EXPAND = Change(ChangeOp.EXPAND, None, D)
CONFIG = OperatorConfig()


class Driver:
    """An operator, its effects in full, and the revision of a KeySpace which always says yes."""

    def __init__(self, metadata: Metadata | None = NEW, **config: int) -> None:
        self.now = Instant(0)
        self.operator = Operator(msgspec.structs.replace(CONFIG, **config))
        self.revision = 1
        assert self.operator.begin(self.now)[0] == ReadMetadata()
        self.first = self.step(MetadataRead(metadata, Revision(1)))

    def step(self, event: object) -> list[Effect]:
        effects = self.operator.step(event, self.now)  # type: ignore[arg-type]
        self.operator.check()
        assert self.operator.copy().fingerprint() == self.operator.fingerprint()
        return effects

    def hear(self, sender: Member, message: Response) -> list[Effect]:
        return self.step(Received(sender.node, message))

    def written(self) -> list[Effect]:
        self.revision += 1
        return self.step(MetadataWritten(is_written=True, revision=Revision(self.revision)))

    def tick(self, after_ns: int = 0) -> list[Effect]:
        """A tick, without its own next one and without another look at the metadata."""
        self.now = Instant(self.now + after_ns)
        effects = self.step(TimerFired("tick"))
        assert effects[0] == SetTimer("tick", Instant(self.now + CONFIG.heartbeat_ns))
        return [effect for effect in effects[1:] if effect != ReadMetadata()]

    def fenced(self, each: Member, head: EntryId = NO_ENTRY, epoch: int = 1) -> list[Effect]:
        return self.hear(each, FenceResponse(Epoch(epoch), each.incarnation, head))

    def alive(self, each: Member, role: Role, epoch: int, followers: Ensemble = ()) -> list[Effect]:
        number = self.operator._number
        return self.hear(
            each, HeartbeatResponse(Epoch(epoch), each.incarnation, number, role, NO_ENTRY, Offset(0), followers)
        )


def to(each: Member, request: Request) -> Send:
    return Send(each.node, request)


def watching() -> Driver:
    driver = Driver(STEADY)
    assert driver.first == [], "in STEADY_STATE an operator only watches"
    return driver


def elected() -> Driver:
    driver = Driver()
    driver.written()
    driver.fenced(A)
    driver.fenced(B)
    driver.hear(B, BecomeLeaderResponse(Epoch(1), B.incarnation))
    driver.hear(A, BecomeLeaderResponse(Epoch(1), A.incarnation))
    driver.written()
    return driver


def test_a_new_shard_is_elected_a_leader() -> None:
    driver = Driver()
    assert driver.first == [WriteMetadata(NEW.in_election(Epoch(1)), Revision(1))], "the epoch is written first"
    assert driver.written() == [
        to(each, FenceRequest(Epoch(1), each.incarnation, is_forming=True)) for each in (A, B, C)
    ]
    assert driver.fenced(A, entry_id(0, 0)) == []
    chosen = driver.fenced(B, entry_id(0, 0))
    assert chosen == [to(A, BecomeLeaderRequest(Epoch(1), A.incarnation, (A, B, C), ((B, NO_ENTRY),)))]
    assert driver.fenced(C) == [], "kept until the leader says yes"
    assert driver.hear(B, BecomeLeaderResponse(Epoch(1), B.incarnation)) == [], "it was not asked"
    steady = Metadata((A, B, C), Epoch(1), Status.STEADY_STATE, A, None, is_formed=True)
    assert driver.hear(A, BecomeLeaderResponse(Epoch(1), A.incarnation)) == [WriteMetadata(steady, Revision(2))]
    assert driver.written() == [
        to(A, AddFollowerRequest(Epoch(1), A.incarnation, each, NO_ENTRY)) for each in (B, C)
    ], "everybody who answered may follow"


def test_a_late_fence_response_becomes_add_follower() -> None:
    driver = elected()
    assert driver.fenced(C, entry_id(0, 0)) == [to(A, AddFollowerRequest(Epoch(1), A.incarnation, C, NO_ENTRY))]
    assert driver.fenced(D, entry_id(9, 9)) == [], "not a member"
    assert driver.fenced(C, entry_id(9, 9), epoch=9) == [], "not this epoch"


def test_fences_and_become_leader_are_repeated() -> None:
    driver = Driver()
    fences = driver.written()
    driver.fenced(A)
    assert driver.tick() == fences[1:]
    (lead,) = driver.fenced(B)
    assert driver.tick() == [lead]


def test_grace_lets_more_members_answer() -> None:
    driver = Driver(grace_ns=CONFIG.heartbeat_ns)
    driver.written()
    driver.fenced(A)
    assert driver.fenced(B) == []
    lead = BecomeLeaderRequest(Epoch(1), A.incarnation, (A, B, C), ((B, NO_ENTRY),))
    assert driver.tick(CONFIG.heartbeat_ns)[0] == to(A, lead)
    eager = Driver(grace_ns=CONFIG.heartbeat_ns)
    eager.written()
    eager.fenced(A)
    eager.fenced(B)
    assert len(eager.fenced(C)) == 1, "all have answered: there is nothing to wait for"


def test_an_election_which_takes_too_long_starts_again_in_a_new_epoch() -> None:
    driver = Driver()
    driver.written()
    assert driver.tick(CONFIG.election_ns) == [WriteMetadata(NEW.in_election(Epoch(2)), Revision(2))]


def test_a_lost_race_is_followed_by_a_look_and_patience() -> None:
    driver = Driver()
    assert driver.step(MetadataWritten(is_written=False, revision=Revision(5))) == [ReadMetadata()]
    theirs = NEW.in_election(Epoch(1))
    assert driver.step(MetadataRead(theirs, Revision(5))) == [], "another operator is at work"
    assert driver.tick(CONFIG.election_ns) == []
    late = driver.step(MetadataRead(theirs, Revision(5)))
    assert late == [WriteMetadata(theirs.in_election(Epoch(2)), Revision(5))], "taking over means a new epoch"


def test_an_operator_which_finds_an_unfinished_election_takes_over_in_a_new_epoch() -> None:
    theirs = STEADY.in_election(Epoch(5))
    assert Driver(theirs).first == [WriteMetadata(theirs.in_election(Epoch(6)), Revision(1))]
    preparing = STEADY.preparing(EXPAND)
    assert Driver(preparing).first == [WriteMetadata(STEADY.in_election(Epoch(6)), Revision(1))], "PREPARE is dropped"
    committing = preparing.committing_change()
    assert Driver(committing).first == [WriteMetadata(committing.in_election(Epoch(6)), Revision(1))], "COMMIT is kept"


def test_a_chosen_node_which_restarted_since_makes_another_election() -> None:
    driver = Driver()
    driver.written()
    driver.fenced(A)
    driver.fenced(B)
    refusal = Refusal(Epoch(1), A.incarnation, "BecomeLeaderRequest", Reason.MAY_NOT_LEAD, Epoch(1))
    assert driver.hear(A, refusal) == [WriteMetadata(NEW.in_election(Epoch(2)), Revision(2))]


def test_a_node_ahead_of_the_metadata_raises_the_next_epoch() -> None:
    driver = Driver()
    driver.written()
    refusal = Refusal(Epoch(9), A.incarnation, "FenceRequest", Reason.HIGHER_EPOCH, Epoch(1))
    assert driver.hear(A, refusal) == [ReadMetadata()]
    assert driver.tick(CONFIG.election_ns) == [WriteMetadata(NEW.in_election(Epoch(10)), Revision(2))]


# watching


def test_everybody_is_asked_and_a_silent_leader_is_replaced() -> None:
    driver = watching()
    beat = [to(each, HeartbeatRequest(Epoch(4), each.incarnation, 1)) for each in (A, B, C)]
    assert driver.tick(CONFIG.heartbeat_ns) == beat
    driver.alive(A, Role.LEADER, 4, (B, C))
    for _ in range(CONFIG.failure_ns // CONFIG.heartbeat_ns - 1):
        assert len(driver.tick(CONFIG.heartbeat_ns)) == 3
    assert driver.tick(CONFIG.heartbeat_ns) == [NEXT]


def test_an_operators_own_pause_counts_against_no_leader() -> None:
    """O11: it was frozen; the answers in its mailbox are old, and the leader may be well."""
    driver = watching()
    driver.tick(CONFIG.heartbeat_ns)
    assert len(driver.tick(10 * CONFIG.failure_ns)) == 3, "it asks, and gives all of them time"
    for _ in range(CONFIG.failure_ns // CONFIG.heartbeat_ns - 1):
        assert len(driver.tick(CONFIG.heartbeat_ns)) == 3
    assert driver.tick(CONFIG.heartbeat_ns) == [NEXT]


def test_a_closed_connection_is_a_sign_and_a_refused_one_is_proof() -> None:
    driver = watching()
    ask = [to(A, HeartbeatRequest(Epoch(4), A.incarnation, 2))]
    driver.tick(CONFIG.heartbeat_ns)
    driver.alive(A, Role.LEADER, 4, (B, C))
    assert driver.step(PeerLost(B.node, is_refused=True)) == [], "a follower"
    assert driver.step(PeerLost(A.node, is_refused=False)) == ask
    driver.alive(A, Role.LEADER, 4, (B, C))
    assert len(driver.tick(CONFIG.lost_ns)) == 3, "it has answered on another connection"
    driver.step(PeerLost(A.node, is_refused=False))
    assert driver.tick(CONFIG.lost_ns) == [NEXT]
    driver = watching()
    assert driver.step(PeerLost(A.node, is_refused=True)) != [NEXT], "it has never answered: all may be starting"
    driver.tick(CONFIG.heartbeat_ns)
    driver.alive(A, Role.LEADER, 4, (B, C))
    assert driver.step(PeerLost(A.node, is_refused=True)) == [NEXT]


def answer_of_a(driver: Driver, **fields: Any) -> list[Effect]:
    """The leader A answers the last heartbeat."""
    metadata, number = driver.operator.metadata, driver.operator._number
    epoch = metadata.epoch if metadata is not None else Epoch(0)
    commit = fields.pop("commit", 0)
    return driver.hear(
        A, HeartbeatResponse(epoch, A.incarnation, number, Role.LEADER, NO_ENTRY, Offset(commit), (B, C), **fields)
    )


def stalled(driver: Driver, age_ms: int, *, followers: bool = True) -> list[Effect]:
    """The members answer a heartbeat; no majority has answered the leader for so long."""
    driver.tick(CONFIG.heartbeat_ns)
    for each in (B, C) if followers else ():
        driver.alive(each, Role.FOLLOWER, 4)
    return answer_of_a(driver, quorum_age_ms=age_ms)


def test_a_leader_without_its_majority_is_replaced_and_passed_over() -> None:
    """O13 and B1: its uncommitted head is the highest, so it would win each election."""
    driver = watching()
    assert stalled(driver, 999) == []
    assert stalled(driver, 1_000) == [NEXT]
    driver.written()
    driver.fenced(A, entry_id(4, 9), epoch=5)
    assert driver.fenced(B, entry_id(4, 7), epoch=5) == [], "A and B are a majority, but B may lack what A holds"
    chosen = driver.fenced(C, entry_id(4, 7), epoch=5)
    assert [effect.to for effect in chosen if isinstance(effect, Send)] == ["B"]


def test_a_stalled_leader_stays_if_nobody_else_can_be_reached() -> None:
    driver = watching()
    for _ in range(CONFIG.failure_ns // CONFIG.heartbeat_ns + 1):
        assert stalled(driver, 5_000, followers=False) == []


def test_each_election_over_a_stalled_leader_takes_twice_the_patience() -> None:
    driver = watching()
    watch = driver.operator.leader_watch
    waits = []
    for _ in range(7):
        waits.append(watch.patience_with_stalls() // SECOND)
        watch.stalls += 1
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    driver.tick(CONFIG.heartbeat_ns)
    answer_of_a(driver, commit=9)
    assert watch.patience_with_stalls() == SECOND, "a commit resets it"


def test_elections_that_fail_get_more_time_each_so_that_slow_disks_end_one() -> None:
    driver = Driver()
    driver.written()
    waits = []
    for _ in range(4):
        ticks = 1
        while not any(isinstance(effect, WriteMetadata) for effect in driver.tick(CONFIG.heartbeat_ns)):
            ticks += 1
        waits.append(ticks * CONFIG.heartbeat_ns // SECOND)
        driver.written()
    assert waits == [2, 4, 8, 16]


def test_a_leader_which_no_longer_leads_is_replaced_at_once() -> None:
    driver = watching()
    driver.tick()
    assert driver.alive(A, Role.FENCED, 4) == [WriteMetadata(STEADY.in_election(Epoch(5)), Revision(1))]


def test_an_answer_from_before_the_election_tells_nothing() -> None:
    driver = elected()
    assert driver.alive(A, Role.FENCED, 1) == []


def test_a_member_without_a_cursor_is_brought_back() -> None:
    driver = watching()
    driver.tick()
    assert driver.alive(A, Role.LEADER, 4, (B,)) == [to(C, FenceRequest(Epoch(4), C.incarnation))]
    back = driver.fenced(C, entry_id(3, 7), epoch=4)
    assert back == [to(A, AddFollowerRequest(Epoch(4), A.incarnation, C, entry_id(3, 7)))]
    empty = Refusal(Epoch(0), C.incarnation, "FenceRequest", Reason.NO_DATA, Epoch(4))
    assert driver.hear(C, empty) == [to(A, AddFollowerRequest(Epoch(4), A.incarnation, C, None))]


def test_another_operators_news_end_what_we_were_doing() -> None:
    driver = watching()
    driver.tick()
    assert ReadMetadata() in driver.alive(B, Role.FOLLOWER, 6)
    theirs = msgspec.structs.replace(STEADY, epoch=Epoch(6), leader=B)
    driver.step(MetadataRead(theirs, Revision(7)))
    assert driver.tick() == [to(each, HeartbeatRequest(Epoch(6), each.incarnation, 2)) for each in (A, B, C)]


# reconfigurations


def reconfiguring(change: Change = EXPAND) -> Driver:
    driver = watching()
    preparing = STEADY.preparing(change)
    asked = driver.step(Requested(RequestId(7), Reconfigure(change)))
    assert asked == [WriteMetadata(preparing, Revision(1))], "PREPARE is written first"
    assert driver.written() == [to(A, PrepareReconfigurationRequest(Epoch(5), A.incarnation, change))]
    return driver


def test_a_reconfiguration_goes_through_its_two_phases() -> None:
    driver = reconfiguring()
    preparing = STEADY.preparing(EXPAND)
    assert driver.hear(B, PrepareReconfigurationResponse(Epoch(5), B.incarnation)) == [], "only the leader can say so"
    prepared = driver.hear(A, PrepareReconfigurationResponse(Epoch(5), A.incarnation))
    assert prepared == [WriteMetadata(preparing.committing_change(), Revision(2))]
    assert driver.hear(A, PrepareReconfigurationResponse(Epoch(5), A.incarnation)) == [], "a duplicate"
    assert driver.written() == [to(A, CommitReconfigurationRequest(Epoch(5), A.incarnation, EXPAND))]
    done = preparing.committing_change().reconfigured()
    committed = driver.hear(A, CommitReconfigurationResponse(Epoch(5), A.incarnation))
    assert committed == [WriteMetadata(done, Revision(3))]
    assert driver.written() == [Reply(RequestId(7), done)]
    assert done.ensemble == (A, B, C, D)


def test_commit_is_not_written_before_prepared() -> None:
    driver = reconfiguring()
    for _ in range(3):
        assert not any(isinstance(effect, WriteMetadata) for effect in driver.tick())
    refusal = Refusal(Epoch(4), A.incarnation, "PrepareReconfigurationRequest", Reason.NOT_READY, Epoch(5))
    assert driver.hear(A, refusal) == [], "it is asked again"


def test_each_phase_is_repeated_until_it_is_answered() -> None:
    driver = reconfiguring()
    prepare = to(A, PrepareReconfigurationRequest(Epoch(5), A.incarnation, EXPAND))
    assert driver.tick()[-1] == prepare
    driver.hear(A, PrepareReconfigurationResponse(Epoch(5), A.incarnation))
    driver.written()
    assert driver.tick()[-1] == to(A, CommitReconfigurationRequest(Epoch(5), A.incarnation, EXPAND))


def test_a_leader_which_has_not_heard_of_prepare_yet_is_alive() -> None:
    driver = reconfiguring()
    driver.tick()
    assert driver.alive(A, Role.LEADER, 4, (B, C)) == []
    assert driver.alive(A, Role.LEADER, 5, (B,)) == [to(C, FenceRequest(Epoch(5), C.incarnation))]


def test_the_node_being_removed_is_not_brought_back() -> None:
    driver = reconfiguring(Change(ChangeOp.CONTRACT, C, None))
    driver.tick()
    assert driver.alive(A, Role.LEADER, 5, (B,)) == []


def test_a_stalled_reconfiguration_is_ended_by_an_election_and_its_asker_hears_of_it() -> None:
    driver = reconfiguring()
    for _ in range(CONFIG.reconfiguration_ns // CONFIG.heartbeat_ns - 1):
        driver.tick(CONFIG.heartbeat_ns)
        driver.alive(A, Role.LEADER, 5, (B, C))
    assert driver.tick(CONFIG.heartbeat_ns) == [WriteMetadata(STEADY.in_election(Epoch(6)), Revision(2))]
    driver.written()
    driver.fenced(A, epoch=6)
    driver.fenced(B, epoch=6)
    driver.hear(A, BecomeLeaderResponse(Epoch(6), A.incarnation))
    (reply, *_) = [effect for effect in driver.written() if isinstance(effect, Reply)]
    assert isinstance(reply.result, PreconditionFailed)


# people


def test_a_hand_over_prefers_a_node() -> None:
    driver = watching()
    drain = to(A, DrainRequest(Epoch(4), A.incarnation, C.node))
    assert driver.step(Requested(RequestId(3), Elect(C.node))) == [drain], "first what is pending is finished"
    assert driver.tick(CONFIG.heartbeat_ns) == [drain]
    assert driver.hear(B, DrainResponse(Epoch(4), B.incarnation, C)) == [], "only the leader can say so"
    assert driver.hear(A, DrainResponse(Epoch(4), A.incarnation, C)) == [NEXT]
    driver.written()
    driver.fenced(A, entry_id(4, 9), epoch=5)
    assert driver.fenced(B, entry_id(4, 9), epoch=5) == [], "a majority, but not with the one that should lead"
    (lead,) = driver.fenced(C, entry_id(4, 9), epoch=5)
    assert isinstance(lead, Send)
    assert lead.to == "C"
    driver.hear(C, BecomeLeaderResponse(Epoch(5), C.incarnation))
    steady = msgspec.structs.replace(STEADY, epoch=Epoch(5), leader=C)
    assert Reply(RequestId(3), steady) in driver.written()


def test_a_hand_over_does_not_wait_for_ever() -> None:
    driver = watching()
    driver.step(Requested(RequestId(3), Elect(C.node)))
    for _ in range(CONFIG.drain_ns // CONFIG.heartbeat_ns - 1):
        driver.tick(CONFIG.heartbeat_ns)
    assert driver.tick(CONFIG.heartbeat_ns) == [NEXT]
    driver.written()
    driver.fenced(A, entry_id(4, 9), epoch=5)
    assert driver.fenced(B, entry_id(4, 9), epoch=5) == []
    chosen = driver.tick(CONFIG.successor_ns)
    assert next(effect.to for effect in chosen if isinstance(effect, Send)) == "A", "the target does not answer"


def test_a_leader_whose_process_is_ending_is_relieved() -> None:
    driver = watching()
    driver.tick(CONFIG.heartbeat_ns)
    assert answer_of_a(driver, is_leaving=True) == [to(A, DrainRequest(Epoch(4), A.incarnation))]


def test_a_change_that_hangs_can_be_aborted_before_commit() -> None:
    driver = reconfiguring()
    aborted = [WriteMetadata(STEADY.in_election(Epoch(6)), Revision(2))]
    assert driver.step(Requested(RequestId(8), Elect(aborts=True))) == aborted
    driver = reconfiguring()
    driver.hear(A, PrepareReconfigurationResponse(Epoch(5), A.incarnation))
    driver.written()
    (reply,) = driver.step(Requested(RequestId(8), Elect(aborts=True)))
    assert isinstance(reply, Reply)
    assert isinstance(reply.result, Unavailable), "it can only be finished now"


def test_a_change_of_another_operator_is_left_alone_while_it_gets_on() -> None:
    """O12: two operators dropped every change slower than two seconds."""
    driver = watching()
    preparing = STEADY.preparing(EXPAND)
    driver.step(MetadataRead(preparing, Revision(2)))
    ask = CONFIG.heartbeat_ns
    for progress in range(1, 100):
        assert driver.tick(ask) == [to(A, HeartbeatRequest(Epoch(5), A.incarnation, progress))]
        answer_of_a(driver, progress=progress)
        assert driver.step(MetadataRead(preparing, Revision(2))) == []
    for _ in range(CONFIG.election_ns // ask):
        driver.tick(ask)
    taken = [WriteMetadata(preparing.in_election(Epoch(6)), Revision(2))]
    assert driver.step(MetadataRead(preparing, Revision(2))) == taken


def test_a_change_that_lost_a_race_was_not_dropped_by_an_election() -> None:
    driver = watching()
    driver.step(Requested(RequestId(7), Reconfigure(EXPAND)))
    reply, *_ = driver.step(MetadataWritten(is_written=False, revision=Revision(1)))
    assert isinstance(reply, Reply)
    assert "the shard changed at the same moment" in str(reply.result)


def test_one_thing_at_a_time() -> None:
    driver = reconfiguring()
    (reply,) = driver.step(Requested(RequestId(8), Elect()))
    assert isinstance(reply, Reply)
    assert isinstance(reply.result, Unavailable)


def test_what_does_not_fit_is_refused() -> None:
    driver = watching()
    (reply,) = driver.step(Requested(RequestId(8), Reconfigure(Change(ChangeOp.CONTRACT, A, None))))
    assert isinstance(reply, Reply)
    assert isinstance(reply.result, PreconditionFailed)
    with pytest.raises(InvalidArgument):
        driver.step(Requested(RequestId(9), "what?"))
    with pytest.raises(InvalidArgument):
        driver.step("what?")
