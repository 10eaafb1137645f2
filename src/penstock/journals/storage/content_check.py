"""What a fragment's name says of its content: the SHA-1, whatever the codec of its object. Design: integrity.md D5."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.journals.records.fragment import CompressionCodec, Fragment
from penstock.journals.storage.codecs import Decompressor, decompressor
from penstock.kernel.errors import DataDamaged, StorageError
from penstock.plumbing.objects.known import ContentCheck

__all__ = ["FragmentContentCheck", "NamedContent", "named_damage"]


class NamedContent:
    """The content of one stored Fragment."""

    def __init__(self, fragment: Fragment) -> None:
        self._fragment = fragment

    @property
    def digest(self) -> bytes:
        return self._fragment.sum

    def check(self) -> ContentCheck:
        return FragmentContentCheck(self._fragment)


class FragmentContentCheck:
    """Compares the bytes of a fragment's object, all of them in order, with the fragment's name."""

    def __init__(self, fragment: Fragment) -> None:
        self._fragment = fragment
        self._sum = hashlib.sha1(usedforsecurity=False)
        self._length = 0
        is_plain = fragment.codec is CompressionCodec.NONE
        self._stream: Decompressor | None = None if is_plain else decompressor(fragment.codec)

    def add(self, data: memoryview) -> None:
        if self._stream is None:
            self._add(data)
            return
        with named_damage(self._fragment):
            for piece in self._stream.decompress(data):
                self._add(memoryview(piece))
                if self._length > self._fragment.length:
                    raise _damaged(self._fragment, "it has more content than its name says")

    def _add(self, piece: memoryview) -> None:
        self._sum.update(piece)
        self._length += len(piece)

    def finish(self) -> None:
        if self._stream is not None:
            with named_damage(self._fragment):
                self._stream.finish()
        if self._length != self._fragment.length or (self._length and self._sum.digest() != self._fragment.sum):
            raise _damaged(self._fragment, "its content has another sum than its name")


@contextmanager
def named_damage(fragment: Fragment) -> Iterator[None]:
    """Say which object it is that a codec cannot read."""
    try:
        yield
    except DataDamaged:
        raise
    except StorageError as error:
        raise _damaged(fragment, error.message) from error


def _damaged(fragment: Fragment, why: str) -> DataDamaged:
    where = f"{fragment.backing_store}{fragment.content_path}"
    return DataDamaged(
        f"{where} is damaged: {why}",
        next_step=f"run penstock journals fragments {fragment.journal}, then restore the object from a copy",
        object=where,
        begin=fragment.begin,
        end=fragment.end,
    )
