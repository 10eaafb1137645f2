"""JournalSpec: the settings of a journal. Design: gazette.md §1.2, §1.3; `fsync` is ours.

A spec is data which an operator writes; `validate` is the edge where bad ones are refused, with the field named.
"""

import re
from enum import Enum
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from penstock.journals.records.fragment import CompressionCodec
from penstock.journals.records.labels import NAME_LABEL, PREFIX_LABEL, LabelSet
from penstock.journals.records.names import check_journal_name
from penstock.kernel.errors import InvalidArgument

__all__ = ["Flags", "FragmentSpec", "JournalSpec"]

REPLICATION_MAX: Final = 5
LEAST_MIN: Final = 2  # an append on one broker alone is lost with that broker
FRAGMENT_LENGTH_MIN: Final = 1 << 10
FRAGMENT_LENGTH_MAX: Final = 1 << 34
REFRESH_MS_MIN: Final = 1_000
REFRESH_MS_MAX: Final = 24 * 3_600_000
FLUSH_MS_MIN: Final = 60_000
STORES_MAX: Final = 8
SCHEMES: Final = ("s3", "gs", "azure", "azure-ad", "file", "memory")
_POSTFIX_FIELD = re.compile(r"%(.)", re.DOTALL)
_POSTFIX_TEXT = re.compile(r"[\w\-+./=]*")


class Flags(Enum):
    """What clients may do with a journal."""

    READ_WRITE = "read-write"
    READ_ONLY = "read-only"  # a view of what another cluster writes to the store
    WRITE_ONLY = "write-only"

    @property
    def may_read(self) -> bool:
        return self is not Flags.WRITE_ONLY

    @property
    def may_write(self) -> bool:
        return self is not READ_ONLY


READ_ONLY: Final = Flags.READ_ONLY  # every append asks, and to find it in its Enum costs as much as a call


class FragmentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How a journal is cut into fragments, and where those go."""

    length: int = 512 << 20  # content bytes at which a fragment is closed
    compression_codec: CompressionCodec = CompressionCodec.NONE
    stores: tuple[str, ...] = ()  # the first takes new fragments; all are read. None: fragments stay with the brokers
    refresh_interval_ms: int = 5 * 60_000  # how often the stores are listed
    retention_ms: int = 0  # how long fragments are kept after they were stored; 0: for ever
    flush_interval_ms: int = 0  # a fragment is closed at each multiple of this; 0: only by its length
    path_postfix_template: str = ""  # strftime fields %Y %m %d %H %M of the first append, in UTC: "date=%Y-%m-%d"

    def validate(self) -> None:
        if not FRAGMENT_LENGTH_MIN <= self.length <= FRAGMENT_LENGTH_MAX:
            raise InvalidArgument(
                f"fragment.length {self.length}: expected {FRAGMENT_LENGTH_MIN} to {FRAGMENT_LENGTH_MAX} bytes"
            )
        if not REFRESH_MS_MIN <= self.refresh_interval_ms <= REFRESH_MS_MAX:
            raise InvalidArgument(
                f"fragment.refresh_interval_ms {self.refresh_interval_ms}: "
                f"expected {REFRESH_MS_MIN} to {REFRESH_MS_MAX} ms"
            )
        if self.flush_interval_ms != 0 and self.flush_interval_ms < FLUSH_MS_MIN:
            raise InvalidArgument(
                f"fragment.flush_interval_ms {self.flush_interval_ms}: expected 0, or {FLUSH_MS_MIN} ms and more"
            )
        if self.retention_ms < 0:
            raise InvalidArgument(f"fragment.retention_ms {self.retention_ms}: expected 0 (keep for ever) or more")
        if len(self.stores) > STORES_MAX:
            raise InvalidArgument(f"fragment.stores: {len(self.stores)} stores, at most {STORES_MAX} are allowed")
        for store in self.stores:
            _check_store(store)
        _check_postfix(self.path_postfix_template)
        offloads = self.compression_codec is CompressionCodec.GZIP_OFFLOAD_DECOMPRESSION
        if offloads and self.stores and self.stores[0].startswith("file:"):
            raise InvalidArgument(
                "fragment.compression_codec: a file store cannot take off the compression for readers"
            )


class JournalSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one journal."""

    name: str
    replication: int = 3  # R: on how many brokers an append is before it is acknowledged
    labels: LabelSet = LabelSet()
    fragment: FragmentSpec = FragmentSpec()
    flags: Flags = Flags.READ_WRITE
    max_append_rate: int = 0  # bytes per second; 0: as fast as it goes
    fsync: bool = False  # each append is on R disks before it is acknowledged, not only in R machines' memory
    least: Annotated[int, Meta(ge=0, le=REPLICATION_MAX)] = (
        0  # brokers that an append needs while the others are away; 0: decided when the spec is stored
    )

    @property
    def fewest(self) -> int:
        """Return how many brokers an epoch needs at least. A spec of an earlier release needs all of them."""
        return self.least or self.replication

    def validate(self) -> None:
        check_journal_name(self.name)
        if not 1 <= self.replication <= REPLICATION_MAX:
            raise InvalidArgument(f"replication {self.replication}: expected 1 to {REPLICATION_MAX}")
        if self.least and not min(LEAST_MIN, self.replication) <= self.least <= self.replication:
            span = f"{LEAST_MIN} to {self.replication}" if self.replication > LEAST_MIN else f"{self.replication}"
            raise InvalidArgument(f"least {self.least}: expected {span} at replication {self.replication}")
        self.labels.validate()
        self.labels.validate_single_values()
        for reserved in (NAME_LABEL, PREFIX_LABEL):
            if self.labels.values_of(reserved):
                raise InvalidArgument(f"label {reserved!r} is reserved: selectors use it for the journal's name")
        if any(label.is_prefix for label in self.labels.labels):
            raise InvalidArgument("labels: a journal's labels have values, prefixes belong to selectors")
        self.fragment.validate()
        if self.max_append_rate < 0:
            raise InvalidArgument(f"max_append_rate {self.max_append_rate}: expected 0 (no limit) or more bytes/s")


