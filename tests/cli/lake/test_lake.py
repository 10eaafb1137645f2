"""`penstock lake`: what people do with a lake, against a real server."""

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.cli.failures import check_failure
from tests.cli.terminal import Golden
from tests.lake.rest.servers import KEY, SECRET, LakeProcess

from penstock.cli.main import run
from penstock.cli.writing import writes_data

Lake = Callable[..., tuple[int, str, str]]
PHASE = re.compile(r"waiting|gathering|performing|building( \d+ of \d+)?|\d+ objects? so far")  # if it takes its time


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeProcess]:
    with LakeProcess(tmp_path_factory.mktemp("lake")) as process:
        yield process


@pytest.fixture
def lake(
    server: LakeProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Lake:
    monkeypatch.setenv("PENSTOCK_LAKE_LISTEN", server.url.removeprefix("http://"))
    monkeypatch.setenv("PENSTOCK_LAKE_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("PENSTOCK_LAKE_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        status = run(["lake", *arguments])
        said = capsys.readouterr()
        return status, said.out, said.err

    return call


def behind_progress(err: str) -> list[str]:
    """Return a command's last lines, without the progress before them."""
    lines = err.splitlines()
    while lines and PHASE.fullmatch(lines[0]):
        lines.pop(0)
    return lines


def test_from_a_file_to_a_merged_commit(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prices.csv").write_text("kettle,39.90\n")
    assert lake("repo", "create", "shop") == (0, "lake://shop@main, with its objects in local://shop\n", "")
    assert lake("put", "prices.csv", "lake://shop@main/2026/")[0] == 0
    status, out, _ = lake("diff", "lake://shop@main")
    assert (status, out) == (0, "+ 2026/prices.csv\n")
    assert lake("commit", "lake://shop@main", "--message", "prices")[1].endswith(" prices\n")
    assert lake("branch", "create", "lake://shop@work")[0] == 0
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"from stdin")))
    assert lake("put", "-", "lake://shop@work/note")[0] == 0
    assert lake("commit", "lake://shop@work", "-m", "a note")[0] == 0
    assert lake("diff", "lake://shop@main", "lake://shop@work")[1] == "+ note\n"
    assert "Merge 'work' into 'main'" in lake("merge", "lake://shop@work", "main")[1]
    assert lake("cat", "lake://shop@main/note")[0] == 0
    listed = json.loads(lake("ls", "lake://shop@main", "--output", "json")[1])
    assert [each["path"] for each in listed] == ["2026/", "note"]
    logged = json.loads(lake("log", "lake://shop@main/note", "--output", "json")[1])
    assert [each["message"] for each in logged] == ["Merge 'work' into 'main'", "a note"]
    assert lake("revert", "lake://shop@main", "main", "--parent", "1")[0] == 0
    assert lake("tag", "create", "lake://shop@v1", "--source", "main~1")[0] == 0
    assert "v1" in lake("tag", "list", "lake://shop")[1]
    assert lake("rm", "lake://shop@main/2026/prices.csv")[0] == 0
    assert lake("branch", "reset", "lake://shop@main")[0] == 0
    assert "could go" in lake("gc", "lake://shop")[1]
    assert lake("gc", "lake://shop", "--sweep", "--grace", "0")[1].startswith("deleted 0 objects with 0 bytes; ")
    assert "all history is kept" in lake("retention", "show", "lake://shop")[1]
    assert lake("retention", "set", "lake://shop", "--days", "90", "--branch", "work=7")[0] == 0
    shown = lake("retention", "show", "lake://shop")
    rows = [line.split() for line in shown[1].splitlines()[2:]]
    assert rows == [["(any", "other)", "90"], ["work", "7"]], shown
    assert lake("retention", "set", "lake://shop", "--days", "0")[0] == 2
    assert lake("retention", "set", "lake://shop", "--days", "1", "--branch", "work")[0] == 2
    assert lake("retention", "clear", "lake://shop")[0] == 0
    assert "all history is kept" in lake("retention", "show", "lake://shop")[1]
    assert "no rules" in lake("protection", "list", "lake://shop")[1]
    assert lake("protection", "set", "lake://shop", "--branch", "main", "--branch", "v*=commit")[0] == 0
    rows = [line.split() for line in lake("protection", "list", "lake://shop")[1].splitlines()[2:]]
    assert rows == [["main", "staging_write,", "commit"], ["v*", "commit"]]
    status, _, told = lake("commit", "lake://shop@main", "-m", "no")
    assert (status, "cannot commit to protected branch main" in told) == (1, True)
    assert lake("protection", "set", "lake://shop", "--branch", "main=delete")[0] == 2
    assert lake("protection", "clear", "lake://shop")[0] == 0
    assert lake("repo", "create", "fixed", "--read-only")[0] == 0
    assert lake("branch", "create", "lake://fixed@work")[0] == 1
    assert lake("branch", "delete", "lake://shop@work")[0] == 0
    assert "work" not in lake("branch", "list", "lake://shop")[1]


