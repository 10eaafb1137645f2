"""Extras: which packages `pip install penstock` leaves out, and which extra brings each.

    require("server", "penstock up")                # before anything is done: is all of it here?

    with extra("sql", "SqlStore"):                  # or around the imports that need it
        from sqlalchemy import Connection

A missing package is a `ConfigError` that names the extra and the command that installs it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Final

from penstock.kernel.errors import ConfigError

__all__ = ["MODULES", "extra", "missing_extra", "require"]

# extra → the modules of its packages; `pyproject.toml` has the packages, and a test compares the two
MODULES: Final = {
    "tables": ("fsspec", "numpy", "pandas", "polars", "pyarrow"),
    "server": (
        "apsw",
        "blake3",
        "cramjam",
        "numpy",
        "obstore",
        "polars",
        "prometheus_client",
        "pyarrow",
        "uvloop",
        "zstandard",
    ),
    "spark": ("blake3", "cramjam", "numpy", "obstore", "pandas", "polars", "pyarrow", "pyspark", "zstandard"),
    "fast": ("numba",),
    "sql": ("sqlalchemy",),
    "etcd": ("grpc",),
    "postgresql": ("psycopg",),
    "connect": ("pyspark",),
}


def require(name: str, who: str) -> None:
    """Raise `ConfigError` if a package of the extra is not installed. Nothing is imported."""
    if not _is_complete(name):
        raise _needs(who, name)


@contextmanager
def extra(name: str, who: str) -> Iterator[None]:
    """Turn a failed import inside the block into a `ConfigError` that names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in MODULES[name]:
            raise
        raise _needs(who, name) from None


def missing_extra(error: ModuleNotFoundError, who: str) -> ConfigError | None:
    """Return the error that names the extra of a module which is not installed; None if no extra brings it."""
    module = (error.name or "").partition(".")[0]
    found = next((name for name, modules in MODULES.items() if module in modules), None)
    return None if found is None else _needs(who, found)


def _needs(who: str, name: str) -> ConfigError:
    install = f"pip install 'penstock[{name}]'"
    return ConfigError(f"{who} needs the {name} extra: {install}", next_step=install, extra=name)


@cache
def _is_complete(name: str) -> bool:
    return all(find_spec(module) is not None for module in MODULES[name])
