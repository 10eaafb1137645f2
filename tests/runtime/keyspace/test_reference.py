"""The example of docs/reference/keyspace.md runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "keyspace.md"


def test_the_example_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert "/tmp/penstock-keyspace" in example
    code = example.replace("/tmp/penstock-keyspace", str(tmp_path / "keyspace"))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[:2] == ["True 2", "['members/a']"]
