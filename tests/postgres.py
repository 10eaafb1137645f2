"""A real PostgreSQL server, private to a test run: in a folder of its own, on a free port, gone with the tests."""

import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

READY_S = 60.0
# Nothing here outlives the tests, so nothing needs to reach the disk.
SETTINGS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=60", "shared_buffers=16MB")
_PR_SET_PDEATHSIG = 1


@contextmanager
def running_postgres() -> Iterator[str]:
    """The URL of a database, as SQLAlchemy wants it."""
    binaries = _binaries()
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
    try:
        if user is not None:
            shutil.chown(folder, user)
        options = f"--no-sync --auth=trust --username=penstock --encoding=UTF8 -D {folder}/data".split()
        subprocess.run([binaries / "initdb", *options], user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        port = _free_port()
        options = f"-D {folder}/data -k {folder} -h 127.0.0.1 -p {port}".split()
        options += [word for setting in SETTINGS for word in ("-c", setting)]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [binaries / "postgres", *options],
                user=user,
                cwd=folder,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
            )
            try:
                _wait_until_ready(port, server, folder / "log")
                yield f"postgresql+psycopg://penstock@127.0.0.1:{port}/postgres"
            finally:
                server.send_signal(signal.SIGQUIT)  # at once: nobody needs what it holds
                server.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with running_postgres() as url:
        yield url


def _binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    assert on_path is not None, "PostgreSQL is not installed: run scripts/ensure-postgresql"
    return Path(on_path).parent


def _user() -> str | None:
    """PostgreSQL does not run as root."""
    if os.geteuid() != 0:
        return None
    known = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def _wait_until_ready(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            psycopg.connect(f"host=127.0.0.1 port={port} user=penstock dbname=postgres", connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
