"""Nesting: no journal lies below another, because a store's path belongs to one journal for ever. Design: integrity.md
D18; decision 311.

    {root}/dirs/{path}    a journal lies below this path, or once did: no journal may have it as its name. Never removed
    {root}/dirs/#         put whenever such a key is new, and by deletions: a creation compares that nothing moved

What always holds: of two journals that were ever made under one root, neither's name is a folder of the other's. So
creations compare one key, and one more for each folder that is new.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from penstock.journals.core.certify import head_key
from penstock.journals.core.rolling import postfix_at
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Offset
from penstock.keyspace.core.allocator.layout import Layout
from penstock.keyspace.core.mirror import MirrorEntry
from penstock.keyspace.core.records import NO_REVISION
from penstock.keyspace.core.transaction import Compare, PutKey, is_absent, is_at
from penstock.plumbing.objects.keys import check_key

__all__ = ["Nesting", "check_keys", "folders_of"]

_NEXT: Final = "penstock journals list"


class _Keys(Protocol):
    """A mirror of the KeySpace."""

    def get(self, key: str) -> MirrorEntry | None: ...

    def range(self, prefix: str) -> list[MirrorEntry]: ...


def folders_of(name: str) -> list[str]:
    """Return the paths above a journal.

    >>> folders_of("shop/orders/eu")
    ['shop', 'shop/orders']
    """
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def check_keys(layout: Layout, spec: JournalSpec) -> None:
    """Refuse a name from which a key is made that the KeySpace or a store would refuse."""
    layout.item_key(spec.name)
    if spec.fragment.stores:
        postfix = postfix_at(spec.fragment.path_postfix_template, 0)
        check_key(Fragment(spec.name, Offset(0), Offset(1), path_postfix=postfix).content_path)


class Nesting:
    """The rule for creations of journals under one root, as far as a mirror shows them."""

    def __init__(self, root: str, mirror: _Keys) -> None:
        self._root = root
        self._mirror = mirror

    @property
    def counter(self) -> str:
        return f"{self._root}/dirs/#"

    def below(self, journal: str) -> list[str]:
        """Return the journals below a journal, deleted ones too. Only clusters of older releases have any."""
        found: dict[str, None] = {}
        for kind in ("items", "heads"):
            prefix = f"{self._root}/{kind}/"
            entries = self._mirror.range(f"{prefix}{journal}/")
            found.update((entry.key[len(prefix) :], None) for entry in entries)
        return list(found)

    def guard(self, names: Iterable[str], *, deletes: bool) -> tuple[list[Compare], list[PutKey]]:
        """Return what makes these creations safe. `InvalidArgument`: a journal lies above or below one of them."""
        created = dict.fromkeys(names)
        compares: dict[str, Compare] = {}
        puts: dict[str, PutKey] = {}
        for name in created:
            self._check_below(name)
            for folder in folders_of(name):
                if folder in created:
                    raise _nested(name, folder)
                if self._mirror.get(self._dir(folder)) is not None:
                    continue  # so that no journal can ever have this name
                self._check_above(name, folder)
                compares[folder] = is_absent(f"{self._root}/items/{folder}")
                puts[folder] = PutKey(self._dir(folder), name.encode())
        if puts or deletes:
            puts[self.counter] = PutKey(self.counter, b"")
        if not created:
            return [], list(puts.values())
        counter = self._mirror.get(self.counter)
        seen = counter.stored.mod_revision if counter is not None else NO_REVISION
        compares[self.counter] = is_at(self.counter, seen)
        return list(compares.values()), list(puts.values())

    def _dir(self, folder: str) -> str:
        return f"{self._root}/dirs/{folder}"

    def _check_below(self, name: str) -> None:
        known = self._mirror.get(self._dir(name))
        below = [known.stored.value.decode()] if known is not None else self.below(name)
        if below:
            raise _nested(below[0], name)

    def _check_above(self, name: str, folder: str) -> None:
        if self._mirror.get(f"{self._root}/items/{folder}") is not None:
            raise _nested(name, folder)
        if self._mirror.get(head_key(self._root, folder)) is not None:
            raise _nested(name, folder, "was deleted, and its fragments may be in the store")


def _nested(name: str, folder: str, what: str = "is, or was, a journal too") -> InvalidArgument:
    return InvalidArgument(
        f"journal {name[:200]!r} would lie below {folder[:200]!r}, which {what}: fragments of both would have the same "
        "folder of the store",
        next_step=f"choose another name, as {folder.rpartition('/')[2][:80]}-{name[len(folder) + 1 :][:80]}; {_NEXT}",
        rule="D18",
    )
