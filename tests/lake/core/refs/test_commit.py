import msgspec
import pytest

from penstock.kernel.errors import FormatTooNew, ObjectStoreFailed
from penstock.lake.core.committed.metarange import EMPTY_TREE, Location, MetaRangeId, TreeAddress
from penstock.lake.core.refs.commit import Commit, commit_id, commit_key, decode_commit, encode_commit
from penstock.lake.core.staging.records import CommitId

COMMIT = Commit(
    tree=EMPTY_TREE,
    parents=(CommitId("a" * 64), CommitId("b" * 64)),
    committer="ada",
    message="prices",
    created_ns=1_700_000_000_000_000_001,
    metadata={"b": "2", "a": "1"},
    request="request-7",
    generation=3,
)


def changed(**fields: object) -> CommitId:
    return commit_id(msgspec.structs.replace(COMMIT, **fields))


def test_a_commit_is_read_back_as_it_was_written() -> None:
    assert decode_commit(encode_commit(COMMIT), commit_id(COMMIT)) == COMMIT
    assert commit_key(CommitId("ab")) == "_penstock/commits/ab"


def test_the_id_is_of_the_content_and_not_of_where_it_is() -> None:
    others = [
        changed(tree=TreeAddress(MetaRangeId("c" * 64), Location(""))),
        changed(parents=COMMIT.parents[:1]),
        changed(parents=COMMIT.parents[::-1]),
        changed(committer="bob"),
        changed(message="price"),
        changed(created_ns=COMMIT.created_ns + 1),
        changed(metadata={"a": "1"}),
        changed(metadata={"a": "1b", "2": ""}),
        changed(request="request-8"),
    ]

    assert len({commit_id(COMMIT), *others}) == 10
    assert changed(generation=9) == commit_id(COMMIT)
    assert changed(tree=TreeAddress(EMPTY_TREE.id, Location("elsewhere"))) == commit_id(COMMIT)
    assert changed(metadata={"a": "1", "b": "2"}) == commit_id(COMMIT)


def test_text_moved_from_one_field_to_the_next_is_another_commit() -> None:
    assert changed(committer="adap", message="rices") != commit_id(COMMIT)
    assert changed(request="request-7a", metadata={"": "1", "b": "2"}) != commit_id(COMMIT)


def test_a_tree_of_leaves_has_a_commit_that_older_releases_refuse() -> None:
    leaves = msgspec.structs.replace(COMMIT, tree=TreeAddress(MetaRangeId("c" * 64), Location("_penstock/1/a"), 3))
    data = encode_commit(leaves)

    assert msgspec.msgpack.decode(data)["type"] == "commit-2"
    assert msgspec.msgpack.decode(encode_commit(COMMIT))["type"] == "commit-1"
    assert decode_commit(data, commit_id(leaves)) == leaves


@pytest.mark.parametrize("change", [{"type": "commit-3"}, {"tree": {"id": EMPTY_TREE.id, "location": "", "format": 4}}])
def test_a_commit_of_a_newer_release_is_refused_by_name(change: dict[str, object]) -> None:
    data = msgspec.msgpack.encode({**msgspec.msgpack.decode(encode_commit(COMMIT)), **change})

    with pytest.raises(FormatTooNew, match="reads version"):
        decode_commit(data, commit_id(COMMIT))


def test_a_file_which_is_not_that_commit_is_refused() -> None:
    with pytest.raises(ObjectStoreFailed, match="another commit"):
        decode_commit(encode_commit(COMMIT), CommitId("0" * 64))
    with pytest.raises(ObjectStoreFailed, match="cannot be read"):
        decode_commit(b"\x00garbage", commit_id(COMMIT))
