"""The guide to journals runs as it is printed."""

import re
from pathlib import Path

import pytest
from tests.docs.guides import shell

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_the_guide_to_journals_runs_as_printed(empty_folder: Path) -> None:
    guide = (ROOT / "docs/how-to/journals.md").read_text(encoding="utf-8")
    (empty_folder / "examples").symlink_to(ROOT / "examples")
    ran = shell("\n".join(re.findall(r"```sh\n(.*?)```", guide, re.DOTALL)), empty_folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "first\nsecond\nthird\nfourth\n" in ran.stdout
    assert "shop/orders [6, 13) committed" in ran.stdout
    assert "is the primary of" in ran.stdout
