"""A pipeline's file as a program, for spark-submit and schedulers. Design: spark-2.md P2.

if __name__ == "__main__":
    pipeline.main()

spark-submit shop.py --until-now
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from pyspark.sql import SparkSession

from penstock.kernel.errors import LocalError, PenstockError, PreconditionFailed
from penstock.spark.pipelines.running.run import start
from penstock.spark.pipelines.running.settings import pairs_of

if TYPE_CHECKING:
    from penstock.spark.pipelines.pipeline import Pipeline

__all__ = ["FAILED", "MISUSE", "TAKEN", "main", "status_of_error"]

FAILED: Final = 1
MISUSE: Final = 2
TAKEN: Final = 75  # EX_TEMPFAIL: the sink belongs to another query, and a scheduler may ask again later
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # in the environment of a Python program that spark-submit runs


def main(pipeline: "Pipeline", arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the pipeline as its flags say, and exit."""
    flags = _parser(pipeline).parse_args(arguments)
    if flags.broker:
        os.environ["PENSTOCK_BROKERS"] = ",".join(flags.broker)
    submitted = SparkSession.builder.appName(pipeline.name).getOrCreate() if SUBMITTED in os.environ else None
    chosen = {
        "interval": flags.interval,
        "max_bytes": flags.max_bytes,
        "checkpoints": flags.checkpoints,
        "master": flags.master,
        "remote": flags.remote,
        "packages": tuple(flags.package),
    }
    try:
        chosen["conf"] = pairs_of(flags.conf)
        run = start(pipeline, submitted, tuple(flags.flow), "now" if flags.until_now else None, chosen)
        for note in run.notes:
            print(note, file=sys.stderr)
        try:
            run.wait()
        except KeyboardInterrupt:
            run.stop()
        for each in run.progress():
            print(f"{each.flow}: batch {each.batch}, {each.rows:,} rows in it", file=sys.stderr)
    except PenstockError as error:
        print(error.describe(), file=sys.stderr)
        sys.exit(status_of_error(error))
    finally:
        if submitted is not None:
            submitted.stop()
    sys.exit(0)


def status_of_error(error: PenstockError) -> int:
    """Return the exit status for an error that ends a run."""
    if isinstance(error, PreconditionFailed) and error.details.get("flow"):
        return TAKEN
    return MISUSE if isinstance(error, LocalError) else FAILED


def _parser(pipeline: "Pipeline") -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Run the pipeline {pipeline.name}.", allow_abbrev=False)
    parser.add_argument("--until-now", "--once", action="store_true", help="stop at the present end of the sources")
    parser.add_argument("--flow", action="append", default=[], metavar="NAME", help="run only this flow")
    parser.add_argument("--interval", metavar="TIME", help="the time between two batches, like 30s")
    parser.add_argument("--max-bytes", metavar="SIZE", help="how much a batch reads at most, like 64MiB")
    parser.add_argument("--checkpoints", metavar="URL", help="where Spark keeps how far the flows are")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    parser.add_argument("--package", action="append", default=[], metavar="G:A:V", help="a package for Spark")
    parser.add_argument("--master", metavar="URL", help="a Spark master")
    parser.add_argument("--remote", metavar="URL", help="a Spark Connect server")
    parser.add_argument("--broker", action="append", default=[], metavar="HOST:PORT", help="a broker to ask")
    return parser
