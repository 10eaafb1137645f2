"""Which lake a command talks to: by flag, or the one this configuration would serve; with whose keys."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from cyclopts import Parameter

from penstock.base.errors import NotFound
from penstock.cli.session import Session
from penstock.client.lake import LakeClient
from penstock.runtime.config import Source
from penstock.runtime.running import running_in

__all__ = ["CREDENTIALS_FILE", "AtLake", "LakeTarget", "lake_of"]

CREDENTIALS_FILE = "lake-credentials.json"  # in the data folder; made by a server which was given no keys

AtLake = Annotated[
    str | None,
    Parameter(name="--lake", help="The lake's server. Default: the one at lake.listen.", metavar="URL"),
]
LakeTarget = Annotated[str, Parameter(help="lake://REPOSITORY@REF/PATH", metavar="URL")]


@contextmanager
def lake_of(session: Session, url: str | None) -> Iterator[LakeClient]:
    session.start_logs(quiet=True)
    key, secret = _keys(session)
    with LakeClient(url or _local(session), key, secret) as lake:
        yield lake


def _local(session: Session) -> str:
    """Where `penstock up` serves, unless somebody has said where the lake is."""
    effective = session.effective
    up = running_in(effective.config.data.folder)
    if up is not None and effective.origins["lake.listen"].source is Source.DEFAULT:
        return up.lake
    scheme = "https" if effective.config.tls.enabled else "http"
    return f"{scheme}://{effective.config.lake.listen}"


def _keys(session: Session) -> tuple[str, str]:
    config = session.effective.config
    if config.lake.access_key_id and config.lake.secret_access_key:
        return config.lake.access_key_id.reveal(), config.lake.secret_access_key.reveal()
    path = config.data.folder / CREDENTIALS_FILE
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        raise NotFound(
            f"there are no keys of a lake: neither lake.access_key_id is set nor is there {path}",
            next_step="penstock up makes them; or set lake.access_key_id and lake.secret_access_key",
        ) from None
    return found["access_key_id"], found["secret_access_key"]
