"""Offsets of a stream: how far each journal was read, and where the journals begin which a batch sees first.

    {"new": {journal: begin}, "to": {journal: end}}        keys sorted, since Spark compares offsets as text

Design: spark.md. A batch from `start` to `end` reads `[end.new or start.to, end.to)` of every journal in `end.to`. An
offset pins everything which a replay of its batch needs. The first one is `{}`, always: Spark asks for it again when it
replays the first batch.
"""

from typing import Any

import msgspec

from penstock.kernel.errors import InvalidArgument

__all__ = ["NOTHING_READ", "StreamOffset"]


class StreamOffset(msgspec.Struct, frozen=True):
    """One offset.

    >>> StreamOffset({"b": 2, "a": 1}).to_dict()
    {'new': {}, 'to': {'a': 1, 'b': 2}}
    """

    to: dict[str, int] = {}
    new: dict[str, int] = {}  # also where a journal continues after bytes that are gone

    def to_dict(self) -> dict[str, dict[str, int]]:
        if not self.to:
            return {}
        return {"new": dict(sorted(self.new.items())), "to": dict(sorted(self.to.items()))}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> "StreamOffset":
        try:
            return msgspec.convert(found, cls)
        except msgspec.ValidationError as error:
            raise InvalidArgument(f"the checkpoint has an offset of another source: {error}") from None

    def ranges(self, start: "StreamOffset") -> dict[str, tuple[int, int]]:
        """Return the ranges of the batch from `start` to here: begin and end of each journal with new bytes."""
        begins = {journal: self.new.get(journal, start.to.get(journal, 0)) for journal in self.to}
        return {journal: (begins[journal], end) for journal, end in sorted(self.to.items()) if begins[journal] < end}


NOTHING_READ = StreamOffset()
