"""The trace: one line per event and per effect, in the order they happened, and a digest of it.

Two runs of one seed must give one digest, whatever process, hash seed or machine they run on. Text costs more than the
run itself, so a sweep keeps only the digest of a short form, and a failing seed is run again with the text.
"""

import hashlib
from typing import Any

from penstock.kernel.ids import MILLISECOND

__all__ = ["Trace"]


class Trace:
    """Collects what happened. `lines` stays empty unless `keep` is set."""

    def __init__(self, *, keep: bool = False, lines_max: int = 200_000) -> None:
        self.lines: list[str] = []
        self._keep = keep
        self._lines_max = lines_max
        self._hash = hashlib.blake2b(digest_size=16)
        self._pending: list[str] = []
        self.steps = 0

    def add(self, now: int, who: str, mark: str, what: Any) -> None:
        """Note that `what` happened to (`<`), or was done by (`>`), `who`; `!` marks a fault, `=` an outcome."""
        self.steps += 1
        if self._keep:
            line = f"{now / MILLISECOND:12.6f} {who:<8} {mark} {what}"
            self._pending.append(line)
            if len(self.lines) < self._lines_max:
                self.lines.append(line)
        else:
            self._pending.append(f"{now}{who}{mark}{what if type(what) is str else type(what).__name__}")
        if len(self._pending) > 500:
            self._flush()

    def digest(self) -> str:
        """Return the digest of everything added so far. Runs with and without `keep` have different digests."""
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        self._hash.update("\n".join(self._pending).encode())
        self._pending.clear()
