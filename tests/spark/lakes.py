"""What the tests of the lake's formats share."""

import json
import os
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.lake.rest.servers import KEY, SECRET, LakeProcess

from penstock.spark.tables.lake_access import LakeAccess, access_from

EPOCH = 1_700_000_000


def options_of(lake: LakeProcess) -> dict[str, str]:
    return {"lake": lake.url, "access_key_id": KEY, "secret_access_key": SECRET}


def access_of(lake: LakeProcess) -> LakeAccess:
    return access_from(options_of(lake))


def make_repository(lake: LakeProcess, name: str) -> str:
    """A repository; its main branch as a URL."""
    access_of(lake).ask("POST", "/repositories", {"name": name, "storage_namespace": f"local://{name}"})
    return f"lake://{name}@main"


def log(lake: LakeProcess, repository: str, ref: str = "main") -> list[dict[str, Any]]:
    """Commits, newest first, without the very first one."""
    return access_of(lake).pages(f"/repositories/{repository}/refs/{ref}/commits")[:-1]


def sinks(lake: LakeProcess, repository: str, branch: str = "main") -> dict[str, dict[str, Any]]:
    found = access_of(lake).ask("GET", f"/repositories/{repository}/branches/{branch}/sinks")
    return {each["sink"]: each for each in found["results"]}


class Orders:
    """A folder of JSON files as a source which grows, and is read a file at a time."""

    SCHEMA = "id long, sku string, day string"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._files = 0

    def add(self, *ids: int) -> None:
        rows = [{"id": id_, "sku": f"sku{id_ % 3}", "day": f"2026-11-{10 + id_ % 2}"} for id_ in ids]
        new = self.folder / f".{self._files}"
        new.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(new, (EPOCH + self._files, EPOCH + self._files))  # Spark reads files in the order of their times
        new.rename(self.folder / f"{self._files:05d}.json")
        self._files += 1

    def stream(self, spark: SparkSession) -> DataFrame:
        return spark.readStream.schema(self.SCHEMA).option("maxFilesPerTrigger", 1).json(str(self.folder))


def run_stream(
    frame: DataFrame, lake: LakeProcess, url: str, checkpoint: Path, mode: str = "append", **options: str
) -> StreamingQuery:
    """Everything there is, then stop; the error of the query, if it fails."""
    query = (
        frame.writeStream.format("lake")
        .outputMode(mode)
        .options(**options_of(lake), **options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(url)
    )
    query.awaitTermination()
    return query
