"""Garbage found by Spark, against a real lake: the same as the lake's own dry run finds."""

import time
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession
from tests.lake.rest.servers import LakeProcess
from tests.spark.lakes import access_of, make_repository, options_of

from penstock.spark import find_garbage

pytestmark = pytest.mark.timeout(600)
REPOSITORY = "/repositories/garbage"
WAIT_S = 120.0


def test_spark_finds_what_the_lakes_own_dry_run_finds(spark: SparkSession, lake: LakeProcess) -> None:
    access, options = access_of(lake), options_of(lake)
    main = make_repository(lake, "garbage")

    def put(path: str, content: str, branch: str = "main") -> None:
        lake.call("POST", f"{REPOSITORY}/branches/{branch}/objects?path={quote(path)}", content.encode())

    for number in range(20):
        put(f"kept/{number}", f"first {number}")
    access.ask("POST", f"{REPOSITORY}/branches/main/commits", {"message": "one"})
    put("kept/0", "again, and in a commit")
    access.ask("POST", f"{REPOSITORY}/branches/main/commits", {"message": "two"})
    for number in range(7):
        put("staged", f"overwritten before it was ever committed: {number}")
    access.ask("POST", f"{REPOSITORY}/branches", {"name": "scratch", "source": "main"})
    put("scratch", "on a branch which is gone", "scratch")
    access.ask("DELETE", f"{REPOSITORY}/branches/scratch")

    def dry_run() -> dict[str, object]:
        found: dict[str, object] = access.ask("GET", f"{REPOSITORY}/gc/dry_run")
        return found

    assert find_garbage(spark, main, options=options).count() == dry_run()["objects"] == 0  # all of it is too young
    epoch = access.ask("GET", f"{REPOSITORY}/gc/roots")["gce"]
    access.ask("POST", f"{REPOSITORY}/gc", {"grace_seconds": 3600})
    deadline = time.monotonic() + WAIT_S
    while access.ask("GET", f"{REPOSITORY}/gc/roots")["gce"] == epoch:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    alone = dry_run()
    rows = find_garbage(spark, main, options=options).collect()
    assert len(rows) == alone["objects"] == 7  # six of the overwritten ones, and the one of the branch
    assert sum(row["size"] for row in rows) == alone["bytes"]
    assert set(alone["examples"]) <= {row["key"] for row in rows}  # type: ignore[call-overload]
