"""The guide to consumers runs as it is printed, and shows the application as it is."""

import re
from pathlib import Path

import pytest
from tests.docs.guides import shell

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/tutorials/consumer.md").read_text(encoding="utf-8")
END_JOBS = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"  # whatever becomes of the test


@pytest.mark.timeout(300)
def test_the_guide_to_consumers_runs_as_printed(empty_folder: Path) -> None:
    (empty_folder / "examples").symlink_to(ROOT / "examples")
    ran = shell(END_JOBS + "\n".join(re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)), empty_folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert '{"word":"rose","count":3}' in ran.stdout
    assert '{"word":"rose","count":4}\n' in ran.stdout  # by the second process
    assert '"rose":4' in ran.stdout  # in the recovered file


def test_the_guide_shows_the_application_as_it_is() -> None:
    shown = re.search(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert shown is not None
    application = (ROOT / "examples/wordcount/wordcount.py").read_text(encoding="utf-8")
    assert application.partition('"""\n\n')[2] == shown[1]
