"""Send the extremes of each field of each REST model: no value may end the server, or answer with a 5xx."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from tests.lake.rest.servers import LakeProcess

from penstock.lake.core.refs.rules import RetentionRules
from penstock.lake.records.sink_batch import BatchBody, SinkBody, TreeBody
from penstock.lake.rest import rest_commits, rest_models, rest_objects, rest_refs

REPOSITORY = "/repositories/edge"
MAIN = f"{REPOSITORY}/branches/main"
TEN_MB = 10_000_000
BIG = (2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30)


@dataclass(frozen=True)
class Door:
    """A request with a JSON body, and the struct that reads the body."""

    method: str
    path: str
    model: type[msgspec.Struct]
    body: dict[str, Any]


BODIES = [
    Door("POST", "/repositories", rest_models.RepositoryBody, {"name": "edge", "storage_namespace": "local://edge"}),
    Door("POST", f"{REPOSITORY}/branches", rest_models.BranchBody, {"name": "main", "source": "main"}),
    Door("POST", f"{REPOSITORY}/tags", rest_models.TagBody, {"id": "taken", "ref": "main"}),
    Door("POST", f"{MAIN}/commits", rest_models.CommitBody, {"message": "m", "allow_empty": True}),
    Door("POST", f"{REPOSITORY}/refs/main/merge/main", rest_models.MergeBody, {"message": "m"}),
    Door("POST", f"{MAIN}/revert", rest_models.RevertBody, {"ref": "main", "parent_number": 0}),
    Door("POST", f"{MAIN}/cherry-pick", rest_models.CherryPickBody, {"ref": "main"}),
    Door("PUT", MAIN, rest_models.ResetBody, {"type": "object", "path": "nothing"}),
    Door("POST", f"{MAIN}/objects/delete", rest_models.PathsBody, {"paths": ["nothing"]}),
    Door("POST", f"{MAIN}/objects/copy?dest_path=c", rest_models.CopyBody, {"src_path": "a", "src_ref": "main"}),
    Door(
        "PUT",
        f"{MAIN}/staging/backing?path=linked",
        rest_models.LinkBody,
        {"staging": {"physical_address": "@"}, "checksum": "c", "size_bytes": 1},
    ),
    Door("POST", f"{REPOSITORY}/gc", rest_models.GarbageBody, {"grace_seconds": 1.0}),
    Door(
        "POST",
        f"{MAIN}/import",
        rest_models.ImportBody,
        {
            "paths": [{"path": "local://away/", "destination": "d/", "type": "common_prefix"}],
            "commit": {"message": "m"},
        },
    ),
    Door("POST", "/auth/login", rest_models.LoginBody, {"access_key_id": "a", "secret_access_key": "b"}),
    Door("PUT", f"{REPOSITORY}/settings/gc_rules", RetentionRules, {"default_retention_days": 9, "branches": []}),
    Door("PUT", f"{MAIN}/sinks", SinkBody, {"sink": "s", "query": "q", "batch": 1}),
    Door("POST", f"{MAIN}/sinks/batches", BatchBody, {"list": "0" * 64, "query": "q", "sink": "s", "batch": 1}),
    Door(
        "POST",
        f"{MAIN}/sinks/trees",
        TreeBody,
        {"tree": "0" * 64, "location": "_penstock/00000001/x", "query": "q"},
    ),
]
QUERIES: list[tuple[str, type[msgspec.Struct]]] = [
    ("/repositories", rest_refs.PageQuery),
    (f"{REPOSITORY}/branches", rest_refs._BranchesQuery),
    (f"{REPOSITORY}/refs/main/commits", rest_commits._LogQuery),
    (f"{MAIN}/diff", rest_commits._DiffQuery),
    (f"{REPOSITORY}/refs/main/objects/ls", rest_objects._ListQuery),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeProcess]:
    with LakeProcess(tmp_path_factory.mktemp("lake")) as process:
        assert process.call("POST", "/repositories", json.dumps(BODIES[0].body).encode())[0] == 201
        yield process


def extremes(kind: msgspec.inspect.Type) -> Iterator[Any]:
    """Values of JSON's own types around the limits of a field."""
    match kind:
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            edges = [edge for edge in (kind.ge, kind.le) if edge is not None]
            yield from [-1, 0, *BIG, -BIG[0] - 2, 1e300, *edges, *(edge + 1 for edge in edges)]
        case msgspec.inspect.StrType():
            longest = min(kind.max_length or 0, TEN_MB)
            yield from ["", "\r\n", "\0", "é" * longest, "x" * longest, "x" * (longest + 1), "x" * TEN_MB]
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            for each in extremes(kind.item_type):
                yield [each]
        case _:
            yield from inner_extremes(kind)


