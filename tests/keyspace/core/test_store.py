"""The store in memory, against a list of all states it has had."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.kernel.errors import Compacted, LeaseExpired, PreconditionFailed
from penstock.kernel.ids import MILLISECOND, Instant, Revision
from penstock.keyspace.core.records import FIRST_REVISION, KeyChange, KeySnapshot, KeyValue, LeaseId
from penstock.keyspace.core.store import KeyStore
from penstock.keyspace.core.transaction import DeleteKey, PutKey, Transaction

KEYS = st.sampled_from(["a/1", "a/2", "b"])
State = dict[str, KeyValue]


class StoreMachine(RuleBasedStateMachine):
    """Every state is kept; reads at a revision, changes since one, and leases must agree with them."""

    def __init__(self) -> None:
        super().__init__()
        self.store = KeyStore()
        self.states: dict[Revision, State] = {FIRST_REVISION: {}}
        self.leases: dict[LeaseId, Instant] = {}
        self.now = Instant(0)

    def remember(self) -> None:
        self.states[self.store.revision] = {entry.key: entry for entry in self.store.range("")}

    @rule(key=KEYS, use_lease=st.booleans())
    def put(self, key: str, use_lease: bool) -> None:
        lease = max(self.leases) if use_lease and self.leases else LeaseId(0)
        outcome = self.store.transact(Transaction(then=(PutKey(key, b"", lease),)))
        assert outcome.revision == max(self.states) + 1
        self.remember()

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        existed = key in self.states[max(self.states)]
        outcome = self.store.transact(Transaction(then=(DeleteKey(key),)))
        assert outcome.revision == max(self.states) + existed
        self.remember()

    @rule(ttl_ms=st.integers(100, 300))
    def grant(self, ttl_ms: int) -> None:
        lease = self.store.grant(ttl_ms, self.now)
        assert lease.id not in self.leases
        self.leases[lease.id] = Instant(self.now + ttl_ms * MILLISECOND)

    @rule(ms=st.integers(1, 200))
    def let_time_pass(self, ms: int) -> None:
        self.now = Instant(self.now + ms * MILLISECOND)
        for lease in self.store.end_due(self.now):
            assert self.leases.pop(lease) <= self.now
        before, after = self.states[max(self.states)], {e.key: e for e in self.store.range("")}
        assert {key: e for key, e in before.items() if not e.lease or e.lease in self.leases} == after
        # Several leases which end at once end one after the other: a revision each.
        for revision in range(max(self.states) + 1, self.store.revision + 1):
            at = Revision(revision)
            self.states[at] = {e.key: e for e in self.store.snapshot("", at).entries}

    @rule(data=st.data())
    @precondition(lambda self: self.leases)
    def keep_alive(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(sorted(self.leases)))
        renewed = self.store.keep_alive(lease, self.now)
        self.leases[lease] = Instant(self.now + renewed.ttl_ms * MILLISECOND)
        assert self.store.lease_status(lease, self.now).remaining_ms == renewed.ttl_ms

    @rule(back=st.integers(0, 5))
    def compact(self, back: int) -> None:
        revision = Revision(max(FIRST_REVISION, self.store.revision - back))
        self.store.compact(revision)

    @invariant()
    def every_kept_revision_reads_as_it_was(self) -> None:
        for revision, state in self.states.items():
            if revision >= self.store.compacted:
                expected = tuple(entry for key, entry in sorted(state.items()) if key.startswith("a/"))
                assert self.store.snapshot("a/", revision) == KeySnapshot(revision, expected)
            else:
                with pytest.raises(Compacted):
                    self.store.snapshot("", revision)

    @invariant()
    def changes_lead_from_each_state_to_the_newest(self) -> None:
        for revision, state in self.states.items():
            if revision < self.store.compacted:
                with pytest.raises(Compacted):
                    self.store.changes("", revision)
                continue
            folded = dict(state)
            for change in self.store.changes("", revision).changes:
                fold(change, folded)
            assert folded == self.states[self.store.revision]

    @invariant()
    def leases_are_those_which_live(self) -> None:
        self.store.check()
        assert self.store.leases() == list(self.leases)
        assert self.store.next_deadline() == min(self.leases.values(), default=None)


def fold(change: KeyChange, state: State) -> None:
    if change.now is None:
        del state[change.key]
    else:
        state[change.key] = change.now


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)


def test_the_future_is_refused() -> None:
    store = KeyStore()
    for ask in (lambda: store.snapshot("", Revision(2)), lambda: store.compact(Revision(2))):
        with pytest.raises(PreconditionFailed):
            ask()


def test_an_unknown_lease_has_expired() -> None:
    store = KeyStore()
    for ask in (
        lambda: store.revoke(LeaseId(7)),
        lambda: store.keep_alive(LeaseId(7), Instant(0)),
        lambda: store.lease_status(LeaseId(7), Instant(0)),
    ):
        with pytest.raises(LeaseExpired):
            ask()
