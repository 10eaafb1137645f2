"""Imports: a client and the command pay for nothing that they do not use (R12, F1, F2).

Each case is a process of its own: it imports some modules and prints the names of all that were loaded.
"""

import re
import resource
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from penstock.cli.needs import NEEDS
from penstock.kernel.errors import ConfigError
from penstock.kernel.extras import MODULES, extra, missing_extra, require

ROOT: Final = Path(__file__).parents[1]
HEAVY: Final = ("polars", "pyarrow", "numpy", "numba", "pandas", "pyspark", "sqlalchemy", "obstore", "uvloop")
# what serves, and what writes the reference from every part
SERVING: Final = (
    "cli.reference",
    "server.fsck.folder",
    "server.fsck.lake",
    "server.machine.roles",
    "server.machine.running",
    "server.machine.supervised",
    "server.lake_recovery",
    "server.lake_server",
    "server.lake_site",
)
VERSION_TIMES_MAX: Final = 2.5  # the processor time of an empty Python: 40 ms where that takes 16
# modules that packages of an extra provide under another name
PACKAGE_OF: Final = {"prometheus_client": "prometheus-client", "grpc": "grpcio"}


def loaded(program: str) -> set[str]:
    """Return the modules which a program loads that are not of the standard library."""
    watched = f"import sys\nbefore = set(sys.modules)\n{program}\nprint(*(set(sys.modules) - before))"
    told = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in told.stdout.splitlines()[-1].split()} - sys.stdlib_module_names


def modules_below(*folders: str) -> list[str]:
    paths = [path for folder in folders for path in sorted((ROOT / "src/penstock" / folder).rglob("*.py"))]
    return [".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__") for path in paths]


def test_asking_for_connect_loads_no_package_at_all() -> None:
    assert loaded("import penstock; penstock.connect; import penstock.aio") <= {"penstock"}


@pytest.mark.parametrize(
    "folders",
    [("kernel",), ("journals/client",), ("quorum/client",), ("consumers/client",), ("lake/client",), ("cli", "server")],
    ids="/".join,
)
def test_clients_and_commands_load_nothing_heavy(folders: tuple[str, ...]) -> None:
    names = [name for name in modules_below(*folders) if "fsspec" not in name and not name.endswith(SERVING)]
    assert not loaded("\n".join(f"import {name}" for name in names)) & set(HEAVY)


def test_a_connection_loads_nothing_heavy() -> None:
    program = "import penstock; stock = penstock.connect('127.0.0.1:1'); stock.journals; stock.journal('a/b')"
    assert not loaded(program) & set(HEAVY)


def test_the_version_is_printed_at_once() -> None:
    def cpu_s(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    program = "from penstock.cli.entry import main; main()"
    turns = [(cpu_s("-c", "pass"), cpu_s("-c", program, "--version")) for _ in range(9)]
    empty, version = (min(times) for times in zip(*turns, strict=True))
    assert version <= VERSION_TIMES_MAX * empty


def test_the_version_needs_no_command_line() -> None:
    program = "import sys; sys.argv = ['penstock', '--version']; from penstock.cli.entry import main; main()"
    assert loaded(program) <= {"penstock"}


def test_extras_of_the_package_are_those_which_errors_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = {
        name: {re.split(r"[\[<>=;~ ]", each, maxsplit=1)[0] for each in wanted} - {"penstock"}
        for name, wanted in project["optional-dependencies"].items()
    }
    both = packages.pop("all")
    assert both == set()
    packages["postgresql"] -= packages["sql"]
    assert packages == {name: {PACKAGE_OF.get(each, each) for each in modules} for name, modules in MODULES.items()}
    assert set(NEEDS.values()) <= set(packages)


def test_a_missing_extra_is_named() -> None:
    with pytest.raises(ConfigError) as refused, extra("sql", "SqlStore"):
        raise ModuleNotFoundError("No module named 'sqlalchemy.orm'", name="sqlalchemy.orm")
    assert refused.value.message == "SqlStore needs the sql extra: pip install 'penstock[sql]'"
    assert refused.value.next_step == "pip install 'penstock[sql]'"
    found = missing_extra(ModuleNotFoundError("No module named 'pyspark'", name="pyspark"), "penstock pipeline run")
    assert found is not None
    assert found.message == "penstock pipeline run needs the spark extra: pip install 'penstock[spark]'"


def test_a_module_of_no_extra_is_a_defect() -> None:
    with pytest.raises(ModuleNotFoundError), extra("sql", "SqlStore"):
        raise ModuleNotFoundError("No module named 'penstock.nothing'", name="penstock.nothing")
    assert missing_extra(ModuleNotFoundError("No module named 'x'", name="x"), "penstock up") is None


def test_an_extra_that_is_installed_is_not_refused() -> None:
    for name in MODULES:
        require(name, "a test")
