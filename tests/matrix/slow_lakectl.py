"""lakectl, unmodified, against a lake: its commands as its documentation prints them.

`make interop` runs it. With LAKECTL_REPORT it writes a table of the commands to that file.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.lake.rest.servers import KEY, SECRET, LakeProcess
from tests.matrix.environments import TREE

pytestmark = pytest.mark.timeout(600)

VERSION: Final = "v1.84.0"
GROUPS: Final = {"actions", "auth", "bisect", "branch", "branch-protect", "fs", "gc", "local", "repo", "show", "tag"}
Run = Callable[..., str]
passed: list[tuple[str, str]] = []  # command, remark


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeProcess]:
    running = LakeProcess(tmp_path_factory.mktemp("lake"))
    running.start()
    yield running
    running.kill()


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    yield
    place = os.environ.get("LAKECTL_REPORT")
    if place:
        Path(place).write_text(table())


@pytest.fixture
def lakectl(server: LakeProcess, tmp_path: Path) -> Run:
    """Return a function that runs lakectl and returns its output, and notes the command."""
    program = Path(os.environ.get("LAKECTL") or TREE / f".matrix/lakectl/lakectl-{VERSION}")
    variables = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": KEY,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET,
        "LAKECTL_SERVER_ENDPOINT_URL": server.url,
        "NO_COLOR": "1",
    }

    def run(*words: str, status: int = 0, remark: str = "") -> str:
        ran = subprocess.run(
            [program, *words], env=variables, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ran.returncode == status, f"{words}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
        passed.append((_shape(words), remark))
        return ran.stdout + ran.stderr

    return run


@pytest.fixture
def shop(lakectl: Run, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A repository with a committed object, a/b.txt."""
    name = re.sub("[^a-z0-9]", "-", request.node.name.removeprefix("test_"))
    lakectl("repo", "create", f"lakefs://{name}", f"local://{name}")
    put(lakectl, tmp_path, f"lakefs://{name}/main/a/b.txt", "hello")
    lakectl("commit", f"lakefs://{name}/main", "-m", "first", "--meta", "by=me")
    return name


def _shape(words: tuple[str, ...]) -> str:
    """Return a command and its flags, without names: `fs upload -r -s`."""
    named = 2 if words[0] in GROUPS else 1
    return " ".join([*words[:named], *(word for word in words[named:] if word.startswith("-"))])


def put(lakectl: Run, folder: Path, place: str, text: str) -> None:
    (folder / "uploaded").write_text(text)
    lakectl("fs", "upload", "-s", "uploaded", place)


def table() -> str:
    rows: dict[str, str] = {}
    for command, remark in passed:
        rows[command] = rows.get(command) or remark
    lines = [f"| `{command}` | {remark or 'works'} |" for command, remark in sorted(rows.items())]
    return (
        "# lakectl with a lake\n\n"
        f"`make interop` builds lakectl {VERSION} from its Go module, runs these commands against a lake on a local "
        "folder, and writes this table. A command works if it does what the documentation of lakeFS says.\n\n"
        "| command | result |\n|---|---|\n" + "\n".join(lines) + "\n"
    )


def test_init(lakectl: Run) -> None:
    assert "Valid configuration" in lakectl("doctor")
    assert KEY in lakectl("identity")
    lakectl("repo", "create", "lakefs://quick", "local://quick", "--sample-data")
    assert "quick" in lakectl("repo", "list")
    assert "data/" in lakectl("fs", "ls", "lakefs://quick/main/")
    lakectl("repo", "create-bare", "lakefs://bare", "local://bare")
    lakectl("repo", "delete", "lakefs://quick", "-y")
    assert "quick" not in lakectl("repo", "list")


