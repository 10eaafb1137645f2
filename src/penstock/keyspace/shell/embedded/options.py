"""Options of the embedded KeySpace."""

import msgspec

from penstock.kernel.errors import InvalidArgument

__all__ = ["EmbeddedOptions"]


class EmbeddedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit one machine with some dozens of processes."""

    lock_ms_max: int = 5_000  # how long a write waits for other processes before it gives up
    poll_ms: int = 250  # how often to look even without a wake-up; also how late a lease may end
    requests_max: int = 1_024  # writes waiting in one process, and reads
    batch_changes_max: int = 1_000  # in one batch of a watch; a single revision may have more
    history_revisions_max: int = 10_000  # older revisions are compacted away,
    history_ms_max: int = 3_600_000  # and revisions older than this,
    history_bytes_max: int = 256 << 20  # and all of them when the file grows beyond this
    bytes_max: int = 2 << 30  # of the whole file; a write beyond it is refused

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise InvalidArgument(f"embedded KeySpace option {name} is {getattr(self, name)}")
