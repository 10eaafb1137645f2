"""The allowed answers to clients."""

import pytest
from tests.lab.sim.checkers.scene import Scene, barrier, txn

from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, Instant, Offset
from penstock.quorum.client.sending import Sending
from penstock.quorum.records.answers import Answers, Fate
from penstock.quorum.records.effects import APPLIED
from penstock.quorum.records.entry import ClientId, Rollback
from penstock_lab.sim.checkers.history import HistoryAttempt, UserAppend


def tell(
    scene: Scene, fate: Fate, *attempts: HistoryAttempt, results: tuple[object, ...] = (), name: str = "a"
) -> None:
    entry: EntryId = attempts[0].appended
    requests, offsets = tuple(each.request for each in attempts), tuple(each.appended.offset for each in attempts)
    answers = Answers(fate, entry.epoch, requests, offsets, results)
    scene.checks.answers.answered(scene[name], answers, scene.world.now)


def appended(scene: Scene, seq: int, *, is_sync: bool = True, is_held: bool = True, level: int = 0) -> HistoryAttempt:
    """Node a, leading epoch 1, has appended this transaction; with `is_held`, b holds it, too."""
    attempt = scene.attempt("a", seq, is_sync=is_sync, level=level)
    attempt.arrived_at = scene.world.now
    entry = txn(1, seq, is_sync=is_sync)
    host = scene.hold("a", entry)
    scene.checks.answers.appended(host, host.log.end, entry)
    if is_held:
        scene.hold("b", entry)
    return attempt


def user_append(seq: int, fate: Fate) -> UserAppend:
    return UserAppend(ClientId("c"), seq, Sending(seq, b"", True, 0, False), 0, fate=fate)


def led() -> Scene:
    scene = Scene()
    scene.elect(1, "a", "bc")
    return scene


def commit(scene: Scene) -> None:
    host = scene["a"]
    host.commit = host.applied = host.log.end
    scene.checks.book.claim("a", host.log, host.commit)


def test_ok_means_committed_in_order_and_once() -> None:
    scene = led()
    first, second = appended(scene, 1), appended(scene, 2)
    with pytest.raises(AssertionError, match=r"I12.*is pending"):
        tell(scene, Fate.COMMITTED, first)
    scene = led()
    first, second = appended(scene, 1), appended(scene, 2)
    commit(scene)
    tell(scene, Fate.COMMITTED, second)
    with pytest.raises(AssertionError, match="I15: OK for 3 after one for 4"):
        tell(scene, Fate.COMMITTED, first)
    with pytest.raises(AssertionError, match="I15: request"):
        tell(scene, Fate.COMMITTED, second)


def test_only_a_leader_decides() -> None:
    scene = led()
    attempt = appended(scene, 1)
    commit(scene)
    assert scene["a"].core is not None
    scene["a"].core.leader = None
    with pytest.raises(AssertionError, match="I19"):
        tell(scene, Fate.COMMITTED, attempt)


def test_a_result_is_what_the_log_makes_of_it() -> None:
    scene = led()
    attempt = appended(scene, 1, level=APPLIED)
    commit(scene)
    tell(scene, Fate.COMMITTED, attempt, results=(1,))
    wrong = appended(scene, 2, level=APPLIED)
    commit(scene)
    with pytest.raises(AssertionError, match=r"I10.*was told 7, it is 2"):
        tell(scene, Fate.COMMITTED, wrong, results=(7,))
    again = appended(scene, 3, level=APPLIED)
    again.seq = 1
    commit(scene)
    with pytest.raises(AssertionError, match=r"I26.*took effect at 1/3"):
        tell(scene, Fate.COMMITTED, again, results=(1,))


def test_the_answer_to_a_user_is_true_of_the_pair() -> None:
    scene = led()
    appended(scene, 1)
    for fate, rule in ((Fate.COMMITTED, "I12"), (Fate.ABORTED, None), (Fate.OVERLOADED, None)):
        asked = user_append(1, fate)
        if rule is None:
            scene.checks.answers.told(asked)
        else:
            with pytest.raises(AssertionError, match=rule):
                scene.checks.answers.told(asked)
    commit(scene)
    scene.checks.answers.told(user_append(1, Fate.COMMITTED))
    for fate in (Fate.ABORTED, Fate.OVERLOADED):
        with pytest.raises(AssertionError, match="I13"):
            scene.checks.answers.told(user_append(1, fate))


