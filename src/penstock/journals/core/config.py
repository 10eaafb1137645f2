"""What can be set about the append core. Everything is bounded."""

import msgspec

from penstock.kernel.ids import MILLISECOND, SECOND

__all__ = ["JournalConfig"]


class JournalConfig(msgspec.Struct, frozen=True):
    """The settings of a broker's replicas."""

    root: str = "/penstock"  # under which the KeySpace has the cluster
    limit_step: int = 64 << 30  # by how much the head's limit is raised at a time
    table_max: int = 64  # certified epochs that the head record lists, besides those after which a broker left
    in_flight_max: int = 256  # proposals of one journal which wait for acknowledgement
    queue_max: int = 10_000  # appends of one journal which are on their way, wherever they wait
    pulse_ns: int = 60 * SECOND  # how often an idle journal is looked after
    shortage_ns: int = 1 * SECOND  # how often a peer that has no room for content is asked again
    retry_ns: int = 100 * MILLISECOND  # before a pipeline is built again
    retry_ns_max: int = 5 * SECOND
