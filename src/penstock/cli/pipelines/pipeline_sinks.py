"""`penstock pipeline adopt|finish`: sinks whose drivers are gone."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from penstock.cli.lake.lake_targets import AtLake, lake_of
from penstock.cli.noun import InSession
from penstock.cli.pipelines.pipeline_targets import AtBrokers
from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.lake.client.lake import LakeClient, parse_lake_url
from penstock.server.session import Session
from penstock.server.targets import CLUSTER_FOLDER, AtFolder, addresses_of

if TYPE_CHECKING:
    from penstock.journals.client.journal import Journals

__all__ = ["adopt", "finish"]

Transactions = Annotated[str, Parameter(help="The journal of transactions, for sinks of journals.", metavar="JOURNAL")]
TRANSACTIONS: Final = "spark/transactions"


async def adopt(
    sink: Annotated[str, Parameter(help="The sink's name, as the refusal says it.", metavar="SINK")],
    url: Annotated[
        str, Parameter(help="The branch it writes to, lake://REPOSITORY@BRANCH. Without one: journals.", metavar="URL")
    ] = "",
    /,
    *,
    checkpoint: Annotated[
        str, Parameter(help="The checkpoint whose query continues, after its last finished batch.", metavar="FOLDER")
    ] = "",
    forget: Annotated[bool, Parameter(help="Forget the sink: whatever query comes next has it.")] = False,
    transactions: Transactions = TRANSACTIONS,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Give a sink to another query: after a checkpoint was reset on purpose. Committed rows stay."""
    if not url:
        await _adopt_in_journals(
            session, sink, transactions, addresses_of(session, broker, cluster, "broker", "--broker")
        )
        return
    if bool(checkpoint) == forget:
        raise InvalidArgument("give either --checkpoint, whose query continues, or --forget")
    target = parse_lake_url(url)
    with lake_of(session, lake) as client:
        before = _register(client, target.branch_api, sink)
        if forget:
            client.call("DELETE", f"{target.branch_api}/sinks", sink=sink)
            session.say(f"{sink} is forgotten; it was at batch {before['batch']} of query {before['query']}")
            return
        from penstock.spark.shared.checkpoint import plan_of, state_of

        state = state_of(checkpoint)
        ends = plan_of(checkpoint, state.committed).ends
        body = {"sink": sink, "query": state.query, "batch": state.committed, "ends": ends}
        client.call("PUT", f"{target.branch_api}/sinks", body)
    session.say(f"{sink} belongs to query {state.query} now, behind batch {state.committed}")
    if before["ends"] and ends != before["ends"]:
        session.say(f"its last commit ended at {before['ends']}; this query continues at {ends or 'an unknown place'}")


async def _adopt_in_journals(session: Session, sink: str, transactions: str, brokers: list[str]) -> None:
    """Adopt a sink of journals. Its last batch is finished first, because the process that recorded it may never come
    back.
    """
    from penstock.spark.journals.transactions import Transactions as Journal

    async with _journals(session, brokers) as journals:
        before = await Journal(journals, transactions).adopt(sink)
    session.say(f"{sink} is free; it was at batch {before.batch} of query {before.query}")


def _journals(session: Session, brokers: list[str]) -> "Journals":
    from penstock.journals.client.journal import Journals
    from penstock.server.wiring import wiring_of

    session.start_logs(quiet=True)
    wiring = wiring_of(session)
    return Journals(brokers, token=wiring.token, tls=wiring.client_tls)


async def finish(
    *,
    every: Annotated[float, Parameter(help="Look again every S seconds, until Ctrl-C.", metavar="S")] = 0.0,
    transactions: Transactions = TRANSACTIONS,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Publish what drivers committed to journals and did not live to publish. Harmless at any time.

    A driver which is started again does this for its own sink, and the first commit of any sink for all others.
    """
    if every and not 1 <= every <= 86_400:
        raise InvalidArgument("--every: expected 1 to 86400 seconds")
    from penstock.spark.journals.transactions import Transactions as Journal

    async with _journals(session, addresses_of(session, broker, cluster, "broker", "--broker")) as journals:
        while True:
            count = await Journal(journals, transactions).finish()
            what = f"published what {count:,} drivers had committed" if count else "nothing new is committed"
            session.emit({"published": count}, what)
            if not every:
                return
            await asyncio.sleep(every)


def _register(client: LakeClient, api: str, sink: str) -> dict[str, Any]:
    found = {each["sink"]: each for each in client.call("GET", f"{api}/sinks")["results"]}
    if sink not in found:
        known = ", ".join(sorted(found)) or "none"
        raise NotFound(f"there is no sink {sink!r} on this branch; there are: {known}")
    return dict(found[sink])
