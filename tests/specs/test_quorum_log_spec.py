"""The specification of the quorum log holds in every small world of specs/, explored to its end by TLC."""

import os
import re
from pathlib import Path

import pytest
from tests.specs.tlc import SPECS, Tlc

CONFIGS = sorted(SPECS.glob("*.cfg"))
LONG = {"Async", "Contract", "Crashes", "Expand", "Fine", "Rollback", "Swap"}  # over a minute together: `make specs`
SHORT = [each for each in CONFIGS if each.stem not in LONG or os.environ.get("SPECS") == "all"]
ROW = re.compile(r"^\| `(\w+\.cfg)` \|.*\| ([\d,]+) \| ([\d,]+) \| (\d+) \|.*\|$", re.MULTILINE)


def counts() -> dict[str, tuple[int, ...]]:
    """States generated, distinct states and depth, as README.md has them."""
    rows = ROW.findall((SPECS / "README.md").read_text())
    return {name: tuple(int(count.replace(",", "")) for count in rest) for name, *rest in rows}


def test_the_readme_knows_every_small_world() -> None:
    assert [path.name for path in CONFIGS] == sorted(counts())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("config", SHORT, ids=lambda path: path.stem)
def test_every_invariant_holds(tlc: Tlc, config: Path) -> None:
    outcome = tlc.check("MCQuorumLog", config, timeout_s=280)
    assert outcome.violated is None, "\n".join(outcome.behaviour)
    assert outcome.left == 0
    assert (outcome.generated, outcome.distinct, outcome.depth) == counts()[config.name], "README.md has other counts"
