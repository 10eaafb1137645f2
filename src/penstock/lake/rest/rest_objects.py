"""Objects on lakeFS's REST API: get with ranges, stat, list, upload in one phase or two, copy, delete."""

from collections.abc import AsyncIterable
from typing import Final

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.staging.records import Precondition
from penstock.lake.records.service import Lake, Object, Reading
from penstock.lake.rest.multipart import content_part
from penstock.lake.rest.rest_models import CopyBody, LinkBody, PathsBody, asked, object_json, page_json
from penstock.lake.rest.rest_refs import BRANCH, REPOSITORY, Add, PageQuery
from penstock.plumbing.http.conditions import etags_of, parse_range
from penstock.plumbing.http.problems import status_of
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import SANDBOXED, Response, json_response

__all__ = ["ObjectHandlers"]

META: Final = "x-lakefs-meta-"
PATHS_MAX: Final = 1000
SIGNED_S: Final = 900
REF: Final = REPOSITORY + "/refs/{ref}"
UNLIMITED: Final = 0  # of an answer's time: as long as the client sends


class _ListQuery(PageQuery):
    user_metadata: bool = True
    presign: bool = False


class ObjectHandlers:
    """The handlers."""

    def __init__(self, lake: Lake, *, can_sign: bool) -> None:
        self._lake = lake
        self._can_sign = can_sign

    def add_to(self, add: Add) -> None:
        add("GET", REF + "/objects", self.get)
        add("GET", REF + "/objects/stat", self.stat)
        add("GET", REF + "/objects/ls", self.list_objects)
        add("POST", BRANCH + "/objects", self.upload, UNLIMITED)
        add("DELETE", BRANCH + "/objects", self.delete)
        add("POST", BRANCH + "/objects/delete", self.delete_many)
        add("POST", BRANCH + "/objects/copy", self.copy)
        add("GET", BRANCH + "/staging/backing", self.upload_address)
        add("PUT", BRANCH + "/staging/backing", self.link)

    # reading

    async def get(self, request: Request) -> Response:
        """GET and HEAD."""
        repository, ref, path = request.parameters["repository"], request.parameters["ref"], _path(request)
        wished = parse_range(request.header("range"))
        if request.method == "HEAD" or _is_true(request.query_value("presign")):
            found = await self._lake.head(repository, ref, path)
            if request.method != "HEAD":
                return Response(302, headers={"location": await self._signed(found)})
            assert found.entry is not None
            start, end = wished.within(found.entry.size) if wished else (0, found.entry.size)
            return _answer(request, found, start, end, is_part=wished is not None)
        reading = await self._lake.read(
            repository, ref, path, wished.start if wished else 0, wished.end if wished else None
        )
        if wished is not None and reading.start >= reading.end:
            raise InvalidArgument("the range is outside the object", status=416, size=_size(reading.object))
        return _answer(request, reading.object, reading.start, reading.end, is_part=wished is not None, reading=reading)

    async def stat(self, request: Request) -> Response:
        found = await self._lake.head(request.parameters["repository"], request.parameters["ref"], _path(request))
        shown = object_json(found, with_metadata=request.query_value("user_metadata") != "false")
        if _is_true(request.query_value("presign")):
            shown["physical_address"] = await self._signed(found)
        return json_response(shown)

    async def list_objects(self, request: Request) -> Response:
        query = request.query_as(_ListQuery)
        page = await self._lake.list(
            request.parameters["repository"],
            request.parameters["ref"],
            prefix=query.prefix,
            after=query.after,
            delimiter=query.delimiter,
            limit=query.limit,
        )
        shown = page_json(page, lambda each: object_json(each, with_metadata=query.user_metadata))
        if query.presign:
            for each, found in zip(shown["results"], page.results, strict=True):
                each["physical_address"] = await self._signed(found) if not found.is_prefix else ""
        return json_response(shown)

    async def _signed(self, found: Object) -> str:
        if not self._can_sign or not found.key:
            raise InvalidArgument("this store cannot sign URLs: read the object through the lake")
        return await self._lake.store.sign("GET", found.key, SIGNED_S)

    # writing

    async def upload(self, request: Request) -> Response:
        content: AsyncIterable[bytes] | bytes = request.body()
        content_type = request.header("content-type")
        if content_type.startswith("multipart/form-data"):
            content, content_type = await content_part(request)
        made = await asked(self._lake, request).put(
            request.parameters["repository"],
            request.parameters["branch"],
            _path(request),
            content,
            content_type=content_type,
            metadata=_metadata(request),
            when=_condition(request),
        )
        return json_response(object_json(made), 201)

    async def delete(self, request: Request) -> Response:
        lake = asked(self._lake, request)
        await lake.delete(request.parameters["repository"], request.parameters["branch"], [_path(request)])
        return Response(204)

    async def delete_many(self, request: Request) -> Response:
        paths = (await request.json(PathsBody)).paths
        if len(paths) > PATHS_MAX:
            raise InvalidArgument(f"{len(paths)} paths: at most {PATHS_MAX} are deleted at once")
        errors: list[object] = []
        try:
            lake = asked(self._lake, request)
            await lake.delete(request.parameters["repository"], request.parameters["branch"], paths)
        except InvalidArgument:
            errors = await self._delete_one_by_one(request, paths)
        return json_response({"errors": errors})

    async def _delete_one_by_one(self, request: Request, paths: list[str]) -> list[object]:
        """Delete paths one by one, because one of them was bad."""
        errors: list[object] = []
        for path in paths:
            try:
                lake = asked(self._lake, request)
                await lake.delete(request.parameters["repository"], request.parameters["branch"], [path])
            except InvalidArgument as error:
                errors.append({"path": path, "status_code": status_of(error), "message": error.message})
        return errors

    async def copy(self, request: Request) -> Response:
        body = await request.json(CopyBody)
        if body.shallow:
            raise InvalidArgument("not implemented: a shallow copy; a copy shares its bytes here anyway", status=501)
        destination = request.query_value("dest_path")
        if not destination:
            raise InvalidArgument("dest_path is missing")
        branch = request.parameters["branch"]
        made = await asked(self._lake, request, body).copy(
            request.parameters["repository"],
            branch,
            destination,
            source_ref=body.src_ref or branch,
            source_path=body.src_path,
        )
        return json_response(object_json(made), 201)

    # uploads in two phases

    async def upload_address(self, request: Request) -> Response:
        wants_url = _is_true(request.query_value("presign"))
        if wants_url and not self._can_sign:
            raise InvalidArgument("this store cannot sign URLs: upload through the lake")
        place = await asked(self._lake, request).upload_address(
            request.parameters["repository"], request.parameters["branch"], _path(request), sign=wants_url
        )
        shown: dict[str, object] = {"physical_address": place.address}
        if place.url:
            shown |= {"presigned_url": place.url, "presigned_url_expiry": int(place.expires_at)}
        return json_response(shown)

    async def link(self, request: Request) -> Response:
        body = await request.json(LinkBody)
        made = await asked(self._lake, request, body).link(
            request.parameters["repository"],
            request.parameters["branch"],
            _path(request),
            body.staging.physical_address,
            size=body.size_bytes,
            etag=body.checksum,
            content_type=body.content_type or "",
            metadata=body.user_metadata,
            mtime=body.mtime,
            when=_condition(request),
        )
        return json_response(object_json(made))


