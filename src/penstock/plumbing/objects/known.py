"""Digests of whole objects, which decide when sums of blocks do not match. Design: integrity.md D5."""

import hashlib
from typing import Protocol

from penstock.kernel.errors import DataDamaged

__all__ = ["ContentCheck", "KnownContent", "Md5Content"]


class ContentCheck(Protocol):
    """Compares all bytes of one object with its digest."""

    def add(self, data: memoryview) -> None: ...

    def finish(self) -> None:
        """Raise `DataDamaged` unless these are the bytes."""
        ...


class KnownContent(Protocol):
    """The digest of one object."""

    @property
    def digest(self) -> bytes:
        """The digest that its sums name too; empty if the key alone names the content."""
        ...

    def check(self) -> ContentCheck:
        """Return a new check."""
        ...


class Md5Content:
    """An object whose MD5 is known, under a key that no other object ever has."""

    digest = b""

    def __init__(self, md5: str, what: str, key: str) -> None:
        self._md5 = md5
        self._what = what
        self._key = key

    def check(self) -> "_Md5Check":
        return _Md5Check(self._md5, self._what, self._key)


class _Md5Check:
    def __init__(self, md5: str, what: str, key: str) -> None:
        self._expected = md5
        self._what = what
        self._key = key
        self._md5 = hashlib.md5(usedforsecurity=False)

    def add(self, data: memoryview) -> None:
        self._md5.update(data)

    def finish(self) -> None:
        found = self._md5.hexdigest()
        if found != self._expected:
            raise DataDamaged(
                f"the bytes of {self._what} at {self._key} are not those that were written: "
                f"their MD5 is {found}, expected {self._expected}",
                next_step="compare the object in the store with a copy, and put it again",
                object=self._key,
            )
