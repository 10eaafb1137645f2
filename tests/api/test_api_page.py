"""The page of the API has every public name, each with an example, and every example runs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.ups import UpProcess
from tests.lake.rest.servers import KEY, SECRET

import penstock
from penstock_lab.papers.api_page import PARTS, example_of, page

NAMES = [name for names in PARTS.values() for name in names]
# Each needs the server of its own folder, or the JVM's packages: a second or more
SCRIPT = """
import sys, time
from penstock_lab.papers.api_page import example_of
for name in sys.argv[1:]:
    print(f"== {name}", flush=True)
    exec(compile(example_of(name), name, "exec"), {"__name__": "__main__"})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with UpProcess(tmp_path / "penstock-data"):
        yield tmp_path


def test_the_page_has_every_name_once() -> None:
    assert sorted(NAMES) == sorted(penstock.__all__)
    text = page()
    for name in NAMES:
        assert text.count(f"\n### penstock.{name}\n") == 1
        assert f"```python\n{example_of(name)}\n```" in text
    for name in (*penstock.errors.__all__, *penstock.spi.__all__):
        assert name in ("Fault", "Outcome", "Written") or f"- `{name}`: " in text


@pytest.mark.timeout(200)
def test_every_example_runs_in_the_order_of_the_page(folder: Path) -> None:
    environment = {
        **os.environ, "PENSTOCK_LAKE_ACCESS_KEY_ID": KEY, "PENSTOCK_LAKE_SECRET_ACCESS_KEY": SECRET,
    }  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, *NAMES],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = dict(part.split("\n", 1) for part in ran.stdout.split("== ")[1:])
    assert list(said) == NAMES
    assert "journal shop/sold: [0, " in said["Journal"]
    assert "{'sku': 'cup', 'n': 6}" in said["Journal"]
    assert "added a" in said["Branch"]
    assert all(said[name] for name in ("NotFound", "PreconditionFailed", "InvalidArgument", "Refused"))