def inner_extremes(kind: msgspec.inspect.Type) -> Iterator[Any]:
    """Values of types that have parts."""
    match kind:
        case msgspec.inspect.UnionType():
            for each in kind.types:
                yield from extremes(each)
        case msgspec.inspect.DictType():
            yield from ({"name": each} for each in extremes(kind.value_type))
            yield from ({each: "value"} for each in extremes(kind.key_type))
        case msgspec.inspect.StructType():
            for field in kind.fields:
                yield from ({field.encode_name: each} for each in extremes(field.type))
        case _:
            pass


def is_well(server: LakeProcess) -> None:
    """The member still takes writes and commits them."""
    assert server.call("POST", f"{MAIN}/objects?path=alive", b"x")[0] == 201
    assert server.call("POST", f"{MAIN}/commits", b'{"message": "alive", "allow_empty": true}')[0] == 201


@pytest.mark.parametrize("door", BODIES, ids=lambda door: door.model.__name__)
def test_no_value_in_a_body_ends_the_server(server: LakeProcess, door: Door) -> None:
    sent = 0
    for field in msgspec.inspect.type_info(door.model).fields:  # type: ignore[attr-defined]
        for value in extremes(field.type):
            body = json.dumps({**door.body, field.encode_name: value})
            if door.model is rest_models.LinkBody:
                status, _, data = server.call("GET", f"{MAIN}/staging/backing?path=linked")
                assert status == 200, data
                body = body.replace('"@"', json.dumps(json.loads(data)["physical_address"]))
            status, _, data = server.call(door.method, door.path, body.encode())
            shown = body if len(body) < 300 else f"{len(body)} bytes in {field.encode_name}"
            assert status < 500, (shown, data[:500])
            sent += 1
    for field in ("NaN", "Infinity", "1e999"):
        body = json.dumps({**door.body, door.model.__struct_encode_fields__[-1]: "@"}).replace('"@"', field)
        assert 400 <= server.call(door.method, door.path, body.encode())[0] < 500
    assert sent or not door.body
    is_well(server)


@pytest.mark.parametrize(("path", "model"), QUERIES, ids=[model.__name__ for _, model in QUERIES])
def test_no_value_in_a_query_ends_the_server(server: LakeProcess, path: str, model: type[msgspec.Struct]) -> None:
    for field in msgspec.inspect.type_info(model).fields:  # type: ignore[attr-defined]
        for value in ("-1", "0", "NaN", "inf", "1e300", *map(str, BIG), "x" * 20_000, "%00", "%ed%a0%80"):
            status, _, data = server.call("GET", f"{path}?{field.encode_name}={value}")
            assert status < 500, (field.encode_name, value[:50], data[:500])
    is_well(server)


@pytest.mark.parametrize("seconds", [1_800_000_000_000, 2**64, 10**30])
def test_a_date_in_milliseconds_is_refused(server: LakeProcess, seconds: int) -> None:
    body = json.dumps({"message": "late", "allow_empty": True, "date": seconds}).encode()
    status, _, data = server.call("POST", f"{MAIN}/commits", body)
    assert (status, b"date" in data) == (400, True), data
    is_well(server)


def test_headers_of_an_upload_have_limits(server: LakeProcess) -> None:
    for name in ("content_type", "x_lakefs_meta_large"):
        status, _, data = server.call("POST", f"{MAIN}/objects?path={quote('a b')}", b"x", **{name: "x" * 50_000})
        assert status in (400, 413, 431), (name, data)
    is_well(server)
