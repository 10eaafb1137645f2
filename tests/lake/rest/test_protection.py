"""Protected branches and read-only repositories on the wire, and lakeFS's words for refusals."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.lake.rest.servers import KEY, SECRET, LakeProcess
from tests.lake.s3.conftest import client_of


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeProcess]:
    with LakeProcess(tmp_path_factory.mktemp("lake")) as process:
        yield process


def ask(server: LakeProcess, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    status, _, data = server.call(method, path, b"" if body is None else json.dumps(body).encode(), **headers)
    return status, json.loads(data) if data[:1] in (b"{", b"[") else data


def make(server: LakeProcess, name: str, **more: object) -> str:
    status, answer = ask(server, "POST", "/repositories", {"name": name, "storage_namespace": "", **more})
    assert status == 201, answer
    assert answer["read_only"] is bool(more.get("read_only"))
    return f"/repositories/{name}"


def test_a_protected_branch_changes_by_merges_alone(server: LakeProcess) -> None:
    shop = make(server, "protected")
    assert server.call("POST", f"{shop}/branches/main/objects?path=a", b"1")[0] == 201
    rules = [{"pattern": "ma*"}]
    assert ask(server, "PUT", f"{shop}/settings/branch_protection", rules)[0] == 204
    status, headers, data = server.call("GET", f"{shop}/settings/branch_protection")
    assert (status, json.loads(data)) == (200, [{"pattern": "ma*", "blocks": ["staging_write", "commit"]}])
    for method, path, body in (
        ("POST", "objects?path=b", "2"),
        ("DELETE", "objects?path=a", None),
        ("POST", "objects/delete", {"paths": ["a"]}),
        ("POST", "objects/copy?dest_path=c", {"src_path": "a"}),
        ("GET", "staging/backing?path=b", None),
        ("PUT", "", {"type": "reset"}),
    ):
        status, answer = ask(server, method, f"{shop}/branches/main/{path}".rstrip("/"), body)
        assert status == 403, (method, path, answer)
        assert answer["message"].startswith("cannot write to protected branch main (next: "), answer
    status, answer = ask(server, "POST", f"{shop}/branches/main/commits", {"message": "no"})
    assert (status, answer["message"].split(" (")[0]) == (403, "cannot commit to protected branch main")
    assert ask(server, "POST", f"{shop}/branches", {"name": "work", "source": "main"})[0] == 201
    assert server.call("POST", f"{shop}/branches/work/objects?path=b", b"2")[0] == 201
    assert ask(server, "POST", f"{shop}/branches/work/commits", {"message": "work"})[0] == 201
    # The put before the rule stays staged, and a merge refuses a dirty branch.
    status, answer = ask(server, "POST", f"{shop}/refs/work/merge/main")
    refusal = "uncommitted changes (dirty branch) (next: commit the changes of the branch, or reset it)"
    assert (status, answer["message"]) == (400, refusal)
    etag = headers["etag"]
    assert ask(server, "PUT", f"{shop}/settings/branch_protection", [], if_match="")[0] == 412
    assert ask(server, "PUT", f"{shop}/settings/branch_protection", [], if_match=etag)[0] == 204
    assert ask(server, "PUT", f"{shop}/branches/main", {"type": "reset"})[0] == 204
    assert ask(server, "PUT", f"{shop}/settings/branch_protection", rules, if_match="")[0] == 204
    assert ask(server, "POST", f"{shop}/refs/work/merge/main")[0] == 200
    status, answer = ask(server, "PUT", f"{shop}/settings/branch_protection", [{"pattern": "{a,b}"}])
    assert status == 400, answer


def test_the_s3_door_keeps_the_rules(server: LakeProcess) -> None:
    shop = make(server, "behind-s3")
    ask(server, "PUT", f"{shop}/settings/branch_protection", [{"pattern": "main", "blocks": ["staging_write"]}])
    make(server, "fixed-s3", read_only=True)
    s3 = client_of(server.url, key=KEY, secret=SECRET)
    for bucket, words in (("behind-s3", "protected branch"), ("fixed-s3", "read-only")):
        for call, more in ((s3.put_object, {"Body": b"x"}), (s3.delete_object, {})):
            with pytest.raises(ClientError, match=words) as refused:
                call(Bucket=bucket, Key="main/a", **more)
            assert refused.value.response["Error"]["Code"] == "AccessDenied"
            assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
        upload = s3.create_multipart_upload(Bucket=bucket, Key="main/b")["UploadId"]
        s3.upload_part(Bucket=bucket, Key="main/b", UploadId=upload, PartNumber=1, Body=b"x")
        parts = {"Parts": [{"PartNumber": 1, "ETag": hashlib.md5(b"x").hexdigest()}]}
        with pytest.raises(ClientError, match=words):
            s3.complete_multipart_upload(Bucket=bucket, Key="main/b", UploadId=upload, MultipartUpload=parts)
    s3.close()


def test_a_read_only_repository_is_refused_at_every_door(server: LakeProcess) -> None:
    fixed = make(server, "fixed", read_only=True, sample_data=True)
    head = ask(server, "GET", f"{fixed}/branches/main")[1]["commit_id"]
    changes: list[tuple[str, str, object]] = [
        ("POST", "/branches/main/objects?path=a", "1"),
        ("DELETE", "/branches/main/objects?path=README.md", None),
        ("POST", "/branches/main/objects/delete", {"paths": ["README.md"]}),
        ("POST", "/branches/main/objects/copy?dest_path=c", {"src_path": "README.md"}),
        ("GET", "/branches/main/staging/backing?path=b", None),
        ("POST", "/branches/main/commits", {"message": "no", "allow_empty": True}),
        ("POST", "/branches/main/revert", {"ref": head}),
        ("POST", "/branches/main/cherry-pick", {"ref": head}),
        ("POST", "/refs/main~1/merge/main", None),
        ("PUT", "/branches/main", {"type": "reset"}),
        ("PUT", f"/branches/main/hard_reset?ref={head}", None),
        ("POST", "/branches", {"name": "work", "source": "main"}),
        ("POST", "/tags", {"id": "v1", "ref": "main"}),
        ("PUT", "/branches/main/sinks", {"sink": "s", "query": "q", "batch": 1}),
        ("DELETE", "", None),
    ]
    for method, path, body in changes:
        status, answer = ask(server, method, fixed + path, body)
        assert status == 403, (method, path, answer)
        assert answer["message"].startswith("read-only repository"), answer
    assert ask(server, "GET", f"{fixed}/branches/main")[1]["commit_id"] == head
    assert ask(server, "POST", f"{fixed}/tags", {"id": "v1", "ref": "main", "force": True})[0] == 201
    assert server.call("POST", f"{fixed}/branches/main/objects?path=a&force=true", b"1")[0] == 201
    assert ask(server, "POST", f"{fixed}/branches/main/commits", {"message": "yes", "force": True})[0] == 201
    assert ask(server, "DELETE", f"{fixed}?force=true")[0] == 204


def test_an_import_into_a_read_only_repository_fails_by_name(server: LakeProcess) -> None:
    fixed = make(server, "fixed-import", read_only=True)
    body = {
        "paths": [{"path": "local://outside/", "destination": "", "type": "common_prefix"}],
        "commit": {"message": "in"},
    }
    status, answer = ask(server, "POST", f"{fixed}/branches/main/import", body)
    while status == 202:
        import_id = answer["id"]
        _, shown = ask(server, "GET", f"{fixed}/branches/main/import?id={import_id}")
        if shown.get("error"):
            assert shown["error"]["message"].startswith("read-only repository")
            return
        assert not shown["completed"]
    assert status == 403, answer


def test_refusals_have_the_words_of_lakefs_and_a_next_step(server: LakeProcess) -> None:
    shop = make(server, "words")
    server.call("POST", f"{shop}/branches/main/objects?path=a", b"1")
    first = ask(server, "POST", f"{shop}/branches/main/commits", {"message": "first"})[1]
    assert first["committer"] == KEY == ask(server, "GET", "/user")[1]["user"]["id"]
    for name, data in (("left", b"2"), ("right", b"3")):
        ask(server, "POST", f"{shop}/branches", {"name": name, "source": "main"})
        server.call("POST", f"{shop}/branches/{name}/objects?path=a", data)
        ask(server, "POST", f"{shop}/branches/{name}/commits", {"message": name})
    told = {
        ("GET", "/repositories/none"): (404, "repository not found: "),
        ("GET", f"{shop}/branches/none"): (404, "branch not found: "),
        ("GET", f"{shop}/tags/none"): (404, "tag not found: "),
        ("GET", f"{shop}/refs/main/objects/stat?path=none"): (404, "object not found: "),
        ("POST", f"{shop}/refs/left/merge/right"): (409, "conflict found: "),
        ("DELETE", f"{shop}/branches/main"): (403, "cannot delete repository default branch"),
        ("POST", f"{shop}/actions/runs"): (405, ""),
        ("GET", f"{shop}/actions/runs"): (501, "not implemented: this lake has no actions and hooks (next: "),
        ("GET", "/auth/users/me"): (501, "not implemented: this lake has no users and groups"),
    }
    for (method, path), (expected, words) in told.items():
        status, answer = ask(server, method, path)
        assert (status, answer["message"][: len(words)]) == (expected, words)
    status, answer = ask(server, "POST", f"{shop}/branches", {"name": "left", "source": "main"})
    assert (status, answer["message"]) == (409, "not unique: branch left already exists")


def test_what_clients_ask_at_their_start(server: LakeProcess) -> None:
    status, found = ask(server, "GET", "/setup_lakefs")
    assert (status, found["state"], found["login_config"]["RBAC"]) == (200, "initialized", "none")
    _, config = ask(server, "GET", "/config")
    assert config["storage_config_list"] == [config["storage_config"]]
    assert ask(server, "GET", "/config/storage") == (200, config["storage_config"])
    assert ask(server, "POST", "/statistics", {"events": []})[0] == 204
