"""Shards and consumers as the KeySpace has them. Design: gazette.md 1.4, 1.8.

    {root}/items/{shard}                    a `ShardDefinition`: its journals, and how to consume them
    {root}/members/{zone}#{suffix}          a `ConsumerSpec`: a process which runs the group's application
    {root}/assign/{shard}#{zone}#{suffix}#{slot}    a `ShardStatus`; slot 0 is the primary, others stand by

A *group* is all processes which run one application; it has a root of its own.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from penstock.consumers.core.shard import ShardSpec
from penstock.consumers.stores.application import Application
from penstock.journals.records.names import PATH_SYMBOLS, check_journal_name, check_token
from penstock.kernel.codec import Codec
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import MILLISECOND, Offset
from penstock.keyspace.core.allocator.layout import check_name
from penstock.keyspace.core.mirror import Decoder

__all__ = ["ROOT", "ConsumerSpec", "ShardDefinition", "decode_definition", "decoders", "groups_in", "root_of"]

ROOT: Final = "/penstock-consumers"
STANDBYS_MAX: Final = 4
SOURCES_MAX: Final = 1_000
TXN_MS_MAX: Final = 3_600_000


def groups_in(keys: Iterable[str]) -> list[str]:
    """The groups which these keys of the KeySpace name."""
    found = {key.removeprefix(f"{ROOT}/").partition("/items/")[0] for key in keys if "/items/" in key}
    return sorted(found)


def root_of(group: str) -> str:
    """Return the KeySpace prefix of a group."""
    check_token("group", group, PATH_SYMBOLS, 1, 128)
    return f"{ROOT}/{group}"


class ShardDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A shard, as it is stored: everything but the application, which is code."""

    id: str
    sources: dict[str, int]  # journal → where a new shard begins to read
    standbys: int = 0  # processes which keep ready to take over
    min_txn_ms: int = 0
    max_txn_ms: int = 1_000
    waits_for_ack: bool = True
    ring_length: int = 8_192
    recovery_log: str = ""  # a journal, for stores which record into one
    is_disabled: bool = False  # no process runs it

    def validate(self) -> None:
        """Refuse what cannot work."""
        check_name("shard", self.id)
        check_token("shard", self.id, PATH_SYMBOLS, 1, 512)
        if not 0 < len(self.sources) <= SOURCES_MAX:
            raise InvalidArgument(f"shard {self.id}: {len(self.sources)} sources: expected 1 to {SOURCES_MAX}")
        for journal, offset in self.sources.items():
            check_journal_name(journal)
            if offset < 0:
                raise InvalidArgument(f"shard {self.id}: {journal} from {offset} on: expected an offset from 0 on")
        if self.recovery_log:
            check_journal_name(self.recovery_log)
        _check_range(self.id, "standbys", self.standbys, 0, STANDBYS_MAX)
        _check_range(self.id, "min_txn_ms", self.min_txn_ms, 0, self.max_txn_ms)
        _check_range(self.id, "max_txn_ms", self.max_txn_ms, 1, TXN_MS_MAX)
        _check_range(self.id, "ring_length", self.ring_length, 1, 1 << 24)

    def spec(self, application: Application[Any]) -> ShardSpec:
        """Return the part of the definition that the shard's machine needs."""
        return ShardSpec(
            self.id,
            {journal: application.framing_of(journal) for journal in self.sources},
            min_txn_ns=self.min_txn_ms * MILLISECOND,
            max_txn_ns=self.max_txn_ms * MILLISECOND,
            waits_for_ack=self.waits_for_ack,
            ring_length=self.ring_length,
            min_offsets={journal: Offset(offset) for journal, offset in self.sources.items()},
        )

    def encode(self) -> bytes:
        return _definition.encode(self)


class ConsumerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A process of a group, as its member key says it."""

    endpoint: str  # where it answers
    limit: int = 1_000  # shards
    is_exiting: bool = False

    def encode(self) -> bytes:
        return _consumer.encode(self)

    @classmethod
    def decode(cls, value: bytes) -> "ConsumerSpec":
        return _consumer.decode(value)


def decode_definition(value: bytes) -> ShardDefinition:
    """Return a definition as the KeySpace has it, or raise MalformedFrame."""
    return _definition.decode(value)


_definition = Codec[ShardDefinition](ShardDefinition)
_consumer = Codec[ConsumerSpec](ConsumerSpec)


def decoders(root: str) -> dict[str, Decoder]:
    """Return the decoders for a mirror of a group."""
    return {f"{root}/items/": _decode_item}


def _decode_item(key: str, value: bytes) -> ShardDefinition:
    definition = _definition.decode(value)
    definition.validate()
    if not key.endswith(f"/items/{definition.id}"):
        raise InvalidArgument(f"{key} holds the definition of {definition.id}")
    return definition


def _check_range(shard: str, name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidArgument(f"shard {shard}: {name} {value}: expected {least} to {most}")
