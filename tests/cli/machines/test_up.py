"""`penstock up` and `down`: every role in one process, found without flags, and nothing lost by kill -9."""

import json
import signal
import urllib.request
from pathlib import Path

import lakefs
import pytest
from lakefs.client import Client
from tests.cli.ups import UpProcess
from tests.lake.rest.servers import KEY, SECRET, LakeProcess

from penstock.cli.main import run

SHOP = Path(__file__).parents[3] / "examples" / "shop.yaml"


def client_of(process: UpProcess) -> Client:
    return Client(host=process.running.lake, username=KEY, password=SECRET)


def append(process: UpProcess, name: str, content: bytes) -> None:
    request = urllib.request.Request(f"{process.running.lake}/journal/shop/{name}", content, method="PUT")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 204


def a_lake_may_have_a_journal_as_its_queue(folder: Path, process: UpProcess) -> None:
    """A process of its own, on a journal of that broker; killed and started again, it has all acknowledged data."""
    (folder / "queue.yaml").write_text("journals: [{name: lake/queue, replication: 1}]")
    assert run(["journals", "apply", str(folder / "queue.yaml")]) == 0
    with LakeProcess(folder / "lake", "--journal", "lake/queue", "--broker", process.running.broker) as lake:
        made = b'{"name": "farm", "storage_namespace": ""}'
        assert lake.call("POST", "/repositories", made, content_type="application/json")[0] == 201
        path = "/repositories/farm/branches/main/objects?path=cow"
        assert lake.call("POST", path, b"moo", content_type="application/octet-stream")[0] == 201
        lake.kill()
        lake.start()
        assert lake.call("GET", "/repositories/farm/refs/main/objects?path=cow")[::2] == (200, b"moo")


def the_status_is_true(process: UpProcess, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["status"]) == 0
    shown = capsys.readouterr().out
    assert "1 of 1 machine" in shown
    assert "node* broker lake" in shown
    assert "all well" in shown
    assert run(["status", "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (machine,) = found["machines"]
    assert (found["state"], machine["state"], machine["lake_url"]) == ("ok", "ok", process.running.lake)
    with urllib.request.urlopen(f"{process.running.lake}/healthz", timeout=30) as answer:
        served = {each["check"] for each in json.loads(answer.read())["checks"]}
    assert (
        served == {each["check"] for each in machine["checks"]} >= {"role", "journal.disk", "log.leader", "lake.queue"}
    )
    assert run(["doctor"]) == 0
    assert "1 machine, all well" in capsys.readouterr().out
    assert run(["status", "--machine", "127.0.0.1:1"]) == 1
    assert "no machine answers" in capsys.readouterr().err


def test_every_role_serves_and_what_was_acknowledged_survives_kill_9(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hello").write_text("hello")
    monkeypatch.chdir(tmp_path)  # where the command line finds it by itself, in ./penstock-data
    monkeypatch.setenv("PENSTOCK_LAKE_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("PENSTOCK_LAKE_SECRET_ACCESS_KEY", SECRET)
    with UpProcess(tmp_path / "penstock-data") as process:
        assert "Try it in another terminal" in process.said
        the_status_is_true(process, capsys)
        assert run(["journals", "apply", str(SHOP)]) == 0  # they ask for 3 replicas, and get what there is
        (tmp_path / "alone.yaml").write_text("journals: [{name: shop/alone, replication: 1}]")
        assert run(["journals", "apply", "alone.yaml"]) == 0
        for name in ("orders", "alone"):
            append(process, name, b"hello")
        assert run(["quorum", "status"]) == 0
        assert run(["lake", "repo", "create", "shop"]) == 0
        main = lakefs.Repository("shop", client=client_of(process)).branch("main")
        with main.transact(commit_message="from lakeFS's own package") as changes:
            changes.object("prices.csv").upload(data=b"kettle,36.90\n")
        assert run(["lake", "put", "hello", "lake://shop@main/"]) == 0
        assert run(["lake", "commit", "lake://shop@main", "-m", "hello"]) == 0
        a_lake_may_have_a_journal_as_its_queue(tmp_path, process)
        process.signal(signal.SIGKILL)

        process.start()
        assert "Try it" not in process.said  # the folder has data
        for name in ("orders", "alone"):
            append(process, name, b", again")
            with urllib.request.urlopen(f"{process.running.lake}/journal/shop/{name}", timeout=30) as answer:
                assert answer.read() == b"hello, again"
        main = lakefs.Repository("shop", client=client_of(process)).branch("main")
        assert next(iter(main.log(max_amount=1))).message == "hello"
        assert main.object("prices.csv").reader().read() == b"kettle,36.90\n"
        capsys.readouterr()
        assert run(["lake", "cat", "lake://shop@main/hello"]) == 0
        assert run(["up"]) == 1
        assert "another process runs in" in capsys.readouterr().err
        assert run(["down"]) == 0
        assert "stopped" in capsys.readouterr().err
        process.ended()
        assert process.said.endswith("stopping …\n")
        assert run(["down"]) == 1
        assert "no server is running in" in capsys.readouterr().err
