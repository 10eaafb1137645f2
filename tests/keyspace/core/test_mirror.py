"""The mirror is always some state of the KeySpace, never an earlier one again, and notices when it is lied to."""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.errors import Compacted, KeySpaceForgot, ProtocolViolation
from penstock.kernel.ids import Revision
from penstock.keyspace.core.mirror import EntryChange, Mirror, MirrorChange, MirrorEntry, Undecodable
from penstock.keyspace.core.records import KeyChange, KeySnapshot, KeyValue, WatchBatch
from penstock.keyspace.core.store import KeyStore
from penstock.keyspace.core.transaction import DeleteKey, Operation, PutKey, Transaction


def do(store: KeyStore, *then: Operation) -> Revision:
    return store.transact(Transaction(then=then)).revision


def loaded(store: KeyStore, prefix: str = "") -> Mirror:
    mirror = Mirror(prefix)
    mirror.load(store.snapshot(prefix))
    return mirror


def state_of(mirror: Mirror) -> KeySnapshot:
    return KeySnapshot(mirror.revision, tuple(entry.stored for entry in mirror.range("")))


def entry(key: str, value: bytes, created: int, modified: int, version: int = 1) -> MirrorEntry:
    return MirrorEntry(KeyValue(key, value, Revision(created), Revision(modified), version), value)


# One step at a time


def test_the_first_load_shows_everything_as_new() -> None:
    store = KeyStore()
    do(store, PutKey("b", b"1"), PutKey("a", b"1"))
    mirror = Mirror("")
    assert mirror.load(store.snapshot("")) == MirrorChange(
        Revision(2),
        (
            EntryChange(Revision(2), "a", None, entry("a", b"1", 2, 2)),
            EntryChange(Revision(2), "b", None, entry("b", b"1", 2, 2)),
        ),
    )
    assert mirror.has_revision(Revision(2))
    assert not mirror.has_revision(Revision(3))


def test_a_batch_shows_what_became_of_each_key() -> None:
    store = KeyStore()
    do(store, PutKey("a", b"1"), PutKey("b", b"1"))
    mirror = loaded(store)
    do(store, PutKey("a", b"2"))
    do(store, DeleteKey("b"), PutKey("c", b"1"))
    do(store, PutKey("a", b"3"))
    applied = mirror.apply(store.changes("", Revision(2)))
    assert applied == MirrorChange(
        Revision(5),
        (
            EntryChange(Revision(5), "a", entry("a", b"1", 2, 2), entry("a", b"3", 2, 5, 3)),
            EntryChange(Revision(4), "b", entry("b", b"1", 2, 2), None),
            EntryChange(Revision(4), "c", None, entry("c", b"1", 4, 4)),
        ),
    )
    assert not any(change.is_another_life for change in applied.changes)


def test_delete_and_recreate_in_one_batch_is_another_life() -> None:
    store = KeyStore()
    do(store, PutKey("a", b"same"))
    mirror = loaded(store)
    do(store, DeleteKey("a"))
    do(store, PutKey("a", b"same"))
    (change,) = mirror.apply(store.changes("", Revision(2))).changes
    assert change.is_another_life


def test_delete_and_recreate_behind_a_compaction_is_another_life() -> None:
    store = KeyStore()
    do(store, PutKey("a", b"same"))
    mirror = loaded(store)
    do(store, DeleteKey("a"))
    store.compact(do(store, PutKey("a", b"same")))
    with pytest.raises(Compacted):
        store.changes("", mirror.revision)
    applied = mirror.load(store.snapshot(""))
    assert applied.is_resync
    assert [change.is_another_life for change in applied.changes] == [True]


def test_what_came_and_went_within_a_batch_is_not_shown() -> None:
    store = KeyStore()
    mirror = loaded(store)
    do(store, PutKey("a", b""))
    do(store, DeleteKey("a"))
    assert mirror.apply(store.changes("", Revision(1))) == MirrorChange(Revision(3), ())
    assert len(mirror) == 0


def test_progress_moves_the_revision_only() -> None:
    mirror = loaded(KeyStore())
    assert mirror.apply(WatchBatch(Revision(9))) == MirrorChange(Revision(9), ())
    assert mirror.apply(WatchBatch(Revision(7))) == MirrorChange(Revision(9), ()), "old progress is no step back"


def test_repeated_revisions_are_passed_over() -> None:
    store = KeyStore()
    mirror = loaded(store)
    do(store, PutKey("a", b""))
    batch = store.changes("", Revision(1))
    mirror.apply(batch)
    assert mirror.apply(batch) == MirrorChange(Revision(2), ())
    do(store, DeleteKey("a"))
    (change,) = mirror.apply(store.changes("", Revision(1))).changes
    assert change.after is None


def test_a_key_gone_at_a_resync_has_the_revision_of_the_snapshot() -> None:
    store = KeyStore()
    do(store, PutKey("a", b""))
    mirror = loaded(store)
    do(store, DeleteKey("a"))
    do(store, PutKey("b", b""))
    assert [(c.key, c.revision) for c in mirror.load(store.snapshot("")).changes] == [("a", 4), ("b", 4)]


# Values


class Spec(msgspec.Struct):
    name: str


