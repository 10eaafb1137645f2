"""`penstock lake repo|branch|tag`: the names of a lake."""

from typing import Annotated, Any

from cyclopts import Parameter

from penstock.cli.lake.lake_targets import AtLake, LakeTarget, lake_of
from penstock.cli.noun import InSession, examples, noun
from penstock.kernel.errors import InvalidArgument
from penstock.lake.client.lake import parse_lake_url
from penstock.server.output import make_table

__all__ = ["branch", "repo", "tag"]

repo = noun("repo", "Repositories.", try_this=("penstock lake repo create shop", "penstock lake repo list"))
branch = noun(
    "branch",
    "Branches of a repository.",
    try_this=("penstock lake branch create lake://shop@work --source main", "penstock lake branch list lake://shop"),
)
tag = noun(
    "tag",
    "Tags: names for commits which stay.",
    try_this=("penstock lake tag create lake://shop@v1 --source main", "penstock lake tag list lake://shop"),
)

RepositoryName = Annotated[str, Parameter(help="The repository's name.", metavar="NAME")]
RepositoryUrl = Annotated[str, Parameter(help="lake://REPOSITORY", metavar="URL")]
NewName = Annotated[str, Parameter(help="lake://REPOSITORY@NAME", metavar="URL")]
Source = Annotated[str, Parameter(help="Where it begins: a branch, a tag, a commit.", metavar="REF")]


@repo.command(help_epilogue=examples("penstock lake repo create shop", "penstock lake repo create shop --samples"))
def create(
    name: RepositoryName,
    /,
    *,
    storage: Annotated[
        str, Parameter(help="Its storage namespace. Default: a folder of its name.", metavar="URL")
    ] = "",
    samples: Annotated[bool, Parameter(help="With some sample data.")] = False,
    read_only: Annotated[bool, Parameter(help="Refuse changes, for good.")] = False,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Make a repository, with a branch main."""
    body = {"name": name, "storage_namespace": storage, "sample_data": samples, "read_only": read_only}
    with lake_of(session, lake) as client:
        made = client.call("POST", "/repositories", body)
    session.emit(made, f"lake://{made['id']}@{made['default_branch']}, with its objects in {made['storage_namespace']}")


@repo.command(name="list", help_epilogue=examples("penstock lake repo list"))
def list_repositories(*, lake: AtLake = None, session: InSession) -> None:
    """List the repositories."""
    with lake_of(session, lake) as client:
        found = list(client.pages("/repositories"))
    rows = [[each["id"], each["default_branch"], each["storage_namespace"]] for each in found]
    session.emit(found, make_table(["repository", "default branch", "objects in"], rows))


@repo.command(help_epilogue=examples("penstock lake repo delete shop"))
def delete(name: RepositoryName, /, *, lake: AtLake = None, session: InSession) -> None:
    """Delete a repository with all its branches and tags. Its objects stay in the store."""
    if "://" in name:
        raise InvalidArgument(f"{name}: expected the name alone, like shop")
    with lake_of(session, lake) as client:
        client.call("DELETE", parse_lake_url(f"lake://{name}", needs_ref=False).api)
    session.say(f"deleted {name}")


@branch.command(name="create", help_epilogue=examples("penstock lake branch create lake://shop@work --source main"))
def create_branch(url: NewName, /, *, source: Source = "main", lake: AtLake = None, session: InSession) -> None:
    """Make a branch."""
    target = parse_lake_url(url)
    with lake_of(session, lake) as client:
        commit = client.call("POST", f"{target.api}/branches", {"name": target.ref, "source": source})
    session.emit({"id": target.ref, "commit_id": commit}, f"{target.ref} at {commit}")


@branch.command(name="list", help_epilogue=examples("penstock lake branch list lake://shop"))
def list_branches(url: RepositoryUrl, /, *, lake: AtLake = None, session: InSession) -> None:
    """List the branches and their heads."""
    _list_refs(session, lake, url, "branches")


@branch.command(name="delete", help_epilogue=examples("penstock lake branch delete lake://shop@work"))
def delete_branch(url: NewName, /, *, lake: AtLake = None, session: InSession) -> None:
    """Delete a branch and its uncommitted changes."""
    target = parse_lake_url(url)
    with lake_of(session, lake) as client:
        client.call("DELETE", target.branch_api)
    session.say(f"deleted {target.ref}")


@branch.command(help_epilogue=examples("penstock lake branch reset lake://shop@work"))
def reset(url: LakeTarget, /, *, lake: AtLake = None, session: InSession) -> None:
    """Discard uncommitted changes of a branch: all, or one path."""
    target = parse_lake_url(url)
    body = {"type": "object", "path": target.path} if target.path else {"type": "reset"}
    with lake_of(session, lake) as client:
        client.call("PUT", target.branch_api, body)
    session.say(f"reset {url}")


@tag.command(name="create", help_epilogue=examples("penstock lake tag create lake://shop@v1 --source main"))
def create_tag(url: NewName, /, *, source: Source = "main", lake: AtLake = None, session: InSession) -> None:
    """Make a tag."""
    target = parse_lake_url(url)
    with lake_of(session, lake) as client:
        made = client.call("POST", f"{target.api}/tags", {"id": target.ref, "ref": source})
    session.emit(made, f"{made['id']} at {made['commit_id']}")


@tag.command(name="list", help_epilogue=examples("penstock lake tag list lake://shop"))
def list_tags(url: RepositoryUrl, /, *, lake: AtLake = None, session: InSession) -> None:
    """List the tags and their commits."""
    _list_refs(session, lake, url, "tags")


@tag.command(name="delete", help_epilogue=examples("penstock lake tag delete lake://shop@v1"))
def delete_tag(url: NewName, /, *, lake: AtLake = None, session: InSession) -> None:
    """Delete a tag. The commit stays."""
    target = parse_lake_url(url)
    with lake_of(session, lake) as client:
        client.call("DELETE", f"{target.api}/tags/{target.ref}")
    session.say(f"deleted {target.ref}")


def _list_refs(session: Any, lake: str | None, url: str, kind: str) -> None:
    target = parse_lake_url(url, needs_ref=False)
    with lake_of(session, lake) as client:
        found = list(client.pages(f"{target.api}/{kind}"))
    session.emit(found, make_table(["name", "commit"], [[each["id"], each["commit_id"]] for each in found]))
