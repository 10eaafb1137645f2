"""What `pip install` brings: a wheel with all of the source, Java's too, which runs without the tree it came from."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    builder = Path(sys.executable).with_name("uv-build")
    built = subprocess.run([builder, "build-wheel", folder], cwd=TREE, capture_output=True, text=True, check=True)
    return folder / built.stdout.split()[-1]


def test_a_wheel_has_every_file_of_the_source(wheel: Path) -> None:
    source = TREE / "src"
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    expected = {str(path) for path in files if "__pycache__" not in path.parts}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if not name.endswith("/") and ".dist-info/" not in name}
    assert packed == expected
    assert any(name.endswith(".java") for name in packed)


def test_what_was_unpacked_elsewhere_runs(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = (
        "import penstock, penstock.spark, pyspark_journal, pyspark_lake, penstock.spark.journals.java_source;"
        "from penstock.cli.main import main; print(penstock.__file__); main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, "--version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    place, version = ran.stdout.splitlines()
    assert Path(place).is_relative_to(tmp_path)
    assert wheel.name.startswith(f"penstock-{version}-")