def test_objects(lakectl: Run, shop: str, tmp_path: Path) -> None:
    main = f"lakefs://{shop}/main/"
    assert "Checksum: 5d41402abc4b2a76b9719d911017c592" in lakectl("fs", "stat", main + "a/b.txt")
    assert lakectl("fs", "cat", main + "a/b.txt") == "hello"
    assert "common_prefix" in lakectl("fs", "ls", main)
    assert "a/b.txt" in lakectl("fs", "ls", "-r", main)
    (tmp_path / "folder/deep").mkdir(parents=True)
    (tmp_path / "folder/deep/1").write_text("1")
    (tmp_path / "folder/2").write_text("2")
    lakectl("fs", "upload", "-r", "-s", "folder", main + "one/")
    lakectl("fs", "upload", "-r", "--pre-sign", "-s", "folder", main + "two/")
    lakectl("fs", "download", main + "a/b.txt", "down")
    lakectl("fs", "download", "-r", "--pre-sign", main + "two/", "downs")
    assert ((tmp_path / "down").read_text(), (tmp_path / "downs/deep/1").read_text()) == ("hello", "1")
    assert lakectl("fs", "presign", main + "a/b.txt").startswith("http")
    lakectl("fs", "rm", main + "one/2")
    lakectl("fs", "rm", "-r", main + "two/")
    assert "+ added one/deep/1" in lakectl("diff", f"lakefs://{shop}/main")
    missing = lakectl("fs", "cat", main + "nothing", status=1)
    assert "object not found" in missing


def test_history(lakectl: Run, shop: str, tmp_path: Path) -> None:
    main = f"lakefs://{shop}/main"
    lakectl("branch", "create", f"lakefs://{shop}/dev", "-s", main)
    assert "dev" in lakectl("branch", "list", f"lakefs://{shop}")
    assert "Commit ID" in lakectl("branch", "show", f"lakefs://{shop}/dev")
    put(lakectl, tmp_path, f"lakefs://{shop}/dev/new", "new")
    lakectl("commit", f"lakefs://{shop}/dev", "-m", "second")
    assert "+ added new" in lakectl("diff", main, f"lakefs://{shop}/dev")
    assert "+ added new" in lakectl("diff", "--two-way", main, f"lakefs://{shop}/dev")
    lakectl("merge", f"lakefs://{shop}/dev", main)
    assert "Merge 'dev' into 'main'" in lakectl("log", main)
    assert "digraph" in lakectl("log", "--dot", main)
    assert "second" in lakectl("log", main, "--objects", "new")
    assert "Metadata" in lakectl("show", "commit", main + "~1")
    assert "first" in lakectl("annotate", "-r", main + "/")
    lakectl("tag", "create", f"lakefs://{shop}/v1", main)
    assert "v1" in lakectl("tag", "list", f"lakefs://{shop}")
    assert "v1" in lakectl("tag", "show", f"lakefs://{shop}/v1")
    lakectl("branch", "revert", main, "main", "--parent-number", "1", "-y")
    assert "new" not in lakectl("fs", "ls", main + "/")
    lakectl("cherry-pick", f"lakefs://{shop}/dev", main)
    assert "new" in lakectl("fs", "ls", main + "/")
    lakectl("tag", "delete", f"lakefs://{shop}/v1", "-y")
    lakectl("branch", "delete", f"lakefs://{shop}/dev", "-y")


def test_conflicts(lakectl: Run, shop: str, tmp_path: Path) -> None:
    main, dev = f"lakefs://{shop}/main", f"lakefs://{shop}/dev"
    lakectl("branch", "create", dev, "-s", main)
    for branch, text in ((main, "ours"), (dev, "theirs")):
        put(lakectl, tmp_path, f"{branch}/a/b.txt", text)
        lakectl("commit", branch, "-m", text)
    assert "Conflict found" in lakectl("merge", dev, main, status=1)
    lakectl("merge", dev, main, "--strategy", "dest-wins")
    assert lakectl("fs", "cat", f"{main}/a/b.txt") == "ours"
    put(lakectl, tmp_path, f"{dev}/a/b.txt", "again")
    lakectl("commit", dev, "-m", "again")
    lakectl("merge", dev, main, "--strategy", "source-wins", "--squash")
    assert lakectl("fs", "cat", f"{main}/a/b.txt") == "again"
    put(lakectl, tmp_path, f"{dev}/x/1", "1")
    lakectl("branch", "reset", dev, "--object", "x/1", "-y")
    put(lakectl, tmp_path, f"{dev}/x/1", "1")
    lakectl("branch", "reset", dev, "--prefix", "x/", "-y")
    lakectl("branch", "reset", dev, "-y")
    assert "x/1" not in lakectl("fs", "ls", "-r", dev + "/")