def test_the_longest_prefix_decodes() -> None:
    def spec(key: str, value: bytes) -> Any:
        return msgspec.json.decode(value, type=Spec)

    store = KeyStore()
    do(
        store,
        PutKey("items/a", b'{"name": "a"}'),
        PutKey("items/bad", b"{"),
        PutKey("items/raw/x", b"{"),
        PutKey("other", b"1"),
    )
    mirror = Mirror("", {"items/": spec, "items/raw/": lambda key, value: (key, value)})
    mirror.load(store.snapshot(""))
    values = {e.key: e.value for e in mirror.range("")}
    bad = values.pop("items/bad")
    assert values == {"items/a": Spec("a"), "items/raw/x": ("items/raw/x", b"{"), "other": b"1"}
    assert isinstance(bad, Undecodable)
    assert "DecodeError" in bad.reason


# Lies


def put_change(revision: int, key: str, created: int, version: int) -> KeyChange:
    return KeyChange(Revision(revision), key, KeyValue(key, b"", Revision(created), Revision(revision), version))


@pytest.mark.parametrize(
    "changes",
    [
        (put_change(5, "a", 2, 3),),  # the second value of "a" is missing
        (put_change(5, "b", 4, 2),),  # the first one of "b"
        (put_change(5, "a", 5, 1),),  # the removal of "a" before its next life
        (put_change(5, "b", 4, 1),),  # born at another revision than it was first put
        (KeyChange(Revision(5), "b", None),),  # removed, and never there
        (KeyChange(Revision(5), "a", None), KeyChange(Revision(6), "a", None)),
        (put_change(5, "a", 2, 2), put_change(4, "b", 4, 1)),  # out of order
        (put_change(9, "a", 2, 2),),  # older than the batch's own revision
        (put_change(5, "elsewhere", 5, 1),),
    ],
)
def test_a_watch_which_leaves_something_out_is_noticed_and_nothing_applied(changes: tuple[KeyChange, ...]) -> None:
    store = KeyStore()
    do(store, PutKey("a", b""))
    mirror = Mirror("a") if changes[0].key == "elsewhere" else Mirror("")
    mirror.load(store.snapshot(""))
    before = state_of(mirror)
    with pytest.raises(ProtocolViolation):
        mirror.apply(WatchBatch(Revision(8), changes))
    assert state_of(mirror) == before


def test_a_keyspace_which_went_back_is_noticed() -> None:
    store = KeyStore()
    do(store, PutKey("a", b"1"))
    backup = store.snapshot("")
    do(store, PutKey("a", b"2"))
    mirror = loaded(store)
    with pytest.raises(KeySpaceForgot, match="was at 3"):
        mirror.load(backup)
    restored = KeyStore()
    do(restored, PutKey("a", b"1"))
    do(restored, PutKey("b", b"other"))
    with pytest.raises(KeySpaceForgot, match="seen without it"):
        mirror.load(restored.snapshot(""))
    do(restored, PutKey("b", b"later"))
    with pytest.raises(KeySpaceForgot):
        mirror.load(restored.snapshot(""))
    with pytest.raises(KeySpaceForgot, match="two different states"):
        mirror.load(KeySnapshot(Revision(3), ()))


# All together


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["", "a", "b"]))
def test_the_mirror_is_always_a_state_of_the_keyspace(rng: Random, prefix: str) -> None:
    store = KeyStore()
    mirror = loaded(store, prefix)
    shown: dict[str, MirrorEntry] = {}
    for _ in range(30):
        before = mirror.revision
        applied: MirrorChange | None = None
        match rng.choice(["write", "write", "write", "batch", "again", "load", "compact"]):
            case "write":
                key = rng.choice(["a", "ab", "b", "ba", "c"])
                do(store, PutKey(key, b"%d" % rng.randrange(3)) if rng.random() < 0.6 else DeleteKey(key))
            case "batch" | "again" as how:
                after = Revision(max(store.compacted, before - (rng.randrange(3) if how == "again" else 0)))
                if after <= before:
                    upto = Revision(rng.randint(before, store.revision))
                    applied = mirror.apply(store.changes(prefix, after, upto))
                else:
                    applied = mirror.load(store.snapshot(prefix))
            case "load":
                applied = mirror.load(store.snapshot(prefix))
            case _:
                store.compact(Revision(rng.randint(max(1, store.compacted), store.revision)))
        mirror.check()
        assert mirror.revision >= before
        if mirror.revision >= store.compacted:
            assert state_of(mirror) == store.snapshot(prefix, mirror.revision)
        if applied is not None:  # an observer that only follows the applied changes has the same picture
            for change in applied.changes:
                assert shown.get(change.key) == change.before
                assert change.before != change.after
                assert before < change.revision <= mirror.revision
                if change.after is None:
                    del shown[change.key]
                else:
                    shown[change.key] = change.after
            assert [shown[key] for key in sorted(shown)] == mirror.range("")


def test_ranges_of_many_keys_stay_sorted() -> None:
    """Both ways of keeping the keys sorted: many at once, and one by one."""
    store = KeyStore()
    for start in range(0, 300, 100):
        do(store, *(PutKey(f"k/{n:03}", b"") for n in range(start, start + 100)))
    mirror = loaded(store)
    rng = Random(1)
    for _ in range(60):
        at = mirror.revision
        keys = sorted({f"k/{rng.randrange(350):03}" for _ in range(rng.choice((1, 2, 60)))})
        do(store, *(PutKey(key, b"") if rng.random() < 0.5 else DeleteKey(key) for key in keys))
        mirror.apply(store.changes("", at))
        mirror.check()
        assert [e.stored for e in mirror.range("k/1")] == list(store.range("k/1"))
