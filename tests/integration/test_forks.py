"""Blocking clients outlive a fork: children and their parent use the same objects."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.cli.ups import UpProcess
from tests.lake.rest.servers import KEY, SECRET

import penstock

pytestmark = pytest.mark.timeout(300)
SCRIPT = Path(__file__).parent / "forking_process.py"


def test_every_blocking_client_works_in_children_and_in_their_parent(tmp_path: Path) -> None:
    with UpProcess(tmp_path / "data") as up:
        running = up.running
        keys = {"PENSTOCK_LAKE_ACCESS_KEY_ID": KEY, "PENSTOCK_LAKE_SECRET_ACCESS_KEY": SECRET}
        os.environ.update(keys)
        try:
            with penstock.connect(running.broker, lake=running.lake) as stock:
                stock.lake("shop").create()
        finally:
            for key in keys:
                del os.environ[key]
        done = subprocess.run(
            [sys.executable, "-X", "dev", SCRIPT, running.broker, running.lake, running.node],
            env={**os.environ, **keys}, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *children, parent = [json.loads(line) for line in done.stdout.splitlines()]
    names = ["child0", "child1", "fork0", "fork1"]
    assert sorted(each["name"] for each in children) == names
    for child in children:
        assert [message.partition(";")[0] for message in child["refused"]] == [
            "this was begun before a fork, and ended with it",
            "the parent of this process appends as one",
        ]
    assert parent["exits"] == [0, 0, 0, 0]
    everybody = Counter(["parent", "meanwhile", "afterwards", *names])
    assert Counter(parent["events"]) == everybody  # each once: no child published what its parent had
    assert Counter(parent["seen"]) >= everybody