def _answer(
    request: Request, found: Object, start: int, end: int, *, is_part: bool, reading: Reading | None = None
) -> Response:
    assert found.entry is not None
    etag = found.entry.etag
    headers = {
        "content-type": found.entry.content_type or "application/octet-stream",
        "etag": f'"{etag}"',
        "accept-ranges": "bytes",
        **SANDBOXED,
        **{f"{META}{name}": value for name, value in found.metadata.items()},
    }
    if etags_of(request.header("if-none-match")) & {etag, "*"}:
        return Response(304, headers=headers)
    if is_part:
        headers["content-range"] = f"bytes {start}-{end - 1}/{_size(found)}"
    body = reading.chunks if reading is not None else b""
    return Response(206 if is_part else 200, body, headers, length=end - start)


def _size(found: Object) -> int:
    return found.entry.size if found.entry is not None else 0


def _path(request: Request) -> str:
    path = request.query_value("path")
    if path is None:
        raise InvalidArgument("path is missing: which object")
    return path


def _is_true(text: str | None) -> bool:
    return (text or "").lower() == "true"


def _metadata(request: Request) -> dict[str, str]:
    return {name[len(META) :]: value for name, value in request.headers.items() if name.startswith(META)}


def _condition(request: Request) -> Precondition | None:
    """If-None-Match: * and If-Match: an ETag; lakeFS knows only the first."""
    absent, present = request.header("if-none-match"), request.header("if-match")
    if absent:
        if etags_of(absent) != {"*"}:
            raise InvalidArgument("if-none-match of an upload must be *", status=501)
        return Precondition(absent=True)
    if not present:
        return None
    wanted = etags_of(present)
    if len(wanted) != 1:
        raise InvalidArgument("if-match of an upload takes one ETag", status=501)
    (etag,) = wanted
    return Precondition() if etag == "*" else Precondition(etag=etag)
