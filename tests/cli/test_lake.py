"""`penstock lake`: what people do with a lake, against a real server."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.web.lake.servers import KEY, SECRET, LakeProcess

from penstock.cli.main import run

Lake = Callable[..., tuple[int, str, str]]


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
    assert "0 objects with 0 bytes are deleted" in lake("gc", "lake://shop", "--sweep", "--grace", "0")[1]
    assert "all history is kept" in lake("retention", "show", "lake://shop")[1]
    assert lake("retention", "set", "lake://shop", "--days", "90", "--branch", "work=7")[0] == 0
    shown = lake("retention", "show", "lake://shop")
    rows = [line.split() for line in shown[1].splitlines()[2:]]
    assert rows == [["(any", "other)", "90"], ["work", "7"]], shown
    assert lake("retention", "set", "lake://shop", "--days", "0")[0] == 2
    assert lake("retention", "set", "lake://shop", "--days", "1", "--branch", "work")[0] == 2
    assert lake("retention", "clear", "lake://shop")[0] == 0
    assert "all history is kept" in lake("retention", "show", "lake://shop")[1]
    assert lake("branch", "delete", "lake://shop@work")[0] == 0
    assert "work" not in lake("branch", "list", "lake://shop")[1]


def test_an_import_takes_what_is_in_the_store(lake: Lake, server: LakeProcess) -> None:
    folder = server.folder / "objects" / "elsewhere"
    folder.mkdir(parents=True)
    (folder / "one").write_bytes(b"1")
    assert lake("repo", "create", "imports")[0] == 0
    assert lake("import", "local://elsewhere/", "lake://imports@main/taken/")[1].endswith(" 1 objects\n")
    assert "taken/one" in lake("ls", "-r", "lake://imports@main")[1]
    assert lake("import", "local://elsewhere/one", "lake://imports@main/alone/")[0] == 0  # as a file which is put
    assert lake("import", "local://elsewhere/one", "lake://imports@main")[0] == 0
    listed = json.loads(lake("ls", "-r", "lake://imports@main", "--output", "json")[1])
    assert [each["path"] for each in listed] == ["alone/one", "one", "taken/one"]


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
        assert (status, out, err.splitlines()[:2]) == (1, "", [f"refused: {why}", "Nothing was written."])
    assert lake("import", "local://refused-imports/", "lake://refused-imports@main/a/")[0] == 2
    assert lake("log", "lake://refused-imports@main") == before


def test_refusals_come_in_words(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lake("repo", "create", "words")[0] == 0
    status, _, err = lake("repo", "create", "words")
    assert (status, "already exists" in err) == (1, True)
    status, _, err = lake("commit", "lake://words@main", "-m", "nothing")
    assert (status, "no changes" in err) == (1, True)
    assert lake("cat", "lake://words@main")[0] == 2
    assert lake("ls", "words")[0] == 2
    monkeypatch.setenv("PENSTOCK_LAKE_SECRET_ACCESS_KEY", "wrong")
    status, _, err = lake("repo", "list")
    assert (status, "error authenticating request" in err) == (1, True)
