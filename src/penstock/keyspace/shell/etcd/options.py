"""Options of the etcd KeySpace. Every wait is bounded, except that of a watch for something to happen."""

from pathlib import Path

import msgspec

from penstock.kernel.errors import InvalidArgument

__all__ = ["EtcdOptions"]


class EtcdOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit a cluster in the same region."""

    connect_ms_max: int = 5_000  # until some endpoint answers
    request_ms_max: int = 10_000  # one attempt; etcd gives up by itself after about 7 s
    retry_ms_max: int = 15_000  # no attempt of a read begins later than this
    backoff_ms: int = 50  # before the first retry; doubles up to the next figure
    backoff_ms_max: int = 2_000
    page_keys_max: int = 256  # of a range: each value may have 1 MiB
    # the authority that must have signed the servers' certificates; without it there is no TLS
    authority: Path | None = None
    certificate: Path | None = None  # our own certificate, if the servers ask for one,
    key: Path | None = None  # and its key

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and value < 1:
                raise InvalidArgument(f"etcd option {name} is {value}")
        if (self.certificate is None) is not (self.key is None):
            raise InvalidArgument("etcd options certificate and key go together")
        if self.certificate is not None and self.authority is None:
            raise InvalidArgument("etcd option certificate needs authority: without it there is no TLS")
