"""Which lake a command talks to, by flag or the local one; and what its commands share."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from penstock.lake.client.lake import LakeClient
from penstock.lake.client.lake_place import CREDENTIALS_FILE, find_lake
from penstock.server.session import Session

__all__ = ["CREDENTIALS_FILE", "AtLake", "LakeTarget", "Message", "lake_of", "when"]

AtLake = Annotated[
    str | None,
    Parameter(name="--lake", help="Lake server. Default: the local one, else lake.listen.", metavar="URL"),
]
Message = Annotated[str, Parameter(name=("--message", "-m"), help="Why.", metavar="TEXT")]
LakeTarget = Annotated[str, Parameter(help="lake://REPOSITORY@REF/PATH", metavar="URL")]


@contextmanager
def lake_of(session: Session, url: str | None) -> Iterator[LakeClient]:
    session.start_logs(quiet=True)
    place = find_lake(url, effective=session.effective)
    with LakeClient(place.url, place.access_key_id, place.secret_access_key) as lake:
        yield lake


def when(seconds: int) -> str:
    """A time as it is shown; nothing for folders, which have none."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S") if seconds else ""
