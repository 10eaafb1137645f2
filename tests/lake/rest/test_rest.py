"""lakeFS's REST API as it stands on the wire: ranges, conditions, tokens, pages, work in the background."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.lake.rest.servers import KEY, SECRET, LakeProcess

MAIN = "/repositories/rest/branches/main"
REF = "/repositories/rest/refs/main"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeProcess]:
    with LakeProcess(tmp_path_factory.mktemp("lake")) as process:
        status, _, _ = process.call(
            "POST", "/repositories", b'{"name": "rest", "storage_namespace": "local://rest"}', content_type="x/json"
        )
        assert status == 201
        yield process


def put(server: LakeProcess, path: str, data: bytes, **headers: str) -> int:
    status, _, _ = server.call("POST", f"{MAIN}/objects?path={path}", data, **headers)
    return status


def answer(server: LakeProcess, method: str, path: str, body: object = None, expected: int = 200) -> Any:
    status, _, data = server.call(method, path, b"" if body is None else json.dumps(body).encode())
    assert status == expected, data
    return json.loads(data)


def test_ranges(server: LakeProcess) -> None:
    assert put(server, "ten", b"0123456789", content_type="text/plain", x_lakefs_meta_color="blue") == 201
    status, headers, data = server.call("GET", f"{REF}/objects?path=ten", range="bytes=2-4")
    assert (status, headers["content-range"], data) == (206, "bytes 2-4/10", b"234")
    assert server.call("GET", f"{REF}/objects?path=ten", range="bytes=-3")[2] == b"789"
    status, headers, _ = server.call("GET", f"{REF}/objects?path=ten", range="bytes=10-")
    assert (status, headers["content-range"]) == (416, "bytes */10")
    status, headers, data = server.call("HEAD", f"{REF}/objects?path=ten")
    assert (status, headers["content-length"], headers["content-type"], data) == (200, "10", "text/plain", b"")
    assert headers["x-lakefs-meta-color"] == "blue"
    assert server.call("GET", f"{REF}/objects?path=ten", if_none_match=headers["etag"])[0] == 304


def test_an_object_of_many_chunks_comes_back_whole(server: LakeProcess) -> None:
    data = bytes(range(256)) * 40_000  # above what is put and read in one piece
    assert put(server, "large", data) == 201
    assert server.call("GET", f"{REF}/objects?path=large")[2] == data
    assert server.call("GET", f"{REF}/objects?path=large", range="bytes=300-9000000")[2] == data[300:9000001]


def test_conditional_uploads(server: LakeProcess) -> None:
    assert put(server, "once", b"1", if_none_match="*") == 201
    assert put(server, "once", b"2", if_none_match="*") == 412
    _, headers, _ = server.call("HEAD", f"{REF}/objects?path=once")
    assert put(server, "once", b"3", if_match=headers["etag"]) == 201
    assert put(server, "once", b"4", if_match=headers["etag"]) == 412
    assert put(server, "once", b"5", if_none_match='"abc"') == 501


def test_a_form_is_an_upload_too(server: LakeProcess) -> None:
    form = b'--b\r\nContent-Disposition: form-data; name="content"; filename="f"\r\n\r\nin a form\r\n--b--\r\n'
    assert put(server, "form", form, content_type="multipart/form-data; boundary=b") == 201
    assert server.call("GET", f"{REF}/objects?path=form")[2] == b"in a form"


def test_tokens_are_as_good_as_the_key_and_nothing_else_is(server: LakeProcess) -> None:
    body = {"access_key_id": KEY, "secret_access_key": SECRET}
    token = answer(server, "POST", "/auth/login", body)["token"]
    assert server.call("GET", "/repositories", authorization=f"Bearer {token}")[0] == 200
    for wrong in ("", "Bearer 1.2", f"Bearer 9{token}", "Basic eA==", "Basic !", "Nonsense"):
        assert server.call("GET", "/repositories", authorization=wrong)[0] == 401
    assert server.call("POST", "/auth/login", b'{"access_key_id": "x", "secret_access_key": "y"}')[0] == 401
    assert server.call("GET", "/healthcheck", authorization="")[0] == 204


def test_pages_end_with_what_comes_next(server: LakeProcess) -> None:
    for number in range(3):
        answer(server, "POST", "/repositories/rest/tags", {"id": f"page-{number}", "ref": "main"}, 201)
    first = answer(server, "GET", "/repositories/rest/tags?prefix=page-&amount=2")
    assert [each["id"] for each in first["results"]] == ["page-0", "page-1"]
    assert first["pagination"] == {"has_more": True, "next_offset": "page-1", "results": 2, "max_per_page": 1000}
    second = answer(server, "GET", "/repositories/rest/tags?prefix=page-&amount=2&after=page-1")
    assert ([each["id"] for each in second["results"]], second["pagination"]["has_more"]) == (["page-2"], False)


def test_a_commit_in_the_background_tells_how_far_it_is(server: LakeProcess) -> None:
    server.call("POST", "/repositories/rest/branches", b'{"name": "slow", "source": "main"}')
    slow = "/repositories/rest/branches/slow"
    assert server.call("POST", f"{slow}/objects?path=x", b"x")[0] == 201
    work = answer(server, "POST", f"{slow}/commits/async", {"message": "slowly"}, 202)["id"]
    while not (status := answer(server, "GET", f"{slow}/commits/async/{work}"))["completed"]:
        assert status["progress"]["phase"]
    assert status["result"]["message"] == "slowly"
    failed = answer(server, "POST", f"{slow}/commits/async", {"message": "nothing"}, 202)["id"]
    while not (status := answer(server, "GET", f"{slow}/commits/async/{failed}"))["completed"]:
        pass
    assert (status["error"]["message"], status["error"]["penstock"]["code"]) == ("no changes", "no-changes")
    base = answer(server, "GET", "/repositories/rest/refs/slow/merge/main")
    assert base["base_commit_id"] == answer(server, "GET", "/repositories/rest/commits/slow~1")["id"]


def test_two_phases_of_an_upload(server: LakeProcess) -> None:
    place = answer(server, "GET", f"{MAIN}/staging/backing?path=phased")["physical_address"]
    (server.folder / "objects" / place.removeprefix("local://")).parent.mkdir(parents=True, exist_ok=True)
    (server.folder / "objects" / place.removeprefix("local://")).write_bytes(b"uploaded aside")
    body = {"staging": {"physical_address": place}, "checksum": "c", "size_bytes": 14}
    assert answer(server, "PUT", f"{MAIN}/staging/backing?path=phased", body)["checksum"] == "c"
    assert server.call("GET", f"{REF}/objects?path=phased")[2] == b"uploaded aside"
    assert server.call("PUT", f"{MAIN}/staging/backing?path=other", json.dumps(body).encode())[0] == 400


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nowhere", b"", 404),
        ("PATCH", "/repositories", b"", 405),
        ("POST", "/repositories", b"{", 400),
        ("POST", "/repositories", b'{"name": "X", "storage_namespace": "local://x"}', 400),
        ("GET", f"{REF}/objects", b"", 400),
        ("GET", f"{REF}/objects?path=%ff", b"", 400),
        ("GET", "/repositories/rest/refs/main~~~/objects/ls?amount=x", b"", 400),
        ("GET", "/repositories/rest/commits/main~99", b"", 404),
        ("PUT", MAIN, b'{"type": "everything"}', 400),
        ("DELETE", MAIN, b"", 403),
        ("POST", f"{MAIN}/revert", b'{"ref": "nowhere", "parent_number": 0}', 404),
    ],
)
def test_bad_requests_are_answered_in_words(
    server: LakeProcess, method: str, path: str, body: bytes, status: int
) -> None:
    got, _, data = server.call(method, path, body)
    assert got == status, data
    assert json.loads(data)["message"]
