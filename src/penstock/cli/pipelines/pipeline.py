"""`penstock pipeline`: functions from DataFrames to DataFrames, run by Spark, exactly once."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from penstock.cli.lake.lake_targets import AtLake, lake_of
from penstock.cli.noun import InSession, examples, noun
from penstock.cli.pipelines.pipeline_jobs import compact, garbage, import_listing
from penstock.cli.pipelines.pipeline_targets import AtBrokers, Master, Remote, journal_options, lake_options, spark_for
from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.lake.client.lake import LakeClient, parse_lake_url
from penstock.server.output import make_table
from penstock.server.session import Session
from penstock.server.targets import CLUSTER_FOLDER, AtFolder, addresses_of

if TYPE_CHECKING:
    from penstock.journals.client.journal import Journals
    from penstock.spark.pipelines.pipeline import Pipeline
    from penstock.spark.pipelines.running.pipeline_run import FlowProgress

__all__ = ["app"]

app = noun(
    "pipeline",
    "Pipelines: journals into the lake and back, by Spark, exactly once.",
    try_this=(
        "penstock pipeline plan examples/revenue.py         what would run",
        "penstock pipeline run examples/revenue.py          until Ctrl-C",
        "penstock pipeline run examples/revenue.py --once   what there is, and no more",
        "penstock pipeline status examples/revenue.py",
    ),
)
app.command(
    compact,
    help_epilogue=examples(
        "penstock pipeline compact shop/orders lake://shop@main/history",
        "penstock pipeline compact shop/ lake://shop@main/all --schema 'sku string'",
    ),
)
app.command(
    import_listing,
    name="import",
    help_epilogue=examples(
        "penstock pipeline import listing.parquet lake://shop@main/raw/",
        "penstock pipeline import inventory/ lake://shop@main/raw/ --format csv",
    ),
)
app.command(
    garbage,
    help_epilogue=examples(
        "penstock pipeline garbage lake://shop@main",
        "penstock pipeline garbage lake://shop@main --save garbage/",
    ),
)

File = Annotated[Path, Parameter(help="A Python file with one Pipeline(...) in it.", metavar="FILE")]
Flows = Annotated[tuple[str, ...], Parameter(name="--flow", help="Only these flows.", metavar="NAME")]
Checkpoints = Annotated[
    Path | None, Parameter(help="Where queries keep how far they are. Default: the pipeline's.", metavar="FOLDER")
]
Transactions = Annotated[str, Parameter(help="The journal of transactions, for sinks of journals.", metavar="JOURNAL")]
TRANSACTIONS: Final = "spark/transactions"
TELL_EVERY: Final = 8  # looks


@app.command(
    help_epilogue=examples(
        "penstock pipeline run examples/revenue.py", "penstock pipeline run FILE --master spark://10.0.0.1:7077"
    )
)
def run(
    file: File,
    /,
    *,
    once: Annotated[bool, Parameter(help="Stop when everything there is has been read.")] = False,
    flow: Flows = (),
    master: Master = "",
    remote: Remote = "",
    checkpoints: Checkpoints = None,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Run every flow until Ctrl-C. Safe to kill at any point: a restart continues from the checkpoint, and neither
    loses nor repeats a row.
    """
    pipeline = _loaded(session, file, checkpoints, broker, cluster, lake)
    from penstock.spark.pipelines.running.pipeline_run import PipelineRun

    pipeline.chosen(flow)
    session.say(f"starting Spark for {pipeline.name} …")
    with spark_for(session, pipeline.name, master=master, remote=remote) as spark:
        work = PipelineRun(spark, pipeline, flow)
        work.start(once=once)
        for note in work.notes:
            session.say(note)
        session.say(f"running: {', '.join(each.sink for each in work.flows)}; Ctrl-C stops cleanly")
        teller = _Teller(session)
        try:
            work.watch(teller.tell)
        except KeyboardInterrupt:
            session.say("stopping …")
            work.stop()
        done = list(work.progress())
    session.emit([_shown(each) for each in done], _table(done))


