"""What can be set about a broker."""

import msgspec

from penstock.journals.core.config import JournalConfig

__all__ = ["BrokerConfig"]


class BrokerConfig(msgspec.Struct, frozen=True):
    """The settings of a broker."""

    root: str = "/penstock"  # under which the KeySpace has the cluster
    lease_ms: int = 10_000  # a broker which is silent for so long has left
    silent_ms: int = 500  # a broker that answers no question for so long is suspected; 0: none is
    full_ms: int = 10_000  # a broker that has had no room on its disk for so long is passed over
    limit: int = 10_000  # journals it takes at most
    drain_s: float = 60.0  # how long a leaving broker waits to be relieved
    reopen_s: float = 5.0  # before a replica which failed (a full disk, say) is tried again
    late_upload_ms: int = 120_000  # a replica stores a Fragment which its primary did not store by then
    replication_max: int = 0  # a spec with this replication or more gets this, with fsync; 0: as specified
    default_store: str = ""  # of journals whose spec names none; empty: their fragments stay with the brokers
    unstored_bytes_max: int = 0  # of finished fragments that no store has; 0: 32 GiB or a quarter of the disk
    held_bytes_max: int = 256 << 20  # of appends that wait for their turn, of all clients together
    core: JournalConfig = JournalConfig()
