"""Clients of S3, unmodified, against a lake: those of PyPI in an environment of their own, and those of Debian.

`make matrix-s3` runs it. With S3_CLIENTS_REPORT it writes a table of the steps that passed to that file.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

import pytest
from tests.matrix.environments import FOLDER, TREE, build_wheel, make_environment

pytestmark = pytest.mark.timeout(600)

KEY: Final = "AKIAIOSFODNN7MATRIX"
SECRET: Final = "a secret of the matrix only"
START_S: Final = 120.0
PROGRAMS: Final = {
    "boto3": "boto3",
    "s3fs": "s3fs",
    "pyarrow": "PyArrow",
    "polars": "Polars",
    "duckdb": "DuckDB (httpfs)",
    "deltalake": "delta-rs",
    "pyiceberg": "PyIceberg",
    "listings": "listings as of s5cmd, by boto3",
}
Run = Callable[..., str]
passed: list[tuple[str, str, str]] = []  # client, version, step


@pytest.fixture(scope="session")
def python() -> Path:
    """Python with the clients of PyPI."""
    folder, lock, uv = FOLDER / "s3-clients", TREE / "tests/matrix/s3-clients.lock", str(TREE / ".uv/bin/uv")
    subprocess.run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder)], check=True)
    subprocess.run(
        [uv, "pip", "sync", "--quiet", "--require-hashes", "--python", str(folder / "bin/python"), str(lock)],
        check=True,
    )
    return folder / "bin/python"


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A lake of an installed server, with the repository `matrix`."""
    server, folder = make_environment("server", build_wheel()), tmp_path_factory.mktemp("lake")
    log = folder / "log"
    settings = {
        "PENSTOCK_DATA_FOLDER": str(folder / "data"),
        "PENSTOCK_LAKE_ACCESS_KEY_ID": KEY,
        "PENSTOCK_LAKE_SECRET_ACCESS_KEY": SECRET,
    }
    command = [str(server.folder / "bin/penstock"), "lake", "serve", "--alone", "--listen", "127.0.0.1:0"]
    with log.open("w") as out:
        process = subprocess.Popen(command, env=server.variables() | settings, cwd=folder, stdout=out, stderr=out)
    deadline = time.monotonic() + START_S
    while "serves REST and S3 on " not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
    url = log.read_text().replace("\n", " ").partition("serves REST and S3 on ")[2].split(",")[0]
    try:
        subprocess.run(
            ["/usr/bin/aws", "--endpoint-url", url, "s3", "mb", "s3://matrix"], env=variables(url), check=True
        )
        yield url
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="session", autouse=True)
def report() -> Iterator[None]:
    yield
    place = os.environ.get("S3_CLIENTS_REPORT")
    if place:
        Path(place).write_text(table())


def table() -> str:
    rows: dict[tuple[str, str], list[str]] = {}
    for client, version, step in passed:
        rows.setdefault((client, version), []).append(step)
    lines = [f"| {client} | {version} | {'; '.join(steps)} |" for (client, version), steps in sorted(rows.items())]
    return (
        "# S3 clients that work with a lake\n\n"
        "`make matrix-s3` runs these clients, unmodified, against an installed server, and writes this table of the "
        "steps that passed.\n\n| client | version | steps |\n|---|---|---|\n" + "\n".join(lines) + "\n"
    )