def _check_store(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidArgument(f"fragment.stores: {url[:120]!r} is no URL: {error}") from None
    if not url.isprintable():
        raise InvalidArgument(f"fragment.stores: {url[:120]!r} has characters which no URL has")
    if parts.scheme not in SCHEMES:
        raise InvalidArgument(
            f"fragment.stores: {url[:120]!r} has no known scheme: expected one of {', '.join(SCHEMES)}"
        )
    if not parts.path.endswith("/"):
        raise InvalidArgument(f"fragment.stores: the path of {url[:120]!r} must end in '/'")
    if parts.scheme == "file" and parts.netloc:
        raise InvalidArgument(f"fragment.stores: {url[:120]!r} names a host: write file:///path/")
    if parts.scheme not in ("file", "memory") and not parts.netloc:
        raise InvalidArgument(f"fragment.stores: {url[:120]!r} names no bucket")
    names = [name for name in parts.path.split("/") if name]
    wanted = {"azure": ("container",), "azure-ad": ("account", "container")}.get(parts.scheme, ())
    if len(names) < len(wanted):
        raise InvalidArgument(f"fragment.stores: {url[:120]!r} names no {wanted[len(names)]}")


def _check_postfix(template: str) -> None:
    unknown = [field for field in _POSTFIX_FIELD.findall(template) if field not in "YmdHM"]
    if unknown:
        raise InvalidArgument(
            f"fragment.path_postfix_template: %{unknown[0]} is not known: use %Y, %m, %d, %H and %M (UTC)"
        )
    text = _POSTFIX_FIELD.sub("", template)
    if not _POSTFIX_TEXT.fullmatch(text) or text.startswith("/") or text.endswith("/") or ".." in text:
        raise InvalidArgument(
            f"fragment.path_postfix_template {template[:120]!r}: expected a relative path of letters, digits and -_+./="
        )
