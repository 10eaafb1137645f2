"""Which lake a source or a sink talks to, and calls which outlast a restart of its server.

Said by options (`lake`, `access_key_id`, `secret_access_key`); else found as the command line finds it: by the
configuration (`PENSTOCK_…`, penstock.toml), then what `penstock up` runs in the data folder. Every call of this package
is idempotent, so one whose answer is lost is made again.
"""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from penstock.kernel.errors import Indeterminate, InvalidArgument, NotFound, PenstockError, Unavailable
from penstock.kernel.formats import CREDENTIALS
from penstock.lake.client.lake import LakeClient, LakeUrl, parse_lake_url
from penstock.plumbing.config import ConfigSource, Effective, load
from penstock.plumbing.files.sealed import read_sealed
from penstock.plumbing.process.running import running_in

__all__ = ["LakeAccess", "access_from", "table_url", "told"]

PATIENCE_S: Final = 60.0  # how long a lake may be away
FIRST_WAIT_S: Final = 0.1
WAIT_S_MAX: Final = 3.0
CREDENTIALS_FILE: Final = "lake-credentials.json"  # in the data folder, as `penstock up` makes it


class LakeAccess(msgspec.Struct, frozen=True):
    """A lake's server and the keys for it. Travels between Spark's processes."""

    url: str
    key: str
    secret: str

    def __repr__(self) -> str:
        return f"LakeAccess({self.url})"  # a secret does not belong into anybody's log

    @property
    def options(self) -> dict[str, str]:
        """The same as options of the format."""
        return {"lake": self.url, "access_key_id": self.key, "secret_access_key": self.secret}

    def ask(self, method: str, api: str, body: Any = None, *, patience_s: float = PATIENCE_S, **query: Any) -> Any:
        """Send one request, and repeat it while the lake is away."""
        return self._asked(lambda lake: lake.call(method, api, body, **query), patience_s)

    def send(self, api: str, data: bytes | memoryview) -> Any:
        """Put bytes, again while the lake is away."""
        return self._asked(lambda lake: lake.put(api, data), PATIENCE_S)

    def read(self, url: LakeUrl) -> bytes:
        """Return the content of an object, and ask again while the lake is away."""
        found: bytes = self._asked(lambda lake: b"".join(lake.download(url)), PATIENCE_S)
        return found

    def _asked(self, call: Callable[[LakeClient], Any], patience_s: float) -> Any:
        end, wait_s = time.monotonic() + patience_s, FIRST_WAIT_S
        while True:
            try:
                with LakeClient(self.url, self.key, self.secret) as lake:
                    return call(lake)
            except (Unavailable, Indeterminate):
                if time.monotonic() + wait_s > end:
                    raise
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, WAIT_S_MAX)

    def pages(self, api: str, **query: Any) -> list[dict[str, Any]]:
        """Return all results of a list."""
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = self.ask("GET", api, after=after, amount=1000, **query)
            found += page["results"]
            if not page["pagination"]["has_more"]:
                return found
            after = page["pagination"]["next_offset"]


def access_from(options: Mapping[str, str], effective: Effective | None = None) -> LakeAccess:
    """The lake which options name, or the local one, as the configuration (that of the environment) says."""
    effective = effective or load(environment=os.environ)
    config = effective.config
    url = options.get("lake", "")
    if not url:
        up = running_in(config.data.folder)
        is_told = effective.origins["lake.listen"].source is not ConfigSource.DEFAULT
        scheme = "https" if config.tls.enabled else "http"
        url = up.lake if up is not None and not is_told else f"{scheme}://{config.lake.listen}"
    key, secret = options.get("access_key_id", ""), options.get("secret_access_key", "")
    if key and secret:
        return LakeAccess(url, key, secret)
    if config.lake.access_key_id and config.lake.secret_access_key:
        return LakeAccess(url, config.lake.access_key_id.reveal(), config.lake.secret_access_key.reveal())
    path = config.data.folder / CREDENTIALS_FILE
    found = read_sealed(CREDENTIALS, path)
    if found is None:
        raise NotFound(
            f"no keys for the lake on {url}: the options access_key_id and secret_access_key and the setting "
            f"lake.access_key_id are missing, and {path} does not exist",
            next_step="let penstock up make keys, or set the options",
        )
    return LakeAccess(url, found["access_key_id"], found["secret_access_key"])


def table_url(text: str) -> LakeUrl:
    """A table's URL: its path is the folder of its files.

    >>> table_url("lake://shop@main/orders")
    LakeUrl(repository='shop', ref='main', path='orders/')
    """
    url = parse_lake_url(text)
    path = url.path.strip("/")
    if not path:
        raise InvalidArgument(f"{text[:200]!r}: a table needs a folder, like lake://shop@main/orders")
    return LakeUrl(url.repository, url.ref, path + "/")


def told(error: PenstockError) -> str:
    """An error as one text: what Spark shows of a Python error is its text alone."""
    return f"{error.message}. Next: {error.next_step}" if error.next_step else error.message