def variables(endpoint: str) -> dict[str, str]:
    """Return the variables of a client, without those of this machine."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "S3_ENDPOINT": endpoint,
        "S3_BUCKET": "matrix",
        "PYTHONPATH": str(TREE),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def shell(endpoint: str, at: Path, **more: str) -> Run:
    """Return a function that runs a command in a folder and returns its output."""

    def run(*command: str, stdin: bytes = b"", status: int = 0) -> str:
        ran = subprocess.run(
            command, cwd=at, env=variables(endpoint) | more, input=stdin, capture_output=True, check=False, timeout=120
        )
        assert ran.returncode == status, f"{command}: {ran.returncode}\n{ran.stdout.decode()}{ran.stderr.decode()}"
        return ran.stdout.decode()

    return run


def fill(folder: Path) -> bytes:
    """Make some files: two small ones in `files`, and a large one."""
    (folder / "files/deep").mkdir(parents=True)
    (folder / "files/one").write_text("1")
    (folder / "files/deep/two words").write_text("22")
    large = os.urandom(12 << 20)
    (folder / "large").write_bytes(large)
    return large


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_python_client(program: str, python: Path, endpoint: str, tmp_path: Path) -> None:
    run = shell(endpoint, tmp_path, TMPDIR=str(tmp_path), HOME=str(tmp_path))
    rows = [json.loads(line) for line in run(str(python), "-m", f"tests.matrix.s3_clients.use_{program}").splitlines()]
    name = {"listings": "boto3"}.get(program, program)
    (packages,) = python.parents[1].glob("lib/*/site-packages")
    (version,) = {each.version for each in distributions(path=[str(packages)]) if each.name == name}
    assert rows
    assert [row for row in rows if row["error"]] == []
    passed.extend((PROGRAMS[program], version, row["step"]) for row in rows)


def test_awscli(endpoint: str, tmp_path: Path) -> None:
    large = fill(tmp_path)
    run = shell(endpoint, tmp_path)
    place = "s3://matrix/main/aws"

    def aws(*words: str) -> str:
        return run("/usr/bin/aws", "--endpoint-url", endpoint, *words)

    aws("s3", "cp", "large", f"{place}/large", "--no-progress")
    aws("s3", "cp", f"{place}/large", "back", "--no-progress")
    assert (tmp_path / "back").read_bytes() == large
    aws("s3", "sync", "files", f"{place}/files")
    assert "deep/two words" in aws("s3", "ls", "--recursive", f"{place}/")
    aws("s3", "sync", "--delete", f"{place}/files", "files-back")
    assert (tmp_path / "files-back/deep/two words").read_text() == "22"
    aws("s3", "mv", f"{place}/files/one", f"{place}/moved")
    link = aws("s3", "presign", f"{place}/moved").strip()
    assert (
        run("/usr/bin/python3", "-c", "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read())", link)
        == "b'1'\n"
    )
    found = json.loads(aws("s3api", "head-object", "--bucket", "matrix", "--key", "main/aws/moved"))
    assert found["ContentLength"] == 1
    aws("s3", "rm", "--recursive", place)
    assert (
        json.loads(aws("s3api", "list-objects-v2", "--bucket", "matrix", "--prefix", "main/aws/") or "{}").get(
            "Contents"
        )
        is None
    )
    version = run("/usr/bin/aws", "--version").split()[0].partition("/")[2]
    passed.append(("awscli", version, "cp (12 MiB in parts), sync, ls, mv, presign, rm, s3api, mb"))


def test_rclone(endpoint: str, tmp_path: Path) -> None:
    large = fill(tmp_path)
    settings = {"TYPE": "s3", "PROVIDER": "Other", "ENV_AUTH": "true", "ENDPOINT": endpoint, "REGION": "us-east-1"}
    run = shell(endpoint, tmp_path, **{f"RCLONE_CONFIG_LAKE_{name}": value for name, value in settings.items()})
    place = "lake:matrix/main/rclone"

    def rclone(*words: str, stdin: bytes = b"") -> str:
        return run("rclone", "--config", "/dev/null", *words, stdin=stdin)

    rclone("copy", "files", f"{place}/files")
    rclone("copyto", "large", f"{place}/large", "--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M")
    rclone("check", "files", f"{place}/files", "--download")
    assert sorted(rclone("lsf", "-R", "--files-only", place).split("\n")) == [
        "",
        "files/deep/two words",
        "files/one",
        "large",
    ]
    rclone("sync", f"{place}/files", f"{place}/mirror")
    rclone("moveto", f"{place}/mirror/one", f"{place}/moved")
    rclone("rcat", f"{place}/piped", stdin=b"through a pipe")
    assert rclone("cat", f"{place}/piped") == "through a pipe"
    rclone("copyto", f"{place}/large", "back")
    assert (tmp_path / "back").read_bytes() == large
    rclone("touch", f"{place}/touched")
    rclone("cleanup", "lake:matrix")
    assert "Total objects: 7" in rclone("size", place)
    rclone("purge", place)
    assert rclone("lsf", "-R", place) == ""
    version = rclone("version").split()[1]
    passed.append(
        ("rclone", version, "copy, sync, check, lsf, moveto, rcat, cat, touch, size, cleanup, purge, uploads in parts")
    )


def test_s3cmd(endpoint: str, tmp_path: Path) -> None:
    large = fill(tmp_path)
    run = shell(endpoint, tmp_path)
    host, place = endpoint.removeprefix("http://"), "s3://matrix/main/s3cmd"

    def s3cmd(*words: str, status: int = 0) -> str:
        return run(
            "s3cmd", "--no-ssl", f"--host={host}", f"--host-bucket={host}", "--config=/dev/null", f"--access_key={KEY}",
            f"--secret_key={SECRET}", "--no-progress", *words, status=status,
        )  # fmt: skip

    s3cmd("put", "large", f"{place}/large", "--multipart-chunk-size-mb=5")
    s3cmd("get", f"{place}/large", "back")
    assert (tmp_path / "back").read_bytes() == large
    s3cmd("sync", "files/", f"{place}/files/")
    s3cmd("sync", f"{place}/files/", "files-back/")
    assert (tmp_path / "files-back/deep/two words").read_text() == "22"
    s3cmd("cp", f"{place}/files/one", f"{place}/copied")
    s3cmd("mv", f"{place}/copied", f"{place}/moved")
    assert "ACL:       none" in s3cmd("info", f"{place}/moved")
    s3cmd("modify", "--add-header=x-amz-meta-color:blue", f"{place}/moved")
    assert "x-amz-meta-color: blue" in s3cmd("info", f"{place}/moved")
    assert "3 objects" not in s3cmd("du", place)
    link = s3cmd("signurl", f"{place}/moved", "+60").strip()
    assert (
        run("/usr/bin/python3", "-c", "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read())", link)
        == "b'1'\n"
    )
    s3cmd("multipart", "s3://matrix")
    s3cmd("setacl", "--acl-public", f"{place}/moved", status=11)  # 501: there are no ACLs
    s3cmd("del", "-r", "-f", place)
    assert s3cmd("ls", "-r", place) == ""
    version = s3cmd("--version").split()[-1]
    passed.append(
        ("s3cmd", version, "put and get (12 MiB in parts), sync, cp, mv, info, modify, du, signurl, multipart, del, ls")
    )


def test_restic(endpoint: str, tmp_path: Path) -> None:
    fill(tmp_path)
    own = {
        "RESTIC_PASSWORD": "x",
        "RESTIC_REPOSITORY": f"s3:{endpoint}/matrix/main/restic",
        "RESTIC_CACHE_DIR": str(tmp_path / "cache"),
    }
    run = shell(endpoint, tmp_path, **own)

    def backup(*words: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            ["restic", "backup", *words], cwd=tmp_path, env=variables(endpoint) | own, stdin=subprocess.PIPE
        )

    run("restic", "init")
    with backup("files") as one, backup("large") as other:
        assert (one.wait(120), other.wait(120)) == (0, 0)
    assert len(json.loads(run("restic", "snapshots", "--json"))) == 2
    run("restic", "restore", "latest", "--target", "restored")
    run("restic", "check", "--read-data")
    with backup("--stdin") as holder:
        while not run("restic", "list", "locks", "--no-lock"):
            assert holder.poll() is None
        run("restic", "forget", "--group-by", "", "--keep-last", "1", "--prune", status=1)  # the backup holds a lock
        assert holder.stdin is not None
        holder.stdin.write(b"the end")
        holder.stdin.close()
        assert holder.wait(120) == 0
    run("restic", "forget", "--group-by", "", "--keep-last", "1", "--prune")
    assert run("restic", "list", "locks", "--no-lock") == ""
    assert len(json.loads(run("restic", "snapshots", "--json"))) == 1
    version = run("restic", "version").split()[1]
    passed.append(("restic", version, "init, two backups at once, snapshots, restore, check, locks, forget and prune"))
