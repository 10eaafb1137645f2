from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.kernel.ids import Epoch, Incarnation, NodeId, Offset
from penstock.quorum.core.follow_cursor import FollowCursors
from penstock.quorum.records.member import Member, majority

E1, E2 = Epoch(1), Epoch(2)
A, B, C, D, E = (Member(NodeId(name), Incarnation("i1")) for name in "ABCDE")
B_WIPED = Member(NodeId("B"), Incarnation("i2"))


def three(durable: int = 0) -> FollowCursors:
    cursors = FollowCursors(E1, A, (A, B, C))
    cursors.attach(B, Offset(0))
    cursors.attach(C, Offset(0))
    cursors.durable = Offset(durable)
    return cursors


def test_a_majority_needs_the_leader_or_not() -> None:
    cursors = three()
    cursors.acknowledge(B, E1, Offset(5))
    assert cursors.quorum_offset() == 0
    cursors.acknowledge(C, E1, Offset(4))
    assert cursors.quorum_offset() == 4, "two followers are a majority, whatever the leader's disk does"
    cursors.durable = Offset(9)
    assert cursors.quorum_offset() == 5


def test_stale_duplicate_and_foreign_acknowledgements_change_nothing() -> None:
    cursors = three(durable=5)
    assert cursors.acknowledge(B, E1, Offset(3))
    before = cursors.fingerprint()
    assert not cursors.acknowledge(B, E1, Offset(3)), "duplicate"
    assert not cursors.acknowledge(B, E1, Offset(2)), "reordered"
    assert not cursors.acknowledge(B, Epoch(0), Offset(5)), "older epoch"
    assert not cursors.acknowledge(B, E2, Offset(5)), "newer epoch"
    assert not cursors.acknowledge(B_WIPED, E1, Offset(5)), "another incarnation"
    assert not cursors.acknowledge(D, E1, Offset(5)), "not a member"
    assert cursors.fingerprint() == before


def test_a_cursor_which_waits_for_truncation_counts_nothing() -> None:
    cursors = three(durable=5)
    cursors.hold(B)
    assert not cursors.acknowledge(B, E1, Offset(5))
    cursors.attach(B, Offset(2))
    assert cursors.quorum_offset() == 2


def test_rewind_lowers_what_was_pushed_never_what_was_confirmed() -> None:
    cursors = three(durable=9)
    cursor = cursors.attach(B, Offset(4))
    cursors.pushed(cursor, Offset(9))
    cursors.rewind(cursor, Offset(6))
    assert (cursor.last_pushed, cursor.last_confirmed) == (6, 4)
    cursors.rewind(cursor, Offset(2))
    assert (cursor.last_pushed, cursor.last_confirmed) == (4, 4)
    cursors.acknowledge(B, E1, Offset(8))
    assert (cursor.last_pushed, cursor.last_confirmed) == (8, 8)
    cursors.check(Offset(9))


def test_a_learner_confirms_but_does_not_vote() -> None:
    cursors = three(durable=7)
    cursors.attach(D, Offset(0))
    assert cursors.acknowledge(D, E1, Offset(7))
    assert cursors.held_by(D) == 7
    assert cursors.quorum_offset() == 0
    assert cursors.held_by_at_least(2, (A, C, D)) == 7


def test_a_member_being_removed_has_no_vote_while_the_majority_stays() -> None:
    cursors = three(durable=7)
    cursors.acknowledge(B, E1, Offset(7))
    assert cursors.quorum_offset() == 7
    cursors.remove_vote(B)
    assert cursors.quorum_offset() == 0, "A alone is no majority of three"
    cursors.acknowledge(C, E1, Offset(6))
    assert cursors.quorum_offset() == 6


def test_a_dropped_cursor_is_no_follower() -> None:
    cursors = three(durable=7)
    cursors.acknowledge(B, E1, Offset(7))
    cursors.drop(B)
    assert cursors.held_by(B) == 0
    assert not cursors.acknowledge(B, E1, Offset(8))


def test_acknowledgements_under_way_are_void_after_a_bump() -> None:
    cursors = three(durable=7)
    cursors.acknowledge(B, E1, Offset(3))
    cursors.bump(E2)
    assert not cursors.acknowledge(B, E1, Offset(7))
    assert cursors.held_by(B) == 3
    assert cursors.acknowledge(B, E2, Offset(7))


