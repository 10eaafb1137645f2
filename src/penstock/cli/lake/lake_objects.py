"""`penstock lake ls|cat|put|rm|import`: objects on branches."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from penstock.cli.lake.lake_targets import AtLake, LakeTarget, Message, lake_of, when
from penstock.cli.lake.lake_wait import until_completed
from penstock.cli.noun import InSession
from penstock.kernel.errors import InvalidArgument
from penstock.lake.client.lake import LakeUrl, error_of, parse_lake_url
from penstock.server.output import counted, make_table

__all__ = ["cat", "import_objects", "ls", "put", "rm"]


def ls(
    url: LakeTarget,
    /,
    *,
    recursive: Annotated[bool, Parameter(name=("--recursive", "-r"), help="Also the contents of folders.")] = False,
    limit: Annotated[int, Parameter(help="How many lines at most.", metavar="N", validator=Number(gte=1))] = 1000,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """List objects and folders below a path, as of now."""
    target = parse_lake_url(url)
    with lake_of(session, lake) as client:
        found = list(
            client.pages(
                f"{target.ref_api}/objects/ls", limit=limit, prefix=target.path, delimiter="" if recursive else "/"
            )
        )
    rows = [[str(each.get("size_bytes", "")), when(each["mtime"]), each["path"]] for each in found]
    session.emit(found, make_table(["bytes", "modified", "path"], rows))


def cat(url: LakeTarget, /, *, lake: AtLake = None, session: InSession) -> None:
    """Write an object's bytes to stdout."""
    with lake_of(session, lake) as client:
        for chunk in client.download(_with_path(url)):
            sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def put(
    file: Annotated[str, Parameter(help="The file; - is stdin.", metavar="FILE", allow_leading_hyphen=True)],
    url: LakeTarget,
    /,
    *,
    content_type: Annotated[str, Parameter(help="The content type, like text/csv.", metavar="TYPE")] = "",
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Put a file on a branch. A path which ends in / takes the file's name."""
    target = parse_lake_url(url)
    if not target.path or target.path.endswith("/"):
        if file == "-":
            raise InvalidArgument(f"{url}: name the path for the content of stdin")
        target = LakeUrl(target.repository, target.ref, target.path + Path(file).name)
    with _opened(file) as content, lake_of(session, lake) as client:
        made = client.upload(target, content, content_type)
    session.emit(made, f"put {made['path']}: {made['size_bytes']} bytes, staged on {target.ref}")


def rm(url: LakeTarget, /, *, lake: AtLake = None, session: InSession) -> None:
    """Delete an object from a branch. Earlier commits keep it."""
    target = _with_path(url)
    with lake_of(session, lake) as client:
        client.call("GET", f"{target.ref_api}/objects/stat", path=target.path)  # a misspelt path gets an error
        client.call("DELETE", f"{target.branch_api}/objects", path=target.path)
    session.say(f"deleted {target.path}; staged on {target.ref}")


def import_objects(
    source: Annotated[
        str, Parameter(help="A folder of the lake's store, with / at its end; or one object.", metavar="ADDRESS")
    ],
    url: LakeTarget,
    /,
    *,
    message: Message = "Import objects",
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Make objects of the store part of a branch, without copying them. A folder replaces everything below the path."""
    target = parse_lake_url(url)
    kind, path = "common_prefix" if source.endswith("/") else "object", target.path
    if kind == "object" and (not path or path.endswith("/")):
        path += source.rpartition("/")[2]
    body = {
        "paths": [{"path": source, "destination": path, "type": kind}],
        "commit": {"message": message, "metadata": {}},
        "allow_empty": False,
    }
    with lake_of(session, lake) as client:
        id_ = client.call("POST", f"{target.branch_api}/import", body)["id"]
        try:
            status = until_completed(
                session,
                lambda: client.call("GET", f"{target.branch_api}/import", id=id_),
                lambda status: f"{counted(status['ingested_objects'], 'object')} so far",
            )
        except KeyboardInterrupt:
            client.call("DELETE", f"{target.branch_api}/import", id=id_)
            session.say("the import was cancelled; nothing of it is on the branch")
            raise
    if "error" in status:
        raise error_of(409, msgspec.json.encode(status["error"]))
    session.emit(status, f"{status['commit']['id']} {counted(status['ingested_objects'], 'object')}")


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        content = Path(file).open("rb")  # noqa: SIM115 - only opening it may fail so
    except OSError as error:
        raise InvalidArgument(f"{file}: {error.strerror}") from None
    with content:
        yield content


def _with_path(url: str) -> LakeUrl:
    target = parse_lake_url(url)
    if not target.path:
        raise InvalidArgument(f"{url}: name an object, like lake://shop@main/prices.csv")
    return target
