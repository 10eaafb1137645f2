"""Where a figure was measured: the machine, and the commit of the code. A number without them means nothing."""

import os
import platform
import subprocess
import tempfile
from pathlib import Path

from penstock import __version__

__all__ = ["describe_commit", "describe_machine"]


def describe_machine() -> dict[str, str | int]:
    """The machine in a few words: what makes figures of two runs comparable, or not."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "filesystem": filesystem_type(Path(tempfile.gettempdir())),
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def describe_commit() -> str:
    """The commit this package runs from, marked when files differ from it; outside a checkout, the version."""
    here = Path(__file__).parent
    commit = _git(here, "rev-parse", "--short=12", "HEAD")
    # A package installed below another project's repository is not of that repository.
    if commit is None or _git(here, "ls-files", "--error-unmatch", "report.py") is None:
        return __version__
    changed = _git(here, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}-dirty" if changed else commit


def filesystem_type(path: Path) -> str:
    """The type of the file system a path is on, as the kernel names it."""
    device = path.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    mounts = Path("/proc/self/mountinfo")
    for line in mounts.read_text().splitlines() if mounts.exists() else []:
        # …device at the third place, then any number of optional fields up to a dash, then the type.
        before, _, after = line.partition(" - ")
        if before.split()[2] == wanted:
            return after.split()[0]
    return "unknown"


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return " ".join(value.split())
    return platform.processor() or platform.machine()


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