def test_rules(lakectl: Run, shop: str, tmp_path: Path) -> None:
    lakectl("branch-protect", "add", f"lakefs://{shop}", "main")
    assert "main" in lakectl("branch-protect", "list", f"lakefs://{shop}")
    (tmp_path / "uploaded").write_text("x")
    refused = lakectl("fs", "upload", "-s", "uploaded", f"lakefs://{shop}/main/x", status=1)
    assert "cannot write to protected branch" in refused
    lakectl("branch-protect", "delete", f"lakefs://{shop}", "main")
    (tmp_path / "gc.json").write_text('{"default_retention_days": 14, "branches": []}')
    lakectl("gc", "set-config", f"lakefs://{shop}", "-f", "gc.json")
    assert "14" in lakectl("gc", "get-config", f"lakefs://{shop}")
    lakectl("gc", "delete-config", f"lakefs://{shop}")


def test_local_folders(lakectl: Run, shop: str, tmp_path: Path) -> None:
    main = f"lakefs://{shop}/main/"
    lakectl("local", "clone", main, "clone")
    assert (tmp_path / "clone/a/b.txt").read_text() == "hello"
    (tmp_path / "clone/new").write_text("new")
    assert "new" in lakectl("local", "status", "clone")
    lakectl("local", "commit", "clone", "-m", "from here")
    put(lakectl, tmp_path, main + "remote", "remote")
    lakectl("commit", main.removesuffix("/"), "-m", "elsewhere")
    lakectl("local", "pull", "clone")
    assert (tmp_path / "clone/remote").read_text() == "remote"
    lakectl("local", "checkout", "clone", "-y", "--ref", f"lakefs://{shop}/main~1/")
    assert not (tmp_path / "clone/remote").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/x").write_text("x")
    lakectl("local", "init", main + "sub/", "mine")
    lakectl("local", "commit", "mine", "-m", "mine")
    assert lakectl("fs", "cat", main + "sub/x") == "x"
    assert "sub/" in lakectl("local", "list")


def test_bisect(lakectl: Run, shop: str, tmp_path: Path) -> None:
    main = f"lakefs://{shop}/main"
    for number in range(4):
        put(lakectl, tmp_path, f"{main}/n", str(number))
        lakectl("commit", main, "-m", f"n{number}")
    lakectl("bisect", "start", main, main + "~4")
    assert "n2" in lakectl("bisect", "view")
    lakectl("bisect", "bad")
    assert "Found commit" in lakectl("bisect", "good") + lakectl("bisect", "log")
    lakectl("bisect", "reset")


def test_imports(lakectl: Run, shop: str, server: LakeProcess) -> None:
    other = server.folder / "objects/other"
    other.mkdir(parents=True)
    (other / "e1").write_text("e1")
    place = f"lakefs://{shop}/main/"
    lakectl("import", "--from", "local://other/", "--to", place + "imported/", "-m", "import", "--no-progress")
    assert lakectl("fs", "cat", place + "imported/e1") == "e1"
    lakectl(
        "fs", "stage", place + "staged", "--location", "local://other/e1", "--size", "2", "--checksum", "c",
        remark="copies the bytes into the repository",
    )  # fmt: skip
    assert lakectl("fs", "cat", place + "staged") == "e1"


@pytest.mark.parametrize(
    "words", [("actions", "runs", "list"), ("auth", "users", "list"), ("refs-dump",)], ids=lambda words: words[0]
)
def test_what_is_not_there_says_so(lakectl: Run, shop: str, words: tuple[str, ...]) -> None:
    where = () if words[0] == "auth" else (f"lakefs://{shop}",)
    assert "not implemented" in lakectl(*words, *where, status=1, remark="501, with the next step")
