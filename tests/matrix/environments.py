"""Environments made from the built wheel, one for each kind of install, in `.matrix/`.

The versions are those of `requirements.lock`, so a run needs only packages that `make setup` has fetched already.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["INSTALLS", "TREE", "Environment", "build_wheel", "make_environment"]

TREE: Final = Path(__file__).parents[2]
FOLDER: Final = TREE / ".matrix"
INSTALLS: Final = {"bare": "", "server": "[server]", "spark": "[spark]", "all": "[all]"}


class Environment:
    """A virtual environment with one kind of install."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin/python"

    def run(self, *arguments: str, at: Path, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in a folder, apart from this tree and its variables."""
        ran = subprocess.run(
            [self.folder / "bin" / arguments[0], *arguments[1:]],
            cwd=at,
            env=self.variables(),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or ran.returncode == 0, f"{arguments}: {ran.stdout}{ran.stderr}"
        return ran

    def variables(self) -> dict[str, str]:
        """Return the variables of a process in it."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR", "JAVA_HOME") if name in os.environ}
        return {**kept, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}

    def added_bytes(self) -> int:
        """Return what `site-packages` has gained: of the bytes which an empty environment has, none count."""
        (packages,) = self.folder.glob("lib/python3*/site-packages")
        files = (path for path in packages.rglob("*") if path.is_file() and not path.is_symlink())
        return sum(path.stat().st_size for path in files if "__pycache__" not in path.parts)


def build_wheel() -> Path:
    """Build the wheel of this tree and return its path."""
    folder = FOLDER / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    builder = Path(sys.executable).with_name("uv-build")
    built = subprocess.run([builder, "build-wheel", folder], cwd=TREE, capture_output=True, text=True, check=True)
    return folder / built.stdout.split()[-1]


def make_environment(name: str, wheel: Path) -> Environment:
    """Return a fresh environment of an install, without pip."""
    folder = FOLDER / name
    uv = str(TREE / ".uv/bin/uv")
    _uv(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
    requirement = f"penstock{INSTALLS[name]} @ {wheel.as_uri()}"
    _uv(
        uv, "pip", "install", "--quiet", "--no-config", "--python", str(folder / "bin/python"),
        "--constraint", str(TREE / "requirements.lock"), requirement,
    )  # fmt: skip
    return Environment(folder)


def _uv(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
