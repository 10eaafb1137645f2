"""`penstock lake protection`: branches that change by merges alone."""

from typing import Annotated, Any

from cyclopts import Parameter

from penstock.cli.lake.lake_targets import AtLake, lake_of
from penstock.cli.noun import InSession, examples, noun
from penstock.kernel.errors import InvalidArgument
from penstock.lake.client.lake import parse_lake_url
from penstock.lake.core.refs.protection import ACTIONS
from penstock.server.output import make_table

__all__ = ["protection"]

protection = noun(
    "protection",
    "Branches that change by merges alone.",
    try_this=("penstock lake protection set lake://shop --branch main", "penstock lake protection list lake://shop"),
)

RepositoryUrl = Annotated[str, Parameter(help="lake://REPOSITORY", metavar="URL")]


@protection.command(name="list", help_epilogue=examples("penstock lake protection list lake://shop"))
def list_rules(url: RepositoryUrl, /, *, lake: AtLake = None, session: InSession) -> None:
    """List the rules. A branch that no rule matches takes every change."""
    target = parse_lake_url(url, needs_ref=False)
    with lake_of(session, lake) as client:
        rules = client.call("GET", f"{target.api}/settings/branch_protection")
    rows = [[rule["pattern"], ", ".join(rule["blocks"])] for rule in rules]
    session.emit(rules, make_table(["branches", "blocked"], rows) if rows else "no rules: every branch takes changes")


@protection.command(
    name="set",
    help_epilogue=examples("penstock lake protection set lake://shop --branch main --branch 'release-*=commit'"),
)
def set_rules(
    url: RepositoryUrl,
    /,
    *,
    branch: Annotated[
        tuple[str, ...],
        Parameter(
            help="A pattern of branches, like main or release-*, and the blocked action: commit or staging_write. "
            "Both without it. May be repeated.",
            metavar="PATTERN[=BLOCKED]",
        ),
    ],
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Set the rules, in place of those in force.

    Puts, deletes and resets are staging writes. Merges, reverts and imports stay possible. Earlier changes stay staged.
    """
    target = parse_lake_url(url, needs_ref=False)
    with lake_of(session, lake) as client:
        client.call("PUT", f"{target.api}/settings/branch_protection", [_rule(each) for each in branch])
    session.say(f"{target.repository} protects {', '.join(each.partition('=')[0] for each in branch)}")


@protection.command(name="clear", help_epilogue=examples("penstock lake protection clear lake://shop"))
def clear(url: RepositoryUrl, /, *, lake: AtLake = None, session: InSession) -> None:
    """Drop all rules: every branch takes changes."""
    target = parse_lake_url(url, needs_ref=False)
    with lake_of(session, lake) as client:
        client.call("PUT", f"{target.api}/settings/branch_protection", [])
    session.say(f"{target.repository} protects no branch")


def _rule(text: str) -> dict[str, Any]:
    pattern, _, blocked = text.partition("=")
    if not pattern or blocked not in ("", *ACTIONS):
        raise InvalidArgument(f"--branch {text}: expected PATTERN or PATTERN={ACTIONS[1]}, like release-*={ACTIONS[1]}")
    return {"pattern": pattern, "blocks": [blocked] if blocked else list(ACTIONS)}
