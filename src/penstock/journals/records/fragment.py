"""Fragments: a span of a journal, named by its content. Design: gazette.md §1.2, §2.4; the names are Gazette's, so
that either system reads what the other stored.

    {store}/{journal}/{path postfix}/{begin:016x}-{end:016x}-{sha1}{extension}
"""

import re
from enum import Enum
from typing import Final

import msgspec

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Offset

__all__ = ["EMPTY_SUM", "OFFSET_MAX", "CompressionCodec", "Fragment", "Sum"]

Sum = bytes  # SHA-1 of a fragment's content, 20 bytes

SUM_BYTES: Final = 20
EMPTY_SUM: Sum = bytes(SUM_BYTES)  # of a fragment without content: zeros, not the SHA-1 of nothing
OFFSET_MAX: Final = Offset((1 << 63) - 1)


class CompressionCodec(Enum):
    """How a fragment's object is compressed. Offsets and sums are always those of the content before that."""

    NONE = "none"
    GZIP = "gzip"
    ZSTANDARD = "zstandard"
    SNAPPY = "snappy"
    GZIP_OFFLOAD_DECOMPRESSION = "gzip-offload-decompression"  # gzip, which the store itself takes off for readers

    @property
    def extension(self) -> str:
        return _EXTENSIONS[self]

    @classmethod
    def of_extension(cls, extension: str) -> "CompressionCodec":
        """Return the codec of an object's name, by its end."""
        for codec, known in [*_EXTENSIONS.items(), (cls.GZIP_OFFLOAD_DECOMPRESSION, ".gzod")]:
            if extension == known:
                return codec
        raise InvalidArgument(f"{extension!r} is the extension of no compression codec")


_EXTENSIONS = {
    CompressionCodec.NONE: ".raw",
    CompressionCodec.GZIP: ".gz",
    CompressionCodec.ZSTANDARD: ".zst",
    CompressionCodec.SNAPPY: ".sz",
    CompressionCodec.GZIP_OFFLOAD_DECOMPRESSION: "",
}
_CONTENT_NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{40})(\.[a-z]+)?")


class Fragment(msgspec.Struct, frozen=True):
    """The bytes [begin, end) of a journal, and where they are."""

    journal: str
    begin: Offset = Offset(0)
    end: Offset = Offset(0)
    sum: Sum = EMPTY_SUM
    codec: CompressionCodec = CompressionCodec.NONE
    backing_store: str = ""  # empty: only in the Spools of brokers
    mod_time: int = 0  # unix seconds: when the store took it
    path_postfix: str = ""

    @property
    def length(self) -> int:
        return self.end - self.begin

    @property
    def content_name(self) -> str:
        """The object's name.

        >>> Fragment("a/journal", Offset(1), Offset(2), codec=CompressionCodec.GZIP).content_name[:37]
        '0000000000000001-0000000000000002-000'
        """
        return f"{self.begin:016x}-{self.end:016x}-{self.sum.hex()}{self.codec.extension}"

    @property
    def content_path(self) -> str:
        """The object's path below its store's."""
        postfix = f"{self.path_postfix}/" if self.path_postfix else ""
        return f"{self.journal}/{postfix}{self.content_name}"

    def covers(self, offset: Offset) -> bool:
        return self.begin <= offset < self.end

    @classmethod
    def parse_name(cls, journal: str, name: str) -> "Fragment":
        """The fragment of which this is the content name."""
        found = _CONTENT_NAME.fullmatch(name)
        if found is None:
            raise InvalidArgument(f"{name[:120]!r} is not the name of a fragment")
        codec = CompressionCodec.of_extension(found[4] or "")
        fragment = cls(journal, Offset(int(found[1], 16)), Offset(int(found[2], 16)), bytes.fromhex(found[3]), codec)
        fragment.validate()
        return fragment

    @classmethod
    def parse_path(cls, journal: str, path: str) -> "Fragment":
        """The fragment of which this is the path below the store, perhaps with a postfix between journal and name."""
        if not path.startswith(f"{journal}/"):
            raise InvalidArgument(f"{path[:120]!r} is not below journal {journal!r}")
        postfix, _, name = path[len(journal) + 1 :].rpartition("/")
        return msgspec.structs.replace(cls.parse_name(journal, name), path_postfix=postfix)

    def validate(self) -> None:
        if not 0 <= self.begin <= self.end <= OFFSET_MAX:
            raise InvalidArgument(f"fragment [{self.begin}, {self.end}) is no span of offsets")
        if len(self.sum) != SUM_BYTES:
            raise InvalidArgument(f"a sum of {len(self.sum)} bytes: SHA-1 has {SUM_BYTES}")
        if self.begin == self.end and self.sum != EMPTY_SUM:
            raise InvalidArgument(f"fragment [{self.begin}, {self.end}) is empty, but has a sum")
