"""Which lake to use by default: the one that `penstock up` runs here, or the configured one."""

import os

import msgspec

from penstock.kernel.errors import NotFound
from penstock.kernel.formats import CREDENTIALS
from penstock.plumbing.config import ConfigSource, Effective, load
from penstock.plumbing.files.sealed import read_sealed
from penstock.plumbing.process.running import running_in
from penstock.plumbing.wire.tls import Tls
from penstock.plumbing.wiring.options import wire_tls

__all__ = ["CREDENTIALS_FILE", "LakePlace", "find_lake"]

CREDENTIALS_FILE = "lake-credentials.json"  # in the data folder; made by a server which was given no keys


class LakePlace(msgspec.Struct, frozen=True):
    """A lake's server, and the keys for it."""

    url: str
    access_key_id: str
    secret_access_key: str
    tls: Tls | None = None

    def __repr__(self) -> str:
        return f"LakePlace({self.url})"  # a secret does not belong into anybody's log


def find_lake(
    url: str | None = None,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    *,
    effective: Effective | None = None,
) -> LakePlace:
    """Return the named lake; missing parts come from the configuration, or from the data folder."""
    effective = effective or load(environment=os.environ)
    if access_key_id is None or secret_access_key is None:
        access_key_id, secret_access_key = _keys(effective)
    return LakePlace(url or _url(effective), access_key_id, secret_access_key, wire_tls(effective.config.tls))


def _url(effective: Effective) -> str:
    up = running_in(effective.config.data.folder)
    if up is not None and effective.origins["lake.listen"].source is ConfigSource.DEFAULT:
        return up.lake
    scheme = "https" if effective.config.tls.enabled else "http"
    return f"{scheme}://{effective.config.lake.listen}"


def _keys(effective: Effective) -> tuple[str, str]:
    config = effective.config
    if config.lake.access_key_id and config.lake.secret_access_key:
        return config.lake.access_key_id.reveal(), config.lake.secret_access_key.reveal()
    path = config.data.folder / CREDENTIALS_FILE
    found = read_sealed(CREDENTIALS, path)
    if found is None:
        raise NotFound(
            f"no keys for the lake: lake.access_key_id is not set, and {path} does not exist",
            next_step="let penstock up make them, or set lake.access_key_id and lake.secret_access_key",
        )
    return found["access_key_id"], found["secret_access_key"]
