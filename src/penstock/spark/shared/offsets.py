"""Offsets of a stream: how far each journal was read, and where the journals begin which a batch sees first.

    {"new": {journal: begin}, "to": {journal: end}}        keys sorted, since Spark compares offsets as text

Design: spark.md. A batch from `start` to `end` reads `[end.new or start.to, end.to)` of every journal in `end.to`. An
offset pins everything which a replay of its batch needs. The first one is `{}`, always: Spark asks for it again when it
replays the first batch.

Positions are what a sink's register keeps of offsets: a list with one element for each source of the query. Of journals
it is `{journal: offset}`; of other sources it is the offset itself.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from penstock.kernel.errors import InvalidArgument

__all__ = ["NOTHING_READ", "StreamOffset", "begin_of", "end_of", "journal_positions", "positions_text"]

POSITIONS_MAX: Final = 8 << 10  # bytes of positions that a register holds; of longer ones it holds the SHA-256


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


def positions_text(positions: Sequence[Any]) -> str:
    """Return positions as the canonical text that registers compare.

    A source that Spark reads once for each sink has as many offsets. Equal ones are one position.

    >>> positions_text([{"b": 2, "a": 1}, {"a": 1, "b": 2}])
    '[{"a":1,"b":2}]'
    """
    distinct = [each for at, each in enumerate(positions) if each is None or each not in positions[:at]]
    data = msgspec.json.encode(distinct, order="sorted")
    return data.decode() if len(data) <= POSITIONS_MAX else f"sha256:{hashlib.sha256(data).hexdigest()}"


def end_of(offset: Any) -> Any:
    """Return the position of one source at the end of a batch.

    >>> end_of({"new": {"a": 0}, "to": {"a": 7}}), end_of({"logOffset": 3})
    ({'a': 7}, {'logOffset': 3})
    """
    return offset["to"] if _is_ours(offset) else offset


def begin_of(offset: Any) -> Any:
    """Return the position of one source where its first batch begins; None for a source that does not say.

    >>> begin_of({"new": {"a": 5}, "to": {"a": 7}}), begin_of({"logOffset": 3})
    ({'a': 5}, None)
    """
    return offset["new"] if _is_ours(offset) else None


def _is_ours(offset: Any) -> bool:
    return isinstance(offset, dict) and set(offset) == {"new", "to"}


def journal_positions(text: str) -> dict[str, int] | None:
    """Return how far each journal was read, if the positions are those of one source of journals.

    >>> journal_positions('[{"a":7}]'), journal_positions('[{"commit":"c"}]'), journal_positions("sha256:00")
    ({'a': 7}, None, None)
    """
    try:
        (found,) = msgspec.json.decode(text, type=tuple[dict[str, int]])
    except msgspec.DecodeError:
        return None
    return found
