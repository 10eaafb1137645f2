"""The mirror: a local copy of all keys under a prefix, fed by a snapshot and then by the batches of a watch.

Design: transactional-appends.rst ("every broker maintains a local KeySpace which mirrors keys and values, updated by a
long-lived Watch"); gazette.md §1.4 and §5.4, §5.5 for what goes wrong there.

What always holds: between two calls the mirror is the KeySpace as it was at `revision`, under the prefix; `revision`
never falls; it shows no state that never was. A batch is applied as a whole or not at all. It checks each batch: after
a watch that left something out, it raises `ProtocolViolation` (load a snapshot, and continue); after a KeySpace that
went back, `KeySpaceForgot` (stop).
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from penstock.kernel.errors import KeySpaceForgot, ProtocolViolation
from penstock.kernel.ids import Revision
from penstock.keyspace.core.records import NO_REVISION, KeyChange, KeySnapshot, KeyValue, WatchBatch

__all__ = ["Decoder", "EntryChange", "Mirror", "MirrorChange", "MirrorEntry", "Undecodable"]

Decoder = Callable[[str, bytes], Any]  # key and value in, what the value means out; any exception: it means nothing

# if a larger share of the keys than one in 16 comes or goes, sorting all is cheaper than moving each
_SORT_ANEW: Final = 16


class Undecodable(msgspec.Struct, frozen=True):
    """In place of a value which its decoder refused. The key exists; a caller that needs the value must do without."""

    reason: str


class MirrorEntry(msgspec.Struct, frozen=True):
    """A key of the mirror, and what its value means."""

    stored: KeyValue
    value: Any  # decoded; bytes if no decoder has the key; Undecodable if its decoder refused

    @property
    def key(self) -> str:
        return self.stored.key


class EntryChange(msgspec.Struct, frozen=True):
    """What became of one key by an application, however often it changed in between."""

    revision: Revision  # of its last change; after a re-sync that of the snapshot, for a key that is gone
    key: str
    before: MirrorEntry | None
    after: MirrorEntry | None

    @property
    def is_another_life(self) -> bool:
        """The key was removed and made again: all facts about the old one are void."""
        return (
            self.before is not None
            and self.after is not None
            and self.before.stored.create_revision != self.after.stored.create_revision
        )


class MirrorChange(msgspec.Struct, frozen=True):
    """One step of the mirror, from one state of the KeySpace to a later one."""

    revision: Revision
    changes: tuple[EntryChange, ...]  # by key; empty: only the revision moved
    is_resync: bool = False  # by a snapshot: the changes in between are not known, only their result


class Mirror:
    """Folds snapshots and batches; answers which entries are under a prefix now. `decoders` go by the longest fitting
    prefix.
    """

    def __init__(self, prefix: str, decoders: Mapping[str, Decoder] | None = None) -> None:
        self.prefix = prefix
        self.revision = NO_REVISION  # nothing loaded yet
        self._decoders = sorted((decoders or {}).items(), key=lambda item: -len(item[0]))
        self._entries: dict[str, MirrorEntry] = {}
        self._keys: list[str] = []  # sorted

    # Asking

    def has_revision(self, revision: Revision) -> bool:
        return self.revision >= revision

    def get(self, key: str) -> MirrorEntry | None:
        return self._entries.get(key)

    def range(self, prefix: str) -> list[MirrorEntry]:
        """Return all entries under a prefix, sorted by key."""
        found: list[MirrorEntry] = []
        for index in range(bisect_left(self._keys, prefix), len(self._keys)):
            key = self._keys[index]
            if not key.startswith(prefix):
                break
            found.append(self._entries[key])
        return found

    def __len__(self) -> int:
        return len(self._keys)

    # Folding

    def load(self, snapshot: KeySnapshot) -> MirrorChange:
        """Become the snapshot: the first state, or a later one after a watch was lost."""
        if snapshot.revision < self.revision:
            raise KeySpaceForgot(f"the KeySpace is at revision {snapshot.revision}, and was at {self.revision}")
        stored = {entry.key: entry for entry in snapshot.entries}
        new: dict[str, tuple[Revision, KeyValue | None]] = {}
        for key, entry in stored.items():
            before = self._entries.get(key)
            if before is None or before.stored != entry:
                if entry.mod_revision <= self.revision:
                    raise KeySpaceForgot(f"{key!r} changed at revision {entry.mod_revision}, which was seen without it")
                new[key] = (entry.mod_revision, entry)
        for key in self._keys:
            if key not in stored:
                new[key] = (snapshot.revision, None)
        if new and snapshot.revision == self.revision:
            raise KeySpaceForgot(f"two different states at revision {self.revision}")
        is_resync = self.revision != NO_REVISION
        return self._become(snapshot.revision, new, is_resync=is_resync)

    def apply(self, batch: WatchBatch) -> MirrorChange:
        """Take a batch of the watch. Changes of revisions that the mirror already has are skipped."""
        assert self.revision != NO_REVISION, "a snapshot comes first"
        new: dict[str, tuple[Revision, KeyValue | None]] = {}
        last = self.revision
        for change in batch.changes:
            if change.revision <= self.revision:
                continue
            if change.revision < last or change.revision > batch.revision:
                raise ProtocolViolation(f"revision {change.revision} of {change.key!r} is out of order")
            last = change.revision
            self._check_follows(change, new)
            new[change.key] = (change.revision, change.now)
        return self._become(Revision(max(batch.revision, self.revision)), new)

    def _check_follows(self, change: KeyChange, new: Mapping[str, tuple[Revision, KeyValue | None]]) -> None:
        """Each change must follow from the state before it, else the watch left one out."""
        before = self._stored(change.key, new)
        now = change.now
        if now is None:
            follows = before is not None
        elif before is None:
            follows = now.version == 1 and now.create_revision == change.revision
        else:
            follows = now.version == before.version + 1 and now.create_revision == before.create_revision
        if not follows or not change.key.startswith(self.prefix):
            raise ProtocolViolation(f"the watch left out a change of {change.key!r} before revision {change.revision}")

    def _stored(self, key: str, new: Mapping[str, tuple[Revision, KeyValue | None]]) -> KeyValue | None:
        if key in new:
            return new[key][1]
        entry = self._entries.get(key)
        return None if entry is None else entry.stored

    def _become(
        self, revision: Revision, new: Mapping[str, tuple[Revision, KeyValue | None]], *, is_resync: bool = False
    ) -> MirrorChange:
        changes: list[EntryChange] = []
        for key, (changed_at, stored) in sorted(new.items()):
            before = self._entries.get(key)
            after = None if stored is None else MirrorEntry(stored, self._decode(stored))
            if before is not None or after is not None:  # else it came and went within the batch
                changes.append(EntryChange(changed_at, key, before, after))
        self._update(changes)
        self.revision = revision
        return MirrorChange(revision, tuple(changes), is_resync)

    def _decode(self, stored: KeyValue) -> Any:
        for prefix, decoder in self._decoders:
            if stored.key.startswith(prefix):
                try:
                    return decoder(stored.key, stored.value)
                except Exception as error:  # whatever is stored there must not stop who mirrors it
                    return Undecodable(f"{type(error).__name__}: {error}")
        return stored.value

    def _update(self, changes: list[EntryChange]) -> None:
        added = [change.key for change in changes if change.before is None]
        removed = [change.key for change in changes if change.after is None]
        for change in changes:
            if change.after is None:
                del self._entries[change.key]
            else:
                self._entries[change.key] = change.after
        if (len(added) + len(removed)) * _SORT_ANEW > len(self._keys):
            self._keys = sorted(self._entries)
            return
        for key in removed:
            del self._keys[bisect_left(self._keys, key)]
        for key in added:
            insort(self._keys, key)

    def check(self) -> None:
        """Assert every invariant."""
        assert self._keys == sorted(self._entries)
        for key, entry in self._entries.items():
            assert entry.key == key
            assert key.startswith(self.prefix)
            assert entry.stored.create_revision <= entry.stored.mod_revision
            assert entry.stored.mod_revision <= self.revision, (entry, self.revision)
