"""`penstock lake retention`: the rules by which the garbage collector gives up old history."""

from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from penstock.cli.lake.lake_targets import AtLake, lake_of
from penstock.cli.noun import InSession, examples, noun
from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.lake.client.lake import parse_lake_url
from penstock.server.output import make_table

__all__ = ["retention"]

retention = noun(
    "retention",
    "How long old history is kept.",
    try_this=("penstock lake retention set lake://shop --days 90", "penstock lake retention show lake://shop"),
)

RepositoryUrl = Annotated[str, Parameter(help="lake://REPOSITORY", metavar="URL")]


@retention.command(name="show", help_epilogue=examples("penstock lake retention show lake://shop"))
def show(url: RepositoryUrl, /, *, lake: AtLake = None, session: InSession) -> None:
    """Show the rules. Without any, all that a branch or a tag reaches is kept for ever."""
    target = parse_lake_url(url, needs_ref=False)
    with lake_of(session, lake) as client:
        try:
            rules = client.call("GET", f"{target.api}/settings/gc_rules")
        except NotFound:
            session.emit(None, "no rules: all history is kept")
            return
    rows = [["(any other)", str(rules["default_retention_days"])]]
    rows += [[rule["branch_id"], str(rule["retention_days"])] for rule in rules["branches"]]
    session.emit(rules, make_table(["branch", "days"], rows))


@retention.command(
    name="set", help_epilogue=examples("penstock lake retention set lake://shop --days 90 --branch scratch=7")
)
def set_rules(
    url: RepositoryUrl,
    /,
    *,
    days: Annotated[int, Parameter(help="How long a branch keeps old commits.", metavar="N", validator=Number(gte=1))],
    branch: Annotated[
        tuple[str, ...], Parameter(help="Another number of days for one branch; may be repeated.", metavar="NAME=N")
    ] = (),
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Set for how many days each branch keeps old commits.

    The garbage collector gives them up in its next run, for ever: they stay in the log, but their objects go, unless a
    commit that is kept has them too. Heads and tags are kept whatever their age.
    """
    target = parse_lake_url(url, needs_ref=False)
    rules = {"default_retention_days": days, "branches": [_rule(each) for each in branch]}
    with lake_of(session, lake) as client:
        client.call("PUT", f"{target.api}/settings/gc_rules", rules)
    session.say(f"from the next run on, {target.repository} keeps {days} days of history")


@retention.command(name="clear", help_epilogue=examples("penstock lake retention clear lake://shop"))
def clear(url: RepositoryUrl, /, *, lake: AtLake = None, session: InSession) -> None:
    """Keep all history from now on. Dropped commits do not come back."""
    target = parse_lake_url(url, needs_ref=False)
    with lake_of(session, lake) as client:
        client.call("DELETE", f"{target.api}/settings/gc_rules")
    session.say(f"{target.repository} keeps all history")


def _rule(text: str) -> dict[str, Any]:
    name, _, days = text.partition("=")
    if not name or not days.isdecimal():
        raise InvalidArgument(f"--branch {text}: expected NAME=DAYS, like scratch=7")
    return {"branch_id": name, "retention_days": int(days)}
