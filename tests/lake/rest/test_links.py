"""Links of a lake whose store signs nothing: reads, uploads, uploads in parts; and metadata of lakectl and S3."""

import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import lakefs
import pytest
from lakefs.client import Client
from tests.lake.rest.clocks import ClockAt
from tests.lake.rest.servers import KEY, SECRET, LakeProcess
from tests.lake.s3.conftest import client_of

from penstock.kernel.errors import Forbidden
from penstock.lake.rest.links import LINK_S, RequestLinks
from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.protocol.incoming import Incoming
from penstock.plumbing.http.request import Request

SHOP = "/repositories/linked"
MAIN, REF = f"{SHOP}/branches/main", f"{SHOP}/refs/main"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeProcess]:
    with LakeProcess(tmp_path_factory.mktemp("lake")) as process:
        assert ask(process, "POST", "/repositories", {"name": "linked", "storage_namespace": ""})[0] == 201
        yield process


def ask(server: LakeProcess, method: str, path: str, body: object = None) -> tuple[int, Any]:
    status, _, data = server.call(method, path, b"" if body is None else json.dumps(body).encode())
    return status, json.loads(data) if data[:1] in (b"{", b"[") else data


def open_link(url: str, method: str = "GET", data: bytes | None = None, **headers: str) -> tuple[int, Any, bytes]:
    """Follow a link as a browser does: without keys."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def test_a_link_reads_the_version_that_it_was_made_for(server: LakeProcess) -> None:
    server.call("POST", f"{MAIN}/objects?path=a%20b.txt", b"0123456789", content_type="text/plain")
    _, stat = ask(server, "GET", f"{REF}/objects/stat?path=a%20b.txt&presign=true")
    url = stat["physical_address"]
    assert url.startswith(server.url)
    server.call("POST", f"{MAIN}/objects?path=a%20b.txt", b"another")
    status, headers, data = open_link(url)
    assert (status, data, headers["content-type"]) == (200, b"0123456789", "text/plain")
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert open_link(url, range="bytes=2-4")[2] == b"234"
    assert open_link(url, "HEAD")[1]["content-length"] == "10"
    status, headers, _ = server.call("GET", f"{REF}/objects?path=a%20b.txt&presign=true")
    assert status == 302
    assert open_link(headers["location"])[2] == b"another"
    _, listed = ask(server, "GET", f"{REF}/objects/ls?presign=true&prefix=a")
    assert open_link(listed["results"][0]["physical_address"])[2] == b"another"


def test_a_link_is_good_for_its_own_request(server: LakeProcess) -> None:
    server.call("POST", f"{MAIN}/objects?path=own", b"own")
    url = ask(server, "GET", f"{REF}/objects/stat?path=own&presign=true")[1]["physical_address"]
    place = ask(server, "GET", f"{MAIN}/staging/backing?path=own&presign=true")[1]["presigned_url"]
    wrong = [
        (url.replace("path=own", "path=other"), "GET", None),
        (url.replace("link-ends=", "link-ends=9"), "GET", None),
        (url[:-1], "GET", None),
        (url.rpartition("&")[0], "GET", None),
        (url, "PUT", b"x"),
        (place, "GET", None),
        (place.replace("path=own", "path=other"), "PUT", b"x"),
    ]
    for link, method, data in wrong:
        assert open_link(link, method, data)[0] in (401, 403, 405), link
    # With keys, too, bytes are named by links alone.
    assert server.call("GET", f"{SHOP}/content?path=own&address=data/x&size=3")[0] == 403


def test_a_link_ends() -> None:
    def request(target: str) -> Request:
        path, _, query = target.partition("?")
        return Request("GET", path, query, [(b"host", b"lake")], Incoming(), HttpLimits(), "1")

    clock = ClockAt(1000)
    url, ends_at = RequestLinks("a", clock).make(request("/"), "GET", "/x", path="p")
    assert ends_at == 1000 + LINK_S
    same = request(url.removeprefix("http://lake"))
    assert RequestLinks("a", clock).holds(same)
    with pytest.raises(Forbidden, match="does not fit"):
        RequestLinks("b", clock).holds(same)
    clock.now_s = ends_at
    with pytest.raises(Forbidden, match="has ended"):
        RequestLinks("a", clock).holds(same)


def test_an_upload_by_a_link(server: LakeProcess) -> None:
    _, place = ask(server, "GET", f"{MAIN}/staging/backing?path=new&presign=true")
    status, headers, _ = open_link(place["presigned_url"], "PUT", b"by a link")
    assert (status, headers["etag"]) == (200, f'"{hashlib.md5(b"by a link").hexdigest()}"')
    assert ask(server, "GET", f"{REF}/objects/stat?path=new")[0] == 404
    body = {
        "staging": place,
        "checksum": headers["etag"],
        "size_bytes": 9,
        "user_metadata": {"X-Amz-Meta-Color": "red"},
    }
    status, made = ask(server, "PUT", f"{MAIN}/staging/backing?path=new", body)
    assert (status, made["metadata"]) == (200, {"color": "red"})
    assert server.call("GET", f"{REF}/objects?path=new")[2] == b"by a link"


def test_an_upload_in_parts_by_links(server: LakeProcess) -> None:
    first, second = b"a" * (5 << 20), b"the end"
    status, begun = ask(server, "POST", f"{MAIN}/staging/pmpu?path=parts&parts=1")
    assert status == 201
    place = f"{MAIN}/staging/pmpu/{begun['upload_id']}"
    given = {"physical_address": begun["physical_address"]}
    _, more = ask(server, "PUT", f"{place}/parts/2?path=parts", given)
    links = [*begun["presigned_urls"], more["presigned_url"]]
    etags = [open_link(link, "PUT", data)[1]["etag"] for link, data in zip(links, (first, second), strict=True)]
    parts = [{"part_number": number, "etag": etag} for number, etag in enumerate(etags, 1)]
    wrong = [parts[0], {"part_number": 2, "etag": "other"}]
    assert ask(server, "PUT", f"{place}?path=parts", {**given, "parts": wrong})[0] == 400
    assert ask(server, "PUT", f"{place}?path=parts", {**given, "parts": [{"part_number": 3, "etag": "x"}]})[0] == 404
    status, made = ask(server, "PUT", f"{place}?path=parts", {**given, "parts": parts, "content_type": "text/plain"})
    assert (status, made["size_bytes"], made["checksum"][-2:]) == (200, len(first) + len(second), "-2")
    assert server.call("GET", f"{REF}/objects?path=parts", range="bytes=-8")[2] == b"athe end"
    assert ask(server, "DELETE", place, given)[0] == 204
    assert ask(server, "PUT", f"{place}/parts/0?path=parts", given)[0] == 400
    assert ask(server, "PUT", f"{place}/parts/1/copy?path=parts", given)[0] == 501


def test_the_package_of_lakefs_uses_the_links(server: LakeProcess) -> None:
    main = lakefs.Repository("linked", client=Client(host=server.url, username=KEY, password=SECRET)).branch("main")
    made = main.object("wrapper").upload(b"by lakefs", pre_sign=True)
    assert made.stat(pre_sign=True).physical_address.startswith(server.url)
    for pre_sign in (True, False):
        with made.reader(pre_sign=pre_sign) as reader:
            assert reader.read() == b"by lakefs"


def test_times_and_permissions_of_files_stay(server: LakeProcess) -> None:
    headers = {"x_lakefs_internal_client_mtime": "1700000000", "x_lakefs_meta_x_amz_meta_Color": "blue"}
    status, _, data = server.call("POST", f"{MAIN}/objects?path=file", b"1", **headers)
    mine = {"::lakefs::client-mtime": "1700000000", "color": "blue"}
    assert (status, json.loads(data)["metadata"]) == (201, mine)
    _, found, _ = server.call("HEAD", f"{REF}/objects?path=file")
    assert (found["x-lakefs-internal-client-mtime"], found["x-lakefs-meta-color"]) == ("1700000000", "blue")
    s3 = client_of(server.url, key=KEY, secret=SECRET)
    assert s3.head_object(Bucket="linked", Key="main/file")["Metadata"] == {"color": "blue"}
    s3.close()
    assert ask(server, "PUT", f"{MAIN}/objects/stat/user_metadata?path=file", {"set": {"new": "1"}})[0] == 204
    found = ask(server, "GET", f"{REF}/objects/stat?path=file")[1]["metadata"]
    assert found == {"::lakefs::client-mtime": "1700000000", "new": "1"}


def test_bytes_of_the_store_become_an_object(server: LakeProcess) -> None:
    outside = server.folder / "objects" / "outside"
    outside.mkdir(parents=True)
    (outside / "x").write_bytes(b"12")
    body = {"physical_address": "local://outside/x", "checksum": "abc", "size_bytes": 2, "mtime": 1700000000}
    status, made = ask(server, "PUT", f"{MAIN}/objects?path=staged", body)
    assert (status, made["mtime"]) == (201, 1700000000)
    (outside / "x").unlink()
    assert server.call("GET", f"{REF}/objects?path=staged")[2] == b"12"
    assert ask(server, "GET", f"{MAIN}/objects/stage_allowed?path=x")[0] == 204


def test_a_summary_of_requests(server: LakeProcess) -> None:
    _, before = ask(server, "GET", "/usage-report/summary")
    _, after = ask(server, "GET", "/usage-report/summary")
    assert after["installation_id"] == KEY
    assert sum(each["count"] for each in after["reports"]) == sum(each["count"] for each in before["reports"]) + 1
