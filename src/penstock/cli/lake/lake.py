"""`penstock lake`: the versioned data lake: its server, and what people do with it."""

from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from penstock.cli.lake.lake_names import branch, repo, tag
from penstock.cli.lake.lake_objects import cat, import_objects, ls, put, rm
from penstock.cli.lake.lake_protection import protection
from penstock.cli.lake.lake_recover import recover
from penstock.cli.lake.lake_retention import retention
from penstock.cli.lake.lake_targets import AtLake, LakeTarget, Message, lake_of, when
from penstock.cli.lake.lake_wait import wait_for
from penstock.cli.noun import InSession, examples, noun
from penstock.kernel.errors import InvalidArgument
from penstock.lake.client.lake import LakeUrl, parse_lake_url
from penstock.server.output import counted, make_table
from penstock.server.targets import CLUSTER_FOLDER, AtFolder, AtNodes, Shard

__all__ = ["app"]

app = noun(
    "lake",
    "The lake: repositories with branches, commits and merges. lakeFS's REST API and S3 on one port.",
    try_this=(
        "penstock lake serve --alone                a whole lake in one process",
        "penstock lake repo create shop             in another terminal",
        "penstock lake put prices.csv lake://shop@main/prices.csv",
        "penstock lake commit lake://shop@main --message 'new prices'",
        "penstock lake log lake://shop@main",
    ),
)
app.command(repo)
app.command(branch)
app.command(tag)
app.command(protection)
app.command(retention)
app.command(recover, help_epilogue=examples("penstock lake recover --shard main --into main-2"))
app.command(ls, help_epilogue=examples("penstock lake ls lake://shop@main", "penstock lake ls lake://shop@main/a/ -r"))
app.command(
    cat, help_epilogue=examples("penstock lake cat lake://shop@main/prices.csv", "penstock lake cat URL > file")
)
app.command(
    put,
    help_epilogue=examples(
        "penstock lake put prices.csv lake://shop@main/prices.csv", "date | penstock lake put - URL"
    ),
)
app.command(rm, help_epilogue=examples("penstock lake rm lake://shop@main/prices.csv"))
app.command(
    import_objects,
    name="import",
    help_epilogue=examples("penstock lake import local://outside/ lake://shop@main/taken/"),
)

SIGNS: Final = {"added": "+", "removed": "-", "changed": "~", "conflict": "!", "prefix_changed": "*"}
COLOURS: Final = {"added": "green", "removed": "red", "changed": "yellow", "conflict": "bold red"}