def test_levels_count_voters() -> None:
    cursors = three(durable=7)
    cursors.acknowledge(B, E1, Offset(5))
    cursors.acknowledge(C, E1, Offset(2))
    assert [cursors.level_offset(level) for level in (1, 2, 3, 4)] == [7, 5, 2, 2]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=7), st.data())
def test_the_order_statistic_is_the_brute_count(held: list[int], data: st.DataObject) -> None:
    members = tuple(Member(NodeId(f"n{index}"), Incarnation("i")) for index in range(len(held)))
    cursors = FollowCursors(E1, members[0], members)
    cursors.durable = Offset(held[0])
    for member, offset in zip(members[1:], held[1:], strict=True):
        cursors.attach(member, Offset(0))
        cursors.acknowledge(member, E1, Offset(offset))
    if len(members) > 1 and data.draw(st.booleans()):
        cursors.remove_vote(data.draw(st.sampled_from(members[1:])))
    votes = [held[index] for index, member in enumerate(members) if member != cursors.removed]
    holds = [n for n in range(7) if sum(1 for each in votes if each >= n) >= majority(len(members))]
    assert cursors.quorum_offset() == max(holds, default=0)
    cursors.check(Offset(6))


class CursorsAgainstModel(RuleBasedStateMachine):
    """Random calls, with lies among the acknowledgements, against a model which remembers every one that counted."""

    def __init__(self) -> None:
        super().__init__()
        self.cursors = three()
        self.head = 0
        self.confirmed: dict[Member, int] = {B: 0, C: 0}
        self.held: set[Member] = set()

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        self.head += count
        for cursor in self.cursors:
            if cursor.is_attached:
                self.cursors.pushed(cursor, Offset(self.head))

    @rule()
    def own_write_is_durable(self) -> None:
        self.cursors.durable = Offset(self.head)

    @rule(
        member=st.sampled_from([A, B, C, D, E, B_WIPED]),
        epoch_shift=st.sampled_from([0, 0, 0, -1, 1]),
        back=st.integers(0, 5),
    )
    def acknowledge(self, member: Member, epoch_shift: int, back: int) -> None:
        upto = max(0, self.head - back)
        counts = epoch_shift == 0 and member in self.confirmed and member not in self.held
        is_news = counts and upto > self.confirmed[member]
        epoch = Epoch(self.cursors.epoch + epoch_shift)
        assert self.cursors.acknowledge(member, epoch, Offset(upto)) == is_news
        if is_news:
            self.confirmed[member] = upto

    @rule(member=st.sampled_from([B, C, D]), at=st.integers(0, 5))
    def attach(self, member: Member, at: int) -> None:
        at = min(at, self.head)
        self.cursors.attach(member, Offset(at))
        self.confirmed[member] = max(at, self.confirmed.get(member, 0))
        self.held.discard(member)

    @rule(member=st.sampled_from([B, C, D]))
    def hold(self, member: Member) -> None:
        self.cursors.hold(member)
        self.confirmed.setdefault(member, 0)
        self.held.add(member)

    @rule(member=st.sampled_from([B, D]))
    def drop(self, member: Member) -> None:
        self.cursors.drop(member)
        self.confirmed.pop(member, None)
        self.held.discard(member)

    @rule(member=st.sampled_from([B, C]), to=st.integers(0, 9))
    def rewind(self, member: Member, to: int) -> None:
        cursor = self.cursors.get(member)
        if cursor is not None and to <= cursor.last_pushed:
            self.cursors.rewind(cursor, Offset(to))

    @rule()
    def bump(self) -> None:
        self.cursors.bump(Epoch(self.cursors.epoch + 1))

    @invariant()
    def agrees(self) -> None:
        self.cursors.check(Offset(self.head))
        assert {each.member: each.last_confirmed for each in self.cursors} == self.confirmed
        twin = self.cursors.copy()
        assert twin.fingerprint() == self.cursors.fingerprint()


TestCursorsAgainstModel = CursorsAgainstModel.TestCase
TestCursorsAgainstModel.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
