"""The unmodified `lakefs` and `lakefs-spec` packages against a real server; kill -9 loses nothing it acknowledged."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import lakefs
import pytest
from lakefs.client import Client
from lakefs.exceptions import (
    BadRequestException,
    ConflictException,
    ImportManagerException,
    NotAuthorizedException,
    NotFoundException,
    ObjectExistsException,
)
from lakefs_spec import LakeFSFileSystem
from tests.lake.rest.servers import KEY, SECRET, LakeProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeProcess]:
    with LakeProcess(tmp_path_factory.mktemp("lake")) as process:
        yield process


def client_of(server: LakeProcess, secret: str = SECRET) -> Client:
    return Client(host=server.url, username=KEY, password=secret)


def repository_of(server: LakeProcess, name: str) -> lakefs.Repository:
    return lakefs.Repository(name, client=client_of(server)).create(storage_namespace=f"local://{name}")


def test_objects_branches_commits_and_merges(server: LakeProcess) -> None:
    repository = repository_of(server, "objects")
    main = repository.branch("main")
    made = main.object("a/b c.txt").upload(data=b"hello", metadata={"k": "v"}, content_type="text/plain")
    assert (made.stat().size_bytes, made.stat().metadata, made.stat().content_type) == (5, {"k": "v"}, "text/plain")
    with made.reader(mode="rb") as reader:
        assert reader.read(2) == b"he"
        reader.seek(3)
        assert reader.read() == b"lo"
    with pytest.raises(ObjectExistsException):
        main.object("a/b c.txt").upload(data=b"again", mode="xb")
    assert [(change.type, change.path) for change in main.uncommitted()] == [("added", "a/b c.txt")]
    first = main.commit("first", metadata={"by": "me"})
    assert (first.get_commit().message, first.get_commit().metadata) == ("first", {"by": "me"})
    with pytest.raises(BadRequestException, match="no changes"):
        main.commit("nothing")

    work = repository.branch("work").create("main")
    work.object("new").upload(data="text")
    work.object("a/b c.txt").delete()
    work.commit("second")
    assert [(change.type, change.path) for change in main.diff(work)] == [("removed", "a/b c.txt"), ("added", "new")]
    main.object("dirt").upload(data=b"")
    with pytest.raises(BadRequestException, match="dirty branch"):
        work.merge_into(main)
    main.reset_changes("object", "dirt")
    merged = work.merge_into(main, message="take it")
    assert [commit.message for commit in main.log(max_amount=3)] == ["take it", "second", "first"]
    assert [each.path for each in main.objects()] == ["new"]
    main.revert(merged, 1)
    assert [each.path for each in repository.ref("main@").objects()] == ["a/b c.txt"]
    assert [each.path for each in repository.ref(first.id).objects()] == ["a/b c.txt"]
    assert repository.ref("main~2").get_commit().id == first.id


def test_transactions_tags_and_conflicts(server: LakeProcess) -> None:
    repository = repository_of(server, "transactions")
    main = repository.branch("main")
    with main.transact(commit_message="both or none") as changes:
        changes.object("one").upload(data=b"1")
        changes.object("two").upload(data=b"2")
    assert [each.path for each in main.objects()] == ["one", "two"]
    with pytest.raises(ValueError, match="on purpose"), main.transact(commit_message="never") as changes:  # noqa: PT012
        changes.object("three").upload(data=b"3")
        raise ValueError("on purpose")
    assert not main.object("three").exists()
    tag = repository.tag("v1").create("main")
    assert tag.get_commit().id == main.get_commit().id
    with pytest.raises(ConflictException, match="tag already exists"):
        repository.tag("v1").create("main")
    other = repository.branch("other").create("main")
    for branch in (main, other):
        branch.object("one").upload(data=branch.id.encode())
        branch.commit(branch.id)
    with pytest.raises(ConflictException):
        other.merge_into(main)
    other.merge_into(main, strategy="source-wins")
    with main.object("one").reader() as reader:
        assert reader.read() == b"other"
    picked = repository.branch("picked").create("v1")
    picked.cherry_pick(other.head.id)
    assert picked.object("one").exists()


def test_what_is_wrong_is_told_as_lakefs_tells_it(server: LakeProcess) -> None:
    repository = repository_of(server, "wrong")
    with pytest.raises(NotAuthorizedException):
        lakefs.Repository("wrong", client=client_of(server, "no secret")).branch("main").get_commit()
    with pytest.raises(NotFoundException):
        repository.branch("nowhere").get_commit()
    with pytest.raises(NotFoundException):
        repository.branch("main").object("nothing").stat()
    with pytest.raises(ConflictException):
        repository_of(server, "wrong")


def test_the_file_system_of_lakefs_spec(server: LakeProcess, tmp_path: Path) -> None:
    repository = repository_of(server, "files")
    files = LakeFSFileSystem(host=server.url, username=KEY, password=SECRET, use_listings_cache=False)
    local = tmp_path / "table.csv"
    local.write_text("a,b\n1,2\n")
    files.put_file(str(local), "files/main/data/table.csv")
    assert files.ls("files/main/data/", detail=False) == ["files/main/data/table.csv"]
    assert files.info("files/main/data/table.csv")["size"] == 8
    with files.open("files/main/data/table.csv", "r") as file:
        assert file.read() == "a,b\n1,2\n"
    repository.branch("main").commit("table")  # a transaction merges, and that needs a clean branch
    with files.transaction("files", "main") as changes:
        files.pipe_file(f"files/{changes.branch.id}/x", b"x")
        changes.commit("x")
    files.cp_file("files/main/x", "files/main/y")
    files.rm_file("files/main/x")
    assert sorted(files.find("files/main/")) == ["files/main/data/table.csv", "files/main/y"]


def test_a_sample_repository_is_there_to_be_tried(server: LakeProcess) -> None:
    samples = lakefs.Repository("samples", client=client_of(server))
    samples.create(storage_namespace="local://samples", include_samples=True)
    main = samples.branch("main")
    paths = [each.path for each in main.objects()]
    assert {"README.md", "lakes.parquet", "data/lakes.source.md"} < set(paths)
    assert sum(path.startswith("images/") for path in paths) == 29
    assert (main.object("lakes.parquet").stat().size_bytes or 0) >= 1 << 19


def test_objects_of_the_store_are_imported_without_copying(server: LakeProcess) -> None:
    repository = repository_of(server, "imports")
    outside = server.folder / "objects" / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "one").write_bytes(b"1")
    (outside / "deep" / "two").write_bytes(b"22")
    main = repository.branch("main")
    done = main.import_data("take them").prefix("local://outside/", "taken/").run()
    assert (done.completed, done.ingested_objects) == (True, 2)
    assert [each.path for each in main.objects()] == ["taken/deep/two", "taken/one"]
    with main.object("taken/deep/two").reader(mode="rb") as reader:
        assert reader.read() == b"22"


def test_an_import_of_nothing_is_a_commit_and_a_refused_one_is_an_exception(server: LakeProcess) -> None:
    main = repository_of(server, "import-ends").branch("main")
    done = main.import_data("nothing at all", metadata={"who": "me"}).run()
    assert (done.completed, done.error, done.ingested_objects) == (True, None, 0)
    assert done.commit is not None
    assert done.commit.id == main.get_commit().id
    assert (done.commit.message, done.commit.metadata) == ("nothing at all", {"who": "me"})
    main.object("staged").upload(data=b"s")
    refused = main.import_data("onto what is staged")
    with pytest.raises(ImportManagerException, match="uncommitted changes"):
        refused.run()
    assert (refused.status().completed, refused.status().commit) == (False, None)


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with LakeProcess(tmp_path) as server:
        main = repository_of(server, "killed").branch("main")
        main.object("committed").upload(data=b"c")
        commit = main.commit("before")
        acknowledged: list[str] = []

        def put(number: int) -> None:
            path = f"/repositories/killed/branches/main/objects?path=staged-{number}"
            try:
                status, _, _ = server.call("POST", path, b"%d" % number)
            except (OSError, HTTPException):
                return  # it was killed, as planned: nobody knows what became of this one
            assert status == 201
            acknowledged.append(f"staged-{number}")
            if number == 20:
                server.kill()

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(put, range(40)))
        server.start()
        again = lakefs.Repository("killed", client=client_of(server)).branch("main")
        assert again.get_commit().id == commit.id
        assert set(acknowledged) | {"committed"} <= {each.path for each in again.objects()}
        for path in acknowledged:
            with again.object(path).reader(mode="rb") as reader:
                assert reader.read() == path.removeprefix("staged-").encode()
        again.commit("after")
