"""`penstock pipeline`: functions from DataFrames to DataFrames, run by Spark, exactly once."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from penstock.cli.lake.lake_targets import AtLake
from penstock.cli.noun import InSession, examples, noun
from penstock.cli.pipelines.pipeline_jobs import compact, garbage, import_listing
from penstock.cli.pipelines.pipeline_sinks import adopt, finish
from penstock.cli.pipelines.pipeline_targets import AtBrokers, Master, Remote, journal_options, lake_options, spark_for
from penstock.kernel.errors import NotFound
from penstock.server.output import make_table
from penstock.server.session import Session
from penstock.server.targets import CLUSTER_FOLDER, AtFolder, addresses_of

if TYPE_CHECKING:
    from penstock.spark.pipelines.pipeline import Pipeline
    from penstock.spark.pipelines.running.pipeline_run import FlowProgress
    from penstock.spark.pipelines.running.settings import RunSettings

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

app.command(
    adopt,
    help_epilogue=examples(
        "penstock pipeline adopt revenue.orders lake://shop@main --checkpoint FOLDER",
        "penstock pipeline adopt revenue.orders lake://shop@main --forget",
        "penstock pipeline adopt revenue.totals     a sink that writes to journals",
    ),
)
app.command(
    finish,
    help_epilogue=examples("penstock pipeline finish", "penstock pipeline finish --every 60     until Ctrl-C"),
)

File = Annotated[Path, Parameter(help="A Python file with one Pipeline(...) in it.", metavar="FILE")]
Flows = Annotated[tuple[str, ...], Parameter(name="--flow", help="Only these flows.", metavar="NAME")]
Checkpoints = Annotated[str, Parameter(help="Where Spark keeps how far flows are: a folder or a URL.", metavar="URL")]
Interval = Annotated[str, Parameter(help="The time between two batches, like 30s.", metavar="TIME")]
MaxBytes = Annotated[str, Parameter(help="How much a batch reads at most, like 64MiB.", metavar="SIZE")]
Conf = Annotated[tuple[str, ...], Parameter(help="A setting of Spark.", metavar="NAME=VALUE")]
Packages = Annotated[tuple[str, ...], Parameter(help="A package for Spark, by Maven's name.", metavar="G:A:V")]
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
    until_now: Annotated[
        bool, Parameter(name=["--until-now", "--once"], negative=(), help="Stop at the present end of the sources.")
    ] = False,
    flow: Flows = (),
    interval: Interval = "",
    max_bytes: MaxBytes = "",
    conf: Conf = (),
    package: Packages = (),
    restore: Annotated[
        bool, Parameter(negative=(), help="Continue after the sink's last commit, whatever the checkpoint says.")
    ] = False,
    master: Master = "",
    remote: Remote = "",
    checkpoints: Checkpoints = "",
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Run every flow until Ctrl-C. Safe to kill at any point: a restart continues from the checkpoint, and neither
    loses nor repeats a row. Exit status 75: the sink belongs to another query.
    """
    flags = {"interval": interval, "max_bytes": max_bytes, "conf": conf, "packages": package}
    flags |= {"master": master, "remote": remote, "checkpoints": checkpoints}
    pipeline, settings = _loaded(session, file, flags, broker, cluster, lake)
    from penstock.spark.pipelines.running.pipeline_run import PipelineRun
    from penstock.spark.pipelines.running.restore import restore as set_aside
    from penstock.spark.pipelines.running.settings import apply_conf

    pipeline.chosen(flow)
    session.say(f"starting Spark for {pipeline.name} …")
    with spark_for(session, pipeline.name, settings) as spark:
        apply_conf(spark, settings.conf)
        for each in pipeline.chosen(flow) if restore else ():
            session.say(set_aside(spark, pipeline, each))
        work = PipelineRun(spark, pipeline, flow)
        work.start(once=until_now, settings=settings)
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
    interval: Interval = "",
    max_bytes: MaxBytes = "",
    conf: Conf = (),
    package: Packages = (),
    master: Master = "",
    remote: Remote = "",
    checkpoints: Checkpoints = "",
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Show what would run: sources, sinks, checks, checkpoints, and settings with their origins. Nothing is started."""
    flags = {"interval": interval, "max_bytes": max_bytes, "conf": conf, "packages": package}
    flags |= {"master": master, "remote": remote, "checkpoints": checkpoints}
    pipeline, settings = _loaded(session, file, flags, broker, cluster, lake)
    rows = [
        [
            flow.name,
            ", ".join(map(str, flow.sources.values())),
            ", ".join(map(str, flow.sinks.values())),
            ", ".join(what for each in flow.sinks.values() for what in getattr(each, "checks", {})) or "none",
            f"{settings.interval_of(flow):g} s",
            pipeline.checkpoint_of(flow),
        ]
        for flow in pipeline.flows.values()
    ]
    names = ("flow", "from", "to", "checks", "interval", "checkpoint")
    shown = [[each.name, each.value, each.origin] for each in settings.shown]
    data = {
        "flows": [dict(zip(names, row, strict=True)) for row in rows],
        "settings": {name: {"value": value, "origin": origin} for name, value, origin in shown},
    }
    tables = [make_table(list(names), rows), *([make_table(["setting", "value", "origin"], shown)] if shown else [])]
    session.emit(data, *tables)


@app.command(help_epilogue=examples("penstock pipeline status examples/revenue.py"))
def status(
    file: File,
    /,
    *,
    checkpoints: Checkpoints = "",
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Show each flow's progress and lag: by its checkpoint, its sink's register, and its journals. Needs no Spark."""
    pipeline, _ = _loaded(session, file, {"checkpoints": checkpoints}, broker, cluster, lake)
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
    conf: Conf = (),
    package: Packages = (),
    master: Master = "",
    remote: Remote = "",
    checkpoints: Checkpoints = "",
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Write history by batch jobs, in parallel. `run` continues where they ended, and a killed one too."""
    flags = {"conf": conf, "packages": package, "master": master, "remote": remote, "checkpoints": checkpoints}
    pipeline, settings = _loaded(session, file, flags, broker, cluster, lake)
    from penstock.spark.pipelines.running.pipeline_backfill import backfill as fill

    chosen = pipeline.chosen(flow)
    with spark_for(session, f"{pipeline.name}-backfill", settings, code=chosen[0].code) as spark:
        ends = {each.name: fill(spark, pipeline, each, tell=session.say) for each in chosen}
    rows = [[name, journal, f"{end:,}"] for name, each in ends.items() for journal, end in each.items()]
    session.emit(ends, make_table(["flow", "journal", "stream begins at"], rows, right=["stream begins at"]))


@app.command(help_epilogue=examples("penstock pipeline restore examples/revenue.py --flow orders"))
def restore(
    file: File,
    /,
    *,
    flow: Flows = (),
    checkpoints: Checkpoints = "",
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Set checkpoints aside: the next run continues after the last commit of each sink, here or on another machine.

    For flows that keep no state. The driver that ran before may still live: the sink refuses its next batch.
    """
    pipeline, settings = _loaded(session, file, {"checkpoints": checkpoints}, broker, cluster, lake)
    from penstock.spark.pipelines.running.restore import restore as set_aside

    chosen = pipeline.chosen(flow)
    with spark_for(session, f"{pipeline.name}-restore", settings) as spark:
        notes = {each.name: set_aside(spark, pipeline, each) for each in chosen}
    session.emit(notes, *notes.values())


def _loaded(
    session: Session, file: Path, flags: dict[str, Any], brokers: tuple[str, ...], cluster: Path, lake: str | None
) -> "tuple[Pipeline, RunSettings]":
    """Return the pipeline of a file with brokers and lake as the other commands find them, and its settings."""
    session.start_logs(quiet=True)
    from penstock.spark.pipelines.pipeline import load_pipeline
    from penstock.spark.pipelines.running.settings import pairs_of, settle

    pipeline, effective = load_pipeline(file), session.effective
    chosen = {**flags, "conf": pairs_of(flags.get("conf", ()))}
    where = str(effective.file or "PENSTOCK_PIPELINE_SETTINGS")
    settings = settle(pipeline, chosen, effective.config.pipeline.settings, where)
    pipeline.checkpoints = settings.checkpoints or str(effective.config.data.folder / "pipelines" / pipeline.name)
    try:
        addresses = addresses_of(session, brokers, cluster, "broker", "--broker")
        journals = journal_options(session, addresses)
    except NotFound:
        journals = {}  # its flows may need none, or name their own
    pipeline.connect(journals, lake_options(session, lake))
    return pipeline, settings


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
