"""Objects on lakeFS's REST API: get with ranges, stat, list, upload, copy, delete, links to read."""

from collections.abc import AsyncIterable
from typing import Final
from urllib.parse import quote

from penstock.kernel.errors import Forbidden, InvalidArgument
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.records import Precondition
from penstock.lake.records.service import Lake, Object, Reading
from penstock.lake.rest.links import LINK_S, RequestLinks
from penstock.lake.rest.metadata import MARK, metadata_headers, metadata_of, plain_names
from penstock.lake.rest.multipart import content_part
from penstock.lake.rest.rest_models import CopyBody, MetadataBody, PathsBody, asked, object_json, page_json
from penstock.lake.rest.rest_refs import BASE, BRANCH, REPOSITORY, Add, PageQuery
from penstock.plumbing.http.conditions import etags_of, parse_range
from penstock.plumbing.http.problems import status_of
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import SANDBOXED, Response, json_response

__all__ = ["ObjectHandlers", "condition_of", "is_true", "path_of"]

PATHS_MAX: Final = 1000
REF: Final = REPOSITORY + "/refs/{ref}"
UNLIMITED: Final = 0  # of an answer's time: as long as the client sends


class _ListQuery(PageQuery):
    user_metadata: bool = True
    presign: bool = False


class ObjectHandlers:
    """The handlers."""

    def __init__(self, lake: Lake, links: RequestLinks, *, can_sign: bool) -> None:
        self._lake = lake
        self._links = links
        self._can_sign = can_sign  # the store

    def add_to(self, add: Add) -> None:
        add("GET", REF + "/objects", self.get)
        add("GET", REF + "/objects/stat", self.stat)
        add("GET", REF + "/objects/ls", self.list_objects)
        add("POST", BRANCH + "/objects", self.upload, UNLIMITED)
        add("DELETE", BRANCH + "/objects", self.delete)
        add("POST", BRANCH + "/objects/delete", self.delete_many)
        add("POST", BRANCH + "/objects/copy", self.copy)
        add("PUT", BRANCH + "/objects/stat/user_metadata", self.set_metadata)
        add("GET", REF + "/objects/underlyingProperties", self.properties)
        add("GET", REPOSITORY + "/content", self.linked)

    # reading

    async def get(self, request: Request) -> Response:
        """GET and HEAD."""
        repository, ref, path = request.parameters["repository"], request.parameters["ref"], path_of(request)
        wished = parse_range(request.header("range"))
        if request.method == "HEAD" or is_true(request.query_value("presign")):
            found = await self._lake.head(repository, ref, path)
            if request.method != "HEAD":
                return Response(302, headers={"location": (await self._signed(request, found))[0]})
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
        found = await self._lake.head(request.parameters["repository"], request.parameters["ref"], path_of(request))
        shown = object_json(found, with_metadata=request.query_value("user_metadata") != "false")
        if is_true(request.query_value("presign")):
            shown["physical_address"], shown["physical_address_expiry"] = await self._signed(request, found)
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
                if not found.is_prefix:
                    each["physical_address"], each["physical_address_expiry"] = await self._signed(request, found)
        return json_response(shown)

    # writing

    async def upload(self, request: Request) -> Response:
        content: AsyncIterable[bytes] | bytes = request.body()
        content_type = request.header("content-type")
        if content_type.startswith("multipart/form-data"):
            content, content_type = await content_part(request)
        made = await asked(self._lake, request).put(
            request.parameters["repository"],
            request.parameters["branch"],
            path_of(request),
            content,
            content_type=content_type,
            metadata=metadata_of(request.headers),
            when=condition_of(request),
        )
        return json_response(object_json(made), 201)

    async def delete(self, request: Request) -> Response:
        lake = asked(self._lake, request)
        await lake.delete(request.parameters["repository"], request.parameters["branch"], [path_of(request)])
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

    async def set_metadata(self, request: Request) -> Response:
        """Replace the user's metadata of an object; its bytes, its type and lakectl's own metadata stay."""
        body = await request.json(MetadataBody)
        repository, branch, path = request.parameters["repository"], request.parameters["branch"], path_of(request)
        present = (await self._lake.head(repository, branch, path)).metadata
        kept = {name: value for name, value in present.items() if name.startswith(MARK)}
        await asked(self._lake, request, body).copy(
            repository, branch, path, source_ref=branch, source_path=path, metadata=kept | plain_names(body.set)
        )
        return Response(204)

    async def properties(self, request: Request) -> Response:
        """Return the store's own properties of an object: this lake knows of none."""
        await self._lake.head(request.parameters["repository"], request.parameters["ref"], path_of(request))
        return json_response({})

    # links

    async def linked(self, request: Request) -> Response:
        """Serve the bytes that a link names."""
        if not self._links.holds(request):
            raise Forbidden("only a link can name bytes", next_step="ask for one: GET objects/stat?presign=true")
        size = int(request.query_value("size") or 0)
        entry = Entry(
            request.query_value("address") or "", size, request.query_value("etag") or "", 0,
            request.query_value("type") or "",
        )  # fmt: skip
        wished = parse_range(request.header("range"))
        start, end = wished.within(size) if wished else (0, size)
        reading = await self._lake.read_entry(request.parameters["repository"], path_of(request), entry, start, end)
        return _answer(request, reading.object, start, end, is_part=wished is not None, reading=reading)

    async def _signed(self, request: Request, found: Object) -> tuple[str, int]:
        """Return a link to an object's bytes, and when it ends."""
        assert found.entry is not None
        if self._can_sign and found.key:
            return await self._lake.store.sign("GET", found.key, LINK_S), self._links.now() + LINK_S
        place = f"{BASE}/repositories/{quote(request.parameters['repository'], safe='')}/content"
        return self._links.make(
            request, "GET", place, path=found.path, address=found.entry.address, size=found.entry.size,
            etag=found.entry.etag, type=found.entry.content_type,
        )  # fmt: skip


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
        **metadata_headers(found.metadata),
    }
    if etags_of(request.header("if-none-match")) & {etag, "*"}:
        return Response(304, headers=headers)
    if is_part:
        headers["content-range"] = f"bytes {start}-{end - 1}/{_size(found)}"
    body = reading.chunks if reading is not None else b""
    return Response(206 if is_part else 200, body, headers, length=end - start)


def _size(found: Object) -> int:
    return found.entry.size if found.entry is not None else 0


def path_of(request: Request) -> str:
    path = request.query_value("path")
    if path is None:
        raise InvalidArgument("path is missing: which object")
    return path


def is_true(text: str | None) -> bool:
    return (text or "").lower() == "true"


def condition_of(request: Request) -> Precondition | None:
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