@app.command(
    help_epilogue=examples(
        "penstock lake serve --alone", "penstock lake serve --node 10.0.0.1:7101 --listen 0.0.0.0:8000"
    )
)
async def serve(
    *,
    listen: Annotated[
        str | None, Parameter(help="Where it listens. Default: lake.listen.", metavar="HOST:PORT")
    ] = None,
    alone: Annotated[
        bool, Parameter(help="Run a quorum node of its own in the data folder: one process, one copy.")
    ] = False,
    name: Annotated[str, Parameter(help="This member's name. Default: the host's, and something random.")] = "",
    shard: Shard = "main",
    journal: Annotated[
        str, Parameter(help="A journal which orders the changes, instead of the quorum log.", metavar="NAME")
    ] = "",
    node_address: AtNodes = (),
    broker: Annotated[
        tuple[str, ...],
        Parameter(help="Of --journal: a broker to ask. Default: the local cluster's.", metavar="HOST:PORT"),
    ] = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Run one member of the lake until SIGTERM or Ctrl-C. Any number may run: each is as good as the others."""
    from penstock.server.lake_server import serve_lake

    session.start_logs()
    await serve_lake(
        session, listen, name, shard, node_address, cluster, is_alone=alone, journal=journal, brokers=broker
    )


# commits


@app.command(
    help_epilogue=examples(
        "penstock lake diff lake://shop@main                       uncommitted changes",
        "penstock lake diff lake://shop@main lake://shop@work",
    )
)
def diff(
    left: LakeTarget,
    right: Annotated[
        str | None, Parameter(help="The other side. Default: the uncommitted changes.", metavar="URL")
    ] = None,
    /,
    *,
    limit: Annotated[int, Parameter(help="How many lines at most.", metavar="N", validator=Number(gte=1))] = 1000,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Show uncommitted changes, or the changes between two refs."""
    one = parse_lake_url(left)
    path, prefix = f"{one.branch_api}/diff", one.path
    if right is not None:
        other = parse_lake_url(right)
        if other.repository != one.repository:
            raise InvalidArgument("both sides of a diff are refs of one repository")
        path = f"{one.ref_api}/diff/{other.ref_api.rpartition('/')[2]}"
        prefix = other.path or one.path
    with lake_of(session, lake) as client:
        found = list(client.pages(path, limit=limit, prefix=prefix))
    if session.wants_json:
        session.emit(found)
        return
    for each in found:
        session.stdout.print(f"{SIGNS[each['type']]} {each['path']}", style=COLOURS.get(each["type"]), markup=False)
    session.say(f"{counted(len(found), 'path')} {'differs' if len(found) == 1 else 'differ'}")


@app.command(help_epilogue=examples("penstock lake commit lake://shop@main --message 'new prices'"))
def commit(
    url: LakeTarget,
    /,
    *,
    message: Message,
    allow_empty: Annotated[bool, Parameter(help="Also if nothing has changed.")] = False,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Commit a branch's uncommitted changes. Writers can continue during the commit."""
    target = parse_lake_url(url)
    with lake_of(session, lake) as client:
        body = {"message": message, "allow_empty": allow_empty}
        work = client.call("POST", f"{target.branch_api}/commits/async", body)["id"]
        made = wait_for(session, client, f"{target.branch_api}/commits/async/{work}")
    session.emit(made, f"{made['id']} {made['message']}")


@app.command(help_epilogue=examples("penstock lake log lake://shop@main", "penstock lake log lake://shop@v1 --limit 3"))
def log(
    url: LakeTarget,
    /,
    *,
    limit: Annotated[int, Parameter(help="How many commits at most.", metavar="N", validator=Number(gte=1))] = 20,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Show a ref's history, newest first; with a path, the commits which changed it."""
    target = parse_lake_url(url)
    kind = "prefixes" if target.path.endswith("/") else "objects"
    query = {kind: target.path} if target.path else {}
    with lake_of(session, lake) as client:
        found = list(client.pages(f"{target.ref_api}/commits", limit=limit, **query))
    rows = [[each["id"][:12], when(each["creation_date"]), each["committer"], each["message"]] for each in found]
    session.emit(found, make_table(["commit", "made", "by", "why"], rows))


@app.command(help_epilogue=examples("penstock lake merge lake://shop@work main"))
def merge(
    source: LakeTarget,
    into: Annotated[str, Parameter(help="The branch to merge into.", metavar="BRANCH")],
    /,
    *,
    message: Annotated[str, Parameter(name=("--message", "-m"), help="Why.", metavar="TEXT")] = "",
    strategy: Annotated[
        str, Parameter(help="The side that wins if both changed a path: source-wins or dest-wins.", metavar="NAME")
    ] = "",
    squash: Annotated[bool, Parameter(help="One commit, which does not name the source as parent.")] = False,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Merge a ref into a branch. Fails and lists the paths on conflict."""
    target = parse_lake_url(source)
    if "://" in into:
        raise InvalidArgument(f"{into}: expected the name of a branch of {target.repository}, like main")
    body = {"message": message, "strategy": strategy, "squash_merge": squash}
    with lake_of(session, lake) as client:
        path = f"{target.ref_api}/merge/{LakeUrl(target.repository, into).ref_api.rpartition('/')[2]}"
        work = client.call("POST", f"{path}/async", body)["id"]
        made = wait_for(session, client, f"{path}/async/{work}")
    session.emit(made, f"{made['id']} {made['message']}")


@app.command(help_epilogue=examples("penstock lake revert lake://shop@main main~1"))
def revert(
    url: LakeTarget,
    ref: Annotated[str, Parameter(help="The commit to undo.", metavar="REF")],
    /,
    *,
    parent: Annotated[int, Parameter(help="Of a merge: against which parent, from 1.", metavar="N")] = 0,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Undo what a commit did, by a new commit."""
    target = parse_lake_url(url)
    with lake_of(session, lake) as client:
        client.call("POST", f"{target.branch_api}/revert", {"ref": ref, "parent_number": parent})
        head = client.call("GET", f"{target.api}/commits/{target.ref_api.rpartition('/')[2]}")
    session.emit(head, f"{head['id']} {head['message']}")


@app.command(help_epilogue=examples("penstock lake gc lake://shop", "penstock lake gc lake://shop --sweep"))
def gc(
    url: Annotated[str, Parameter(help="lake://REPOSITORY", metavar="URL")],
    /,
    *,
    sweep: Annotated[bool, Parameter(help="Delete what an earlier run with --sweep found, too.")] = False,
    grace: Annotated[
        float,
        Parameter(
            help="How long ago that earlier run must have been, at least.", metavar="SECONDS", validator=Number(gte=0)
        ),
    ] = 3600.0,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Tell which objects nothing refers to any more; with --sweep, delete them.

    An object goes if two runs found that nothing refers to it, and nothing can come to. So the first runs delete little
    or nothing: run it now and then, once a day for example.
    """
    target = parse_lake_url(url, needs_ref=False)
    with lake_of(session, lake) as client:
        if sweep:
            work = client.call("POST", f"{target.api}/gc", {"grace_seconds": grace})["id"]
            found = wait_for(session, client, f"{target.api}/gc/{work}")
        else:
            found = client.call("GET", f"{target.api}/gc/dry_run")
    what = f"{counted(found['objects'], 'object')} with {counted(found['bytes'], 'byte')}"
    done = f"deleted {what}" if sweep else f"{what} could go"
    wait = "to be found by another run" if sweep else "too young"
    session.emit(found, f"{done}; {found['too_young']} more {wait}", *found["examples"])
