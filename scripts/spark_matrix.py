"""Run the tests of Spark with other releases of PySpark, each in an environment of its own in `.matrix/`.

    .venv/bin/python scripts/spark_matrix.py 4.0.5 4.1.4

All other packages have the versions of `requirements.lock`. More arguments, like `-k jar`, go to pytest.
`make spark-matrix` runs this for every release that Penstock works with, `make matrix` for the oldest.
"""

import subprocess
import sys
import time
from pathlib import Path

TREE = Path(__file__).parents[1]
UV = str(TREE / ".uv/bin/uv")
FOLDER = TREE / ".matrix"
# Sockets that PySpark 4.0 and 4.1 do not close themselves.
NOT_OURS = "ignore:unclosed:ResourceWarning"


def main(arguments: list[str]) -> int:
    """Test each release, and say how it went."""
    versions = [each for each in arguments if each[:1].isdigit()]
    options = [each for each in arguments if each not in versions]
    failed = []
    for version in versions:
        begin = time.monotonic()
        python = environment(version)
        command = [python, "-m", "pytest", "-p", "no:xdist", "-W", NOT_OURS, "tests/spark", *options]
        print(f"spark-matrix: PySpark {version}", flush=True)
        is_good = subprocess.run(command, cwd=TREE, check=False).returncode == 0
        print(f"spark-matrix: PySpark {version}: {'passed' if is_good else 'FAILED'}, {time.monotonic() - begin:.0f} s")
        failed += [] if is_good else [version]
    return 1 if failed else 0


def environment(version: str) -> Path:
    """Return the Python of an environment with this PySpark, and all else as it is locked."""
    folder = FOLDER / f"spark-{version}"
    python = folder / "bin/python"
    FOLDER.mkdir(exist_ok=True)
    override = FOLDER / f"pyspark-{version}.txt"
    override.write_text(f"pyspark=={version}\n")
    if not python.exists():
        run("venv", "--quiet", "--python", sys.executable, str(folder))
    locked = ("--no-verify-hashes", "--requirement", str(TREE / "requirements.lock"), "--override", str(override))
    run("pip", "install", "--quiet", "--python", str(python), *locked)
    mine = ("--no-deps", "--no-build-isolation", "--editable", str(TREE), "--editable", str(TREE / "lab"))
    run("pip", "install", "--quiet", "--python", str(python), *mine)
    return python


def run(*arguments: str) -> None:
    """Run uv."""
    subprocess.run([UV, *arguments], cwd=TREE, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
