"""Options of a store: how long to wait, how often to try again, how much to hold, and with which credentials.

Every wait is bounded: one request by `request_ms_max`, all attempts together by `retry_ms_max` plus one request.
"""

from datetime import timedelta
from typing import Any

import msgspec

from penstock.kernel.errors import InvalidArgument

__all__ = ["StoreOptions"]


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit a store in the same region. Credentials never show in a repr, a log or an error.

    >>> StoreOptions(retries_max=2, credentials={"secret_access_key": "hunter2"})
    StoreOptions(retries_max=2, credentials=<hidden>)
    """

    connect_ms_max: int = 5_000
    silence_ms_max: int = 20_000  # a server which sends nothing for this long has failed
    request_ms_max: int = 300_000  # one attempt, its body included
    retries_max: int = 4
    retry_ms_max: int = 60_000  # no attempt begins later than this
    backoff_ms: int = 100  # before the first retry; doubles up to the next figure
    backoff_ms_max: int = 5_000
    part_bytes: int = 8 << 20  # of a writer; S3 takes at least 5 MiB and at most 10,000 of them
    parts_in_flight_max: int = 4
    chunk_bytes: int = 1 << 20  # of a reader
    page_keys_max: int = 1_000
    threads_max: int = 16  # how many calls run at once; more wait for their turn
    lock_ms_max: int = 30_000  # local folder: how long to wait for another process which changes the same folder
    credentials: dict[str, str] = {}  # by obstore's names; without any, the cloud's environment variables count

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and value < (0 if name == "retries_max" else 1):
                raise InvalidArgument(f"object store option {name} is {value}")
        if self.part_bytes < 5 << 20:
            raise InvalidArgument(f"object store option part_bytes is {self.part_bytes}, but S3 takes 5 MiB and more")

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        shown = [(field.name, getattr(self, field.name), field.default) for field in msgspec.structs.fields(self)]
        changed = [(name, value) for name, value, default in shown if name != "credentials" and value != default]
        return [*changed, ("credentials", _HIDDEN)] if self.credentials else changed

    def __repr__(self) -> str:
        return f"StoreOptions({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def client_options(self, *, allow_http: bool) -> dict[str, Any]:
        """Return the options as obstore's ClientConfig."""
        return {
            "allow_http": allow_http,
            "connect_timeout": timedelta(milliseconds=self.connect_ms_max),
            "read_timeout": timedelta(milliseconds=self.silence_ms_max),
            "timeout": timedelta(milliseconds=self.request_ms_max),
        }

    def retry_config(self, *, retries: bool) -> dict[str, Any]:
        """Return the options as obstore's RetryConfig."""
        return {
            "max_retries": self.retries_max if retries else 0,
            "retry_timeout": timedelta(milliseconds=self.retry_ms_max),
            "backoff": {
                "init_backoff": timedelta(milliseconds=self.backoff_ms),
                "max_backoff": timedelta(milliseconds=self.backoff_ms_max),
                "base": 2,
            },
        }


class _Hidden:
    def __repr__(self) -> str:
        return "<hidden>"


_HIDDEN = _Hidden()