def test_so_many_members_hold_what_was_asked_for() -> None:
    scene = led()
    attempt = appended(scene, 1, level=3)
    commit(scene)
    with pytest.raises(AssertionError, match="P7"):
        tell(scene, Fate.COMMITTED, attempt)


def test_aborted_means_a_committed_rollback_newest_first() -> None:
    scene = led()
    first, second = appended(scene, 1), appended(scene, 2)
    scene.hold("a", Rollback(Epoch(1), Offset(3)))
    with pytest.raises(AssertionError, match=r"I13.*before a ROLLBACK"):
        tell(scene, Fate.ABORTED, second, first)
    scene = led()
    first, second = appended(scene, 1), appended(scene, 2)
    scene.hold("a", Rollback(Epoch(1), Offset(3)))
    commit(scene)
    with pytest.raises(AssertionError, match="I15: aborts come newest first"):
        tell(scene, Fate.ABORTED, first, second)


def test_volatile_waiters_are_appended_in_order_and_aborted_together() -> None:
    scene = led()
    attempts = [scene.attempt("a", seq) for seq in (1, 2, 3)]
    with pytest.raises(AssertionError, match="I20: 2 is appended before 1"):
        scene.checks.answers.appended(scene["a"], 3, txn(1, 2))
    with pytest.raises(AssertionError, match=r"I20.*are aborted"):
        tell(scene, Fate.ABORTED, attempts[0])
    again = led()
    waiting = [again.attempt("a", seq) for seq in (1, 2, 3)]
    tell(again, Fate.ABORTED, waiting[2], waiting[1])
    with pytest.raises(AssertionError, match=r"I13.*is appended after"):
        again.checks.answers.appended(again["a"], 3, txn(1, 2))


def test_an_async_ok_promises_order() -> None:
    scene = led()
    appended(scene, 1)
    later = appended(scene, 2, is_sync=False)
    with pytest.raises(AssertionError, match=r"I16.*overtakes the sync one at 3"):
        tell(scene, Fate.ACKNOWLEDGED, later)


def test_what_was_acknowledged_is_lost_only_as_a_suffix() -> None:
    scene = led()
    lost, kept = appended(scene, 1, is_sync=False), appended(scene, 2, is_sync=False)
    tell(scene, Fate.ACKNOWLEDGED, lost, kept)
    commit(scene)
    scene.checks.answers.finish()
    scene.checks.book.committed[lost.entry.offset - 1] = barrier(2)
    with pytest.raises(AssertionError, match=r"I16: .* is lost, but \[4\] of its epoch are not"):
        scene.checks.answers._finish_acknowledged()


def test_everybody_is_told_in_time() -> None:
    scene = led()
    attempt = appended(scene, 1)
    scene.world.now = Instant(scene.world.now + 6_000_000_000)
    with pytest.raises(AssertionError, match="I14"):
        tell(scene, Fate.INDETERMINATE, attempt)
    scene["a"].node.resumed_at = scene.world.now
    attempt.fate = None
    tell(scene, Fate.INDETERMINATE, attempt)
    assert scene.checks.answers.indeterminate == [attempt]


def test_who_was_told_aborted_has_no_effect_at_the_end() -> None:
    scene = led()
    attempt = appended(scene, 1)
    commit(scene)
    attempt.fate = Fate.ABORTED
    with pytest.raises(AssertionError, match="I13"):
        scene.checks.answers.finish()


def test_what_is_refused_is_in_no_log() -> None:
    scene = led()
    refused = scene.attempt("a", 1)
    tell(scene, Fate.OVERLOADED, refused)
    assert refused.entry == NO_ENTRY
    attempt = appended(scene, 2)
    with pytest.raises(AssertionError, match="is in the log"):
        tell(scene, Fate.NOT_LEADER, attempt)