def test_an_import_takes_what_is_in_the_store(lake: Lake, server: LakeProcess) -> None:
    folder = server.folder / "objects" / "elsewhere"
    folder.mkdir(parents=True)
    (folder / "one").write_bytes(b"1")
    assert lake("repo", "create", "imports")[0] == 0
    assert lake("import", "local://elsewhere/", "lake://imports@main/taken/")[1].endswith(" 1 object\n")
    assert "taken/one" in lake("ls", "-r", "lake://imports@main")[1]
    assert lake("import", "local://elsewhere/one", "lake://imports@main/alone/")[0] == 0  # as a file which is put
    assert lake("import", "local://elsewhere/one", "lake://imports@main")[0] == 0
    listed = json.loads(lake("ls", "-r", "lake://imports@main", "--output", "json")[1])
    assert [each["path"] for each in listed] == ["alone/one", "one", "taken/one"]


def test_an_import_which_is_interrupted_is_cancelled(
    lake: Lake, server: LakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = server.folder / "objects" / "many"
    folder.mkdir(parents=True)
    for number in range(3_000):
        (folder / str(number)).write_bytes(b"1")
    assert lake("repo", "create", "interrupted")[0] == 0
    before = lake("log", "lake://interrupted@main")

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("penstock.cli.lake.lake_wait.time.sleep", interrupt)
    assert lake("import", "local://many/", "lake://interrupted@main/a/") == (
        130,
        "",
        "the import was cancelled; nothing of it is on the branch\n",
    )
    assert lake("log", "lake://interrupted@main") == before


def test_an_import_which_takes_nothing_is_refused(lake: Lake, server: LakeProcess) -> None:
    folder = server.folder / "objects" / "somewhere"
    folder.mkdir(parents=True)
    (folder / "one").write_bytes(b"1")
    assert lake("repo", "create", "refused-imports")[0] == 0
    assert lake("import", "local://somewhere/", "lake://refused-imports@main/a/")[0] == 0
    before = lake("log", "lake://refused-imports@main")
    for source, why in {
        "local://misspelled/": "no object lies below 'local://misspelled/'",
        "local://somewhere/": "no changes",
        "local://somewhere/two": "no object 'somewhere/two'",
    }.items():
        status, out, err = lake("import", source, "lake://refused-imports@main/a/")
        assert (status, out, behind_progress(err)[:2]) == (1, "", [f"refused: {why}", "Nothing was written."])
    assert lake("import", "local://refused-imports/", "lake://refused-imports@main/a/")[0] == 2
    assert lake("log", "lake://refused-imports@main") == before


REFUSED = [
    "repo create golden",
    "repo create Golden",
    "repo delete lake://golden",
    "repo delete nothing",
    "put nothing.csv lake://golden@main/",
    "put . lake://golden@main/folder",
    "put file lake://golden/file",
    "put file lake://golden@nothing/file",
    "put file lake://golden@main~1/file",
    "put file lake://nothing@main/file",
    "cat lake://golden@main",
    "cat lake://golden@main/a/nothing",
    "cat lake://golden@nothing/a",
    "ls golden",
    "ls lake://golden@main --limit 0",
    "rm lake://golden@main/nothing",
    "rm lake://golden@main/a/",
    "diff lake://golden@main lake://other@main",
    "log lake://golden@main --limit -3",
    "log lake://golden@nothing",
    "commit lake://golden@main -m nothing",
    "commit lake://golden@v1 -m tag",
    "branch create lake://golden@work",
    "branch create lake://golden@other --source nothing",
    "branch delete lake://golden@main",
    "tag create lake://golden@v1",
    "tag delete lake://golden@nothing",
    "merge lake://golden@work main",
    "merge lake://golden@main work",
    "merge lake://golden@nothing main",
    "merge lake://golden@work lake://golden@main",
    "merge lake://golden@work main --strategy mine",
    "revert lake://golden@main nothing",
    "import local://misspelled/ lake://golden@main/taken/",
    "import local://golden/ lake://golden@main/taken/",
    "import s3://elsewhere/ lake://golden@main/taken/",
    "gc lake://nothing",
    "gc lake://golden --sweep --grace -1",
    "retention set lake://golden --days 0",
]


def test_every_refusal_has_three_parts(lake: Lake, golden: Golden, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    for done in (
        "repo create golden",
        "put file lake://golden@main/a/file",
        "commit lake://golden@main -m first",
        "branch create lake://golden@work",
        "tag create lake://golden@v1",
    ):
        assert lake(*done.split())[0] == 0
    assert lake("put", "file", "lake://golden@work/staged")[0] == 0
    text = ""
    for command in REFUSED:
        status, out, err = lake(*command.split())
        said = behind_progress(err)
        assert out == "", command
        assert said[0].startswith(("refused: ", "error: ")), err
        assert said[-1].startswith(("Next: ", "More: ")), err
        assert writes_data(["lake", *command.split()]) or "Nothing was written." not in said, err
        check_failure(err)
        text += "\n".join([f"$ penstock lake {command}", *said, f"[{status}]", "", ""])
    golden("lake-refusals", text)
    assert lake("log", "lake://golden@main", "--output", "json")[1].count('"first"') == 1


def test_a_first_commit_has_none_before_it(lake: Lake) -> None:
    assert lake("repo", "create", "first")[0] == 0
    first = json.loads(lake("log", "lake://first@main", "--output", "json")[1])[0]["id"]
    for expression in ("main~", "main~7", "main^1"):
        assert lake("log", f"lake://first@{expression}")[2] == (
            f"refused: commit {first} is the first of all: nothing came before it\n"
            "Next: run penstock lake log with the ref alone to see how far back it goes\n"
        )
    assert lake("commit", "lake://first@main", "-m", "second", "--allow-empty")[0] == 0
    second = json.loads(lake("log", "lake://first@main", "--output", "json")[1])[0]["id"]
    assert f"refused: commit {second} has 1 parent, and no number 2\n" in lake("log", "lake://first@main^2")[2]


def test_refusals_come_in_words(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lake("repo", "create", "words")[0] == 0
    status, _, err = lake("repo", "create", "words")
    assert (status, "already exists" in err) == (1, True)
    status, _, err = lake("commit", "lake://words@main", "-m", "nothing")
    assert (status, "no changes" in err) == (1, True)
    monkeypatch.setenv("PENSTOCK_LAKE_SECRET_ACCESS_KEY", "wrong")
    status, _, err = lake("repo", "list")
    assert (status, "error authenticating request" in err) == (1, True)


def test_a_lake_begins_again_without_its_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with LakeProcess(tmp_path / "data") as server:
        assert server.call("POST", "/repositories", b'{"name": "shop", "storage_namespace": ""}')[0] == 201
    monkeypatch.setenv("PENSTOCK_DATA_FOLDER", str(tmp_path / "data"))
    assert run(["lake", "recover", "--into", "second"]) == 0
    assert capsys.readouterr().out.startswith("queue second begins at position ")
    with LakeProcess(tmp_path / "data", "--alone", "--shard", "second") as server:
        assert server.call("GET", "/repositories/shop")[0] == 200
    assert run(["lake", "recover", "--into", "second"]) == 1
    assert run(["lake", "recover", "--shard", "none", "--into", "third"]) == 1
    assert "queue none has no checkpoint" in capsys.readouterr().err