@app.command(help_epilogue=examples("penstock pipeline plan examples/revenue.py"))
def plan(
    file: File,
    /,
    *,
    checkpoints: Checkpoints = None,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Show what would run: sources, sinks, checks, checkpoints. Nothing is started."""
    pipeline = _loaded(session, file, checkpoints, broker, cluster, lake)
    rows = [
        [
            flow.name,
            ", ".join(map(str, flow.sources.values())),
            ", ".join(map(str, flow.sinks.values())),
            ", ".join(what for each in flow.sinks.values() for what in getattr(each, "checks", {})) or "none",
            str(pipeline.checkpoint_of(flow)),
        ]
        for flow in pipeline.flows.values()
    ]
    names = ("flow", "from", "to", "checks", "checkpoint")
    session.emit([dict(zip(names, row, strict=True)) for row in rows], make_table(list(names), rows))


@app.command(help_epilogue=examples("penstock pipeline status examples/revenue.py"))
def status(
    file: File,
    /,
    *,
    checkpoints: Checkpoints = None,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Show each flow's progress and lag: by its checkpoint, its sink's register, and its journals. Needs no Spark."""
    pipeline = _loaded(session, file, checkpoints, broker, cluster, lake)
    from penstock.spark.pipelines.running.pipeline_status import status_of

    found = [status_of(pipeline, flow) for flow in pipeline.flows.values()]
    rows = [
        [
            each["flow"],
            _number(each["planned"]),
            _number(each["committed"]),
            _number(each["sink_batch"]),
            "?" if each["lag_bytes"] is None else f"{each['lag_bytes']:,} B",
            each["problem"],
        ]
        for each in found
    ]
    names = ["flow", "planned batch", "done batch", "batch in the sink", "lag", "problem"]
    session.emit(found, make_table(names, rows, right=names[1:5]))


@app.command(help_epilogue=examples("penstock pipeline backfill examples/revenue.py --flow orders"))
def backfill(
    file: File,
    /,
    *,
    flow: Flows = (),
    master: Master = "",
    remote: Remote = "",
    checkpoints: Checkpoints = None,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Write history by batch jobs, in parallel. `run` continues where they ended, and a killed one too."""
    pipeline = _loaded(session, file, checkpoints, broker, cluster, lake)
    from penstock.spark.pipelines.running.pipeline_backfill import backfill as fill

    chosen = pipeline.chosen(flow)
    with spark_for(session, f"{pipeline.name}-backfill", master=master, remote=remote) as spark:
        ends = {each.name: fill(spark, pipeline, each, tell=session.say) for each in chosen}
    rows = [[name, journal, f"{end:,}"] for name, each in ends.items() for journal, end in each.items()]
    session.emit(ends, make_table(["flow", "journal", "stream begins at"], rows, right=["stream begins at"]))


@app.command(
    help_epilogue=examples(
        "penstock pipeline adopt revenue.orders lake://shop@main --checkpoint FOLDER",
        "penstock pipeline adopt revenue.orders lake://shop@main --forget",
        "penstock pipeline adopt revenue.totals     a sink that writes to journals",
    )
)
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


@app.command(help_epilogue=examples("penstock pipeline finish", "penstock pipeline finish --every 60     until Ctrl-C"))
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


def _loaded(
    session: Session, file: Path, checkpoints: Path | None, brokers: tuple[str, ...], cluster: Path, lake: str | None
) -> "Pipeline":
    """The pipeline of a file, told where brokers and lake are as the other commands find them."""
    session.start_logs(quiet=True)
    from penstock.spark.pipelines.pipeline import load_pipeline

    pipeline = load_pipeline(file)
    if checkpoints is not None:
        pipeline.checkpoints = checkpoints
    elif not pipeline.has_own_checkpoints:
        pipeline.checkpoints = session.effective.config.data.folder / "pipelines" / pipeline.name
    try:
        addresses = addresses_of(session, brokers, cluster, "broker", "--broker")
        journals = journal_options(session, addresses)
    except NotFound:
        journals = {}  # its flows may need none, or name their own
    pipeline.connect(journals, lake_options(session, lake))
    return pipeline


class _Teller:
    """Tells how the flows are doing: a line for each when something has happened, and not too often."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._looks = 0
        self._last: dict[str, int] = {}

    def tell(self, flows: "list[FlowProgress]") -> None:
        self._looks += 1
        if self._looks % TELL_EVERY:
            return
        for each in flows:
            if self._last.get(each.flow, -1) < each.batch:
                self._last[each.flow] = each.batch
                self._session.say(line_of(each))


def line_of(progress: "FlowProgress") -> str:
    """Return one line about a flow."""
    lag = "" if progress.lag_bytes is None else f", {progress.lag_bytes:,} B behind"
    return f"{progress.flow:>16}  batch {progress.batch:,}: {progress.rows:,} rows, {progress.rows_per_s:,.0f}/s{lag}"


def _shown(progress: "FlowProgress") -> dict[str, Any]:
    return {
        "flow": progress.flow,
        "batch": progress.batch,
        "rows_per_s": round(progress.rows_per_s, 1),
        "lag_bytes": progress.lag_bytes,
    }


def _table(flows: "list[FlowProgress]") -> Any:
    rows = [
        [each.flow, _number(each.batch), "?" if each.lag_bytes is None else f"{each.lag_bytes:,} B"] for each in flows
    ]
    return make_table(["flow", "last batch", "lag"], rows, right=["last batch", "lag"])


def _number(value: int | None) -> str:
    return "none" if value is None or value < 0 else f"{value:,}"
