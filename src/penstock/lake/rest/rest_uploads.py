"""Uploads in two phases on lakeFS's REST API: an address, bytes by a link, in parts or not, and the link of the object.

Where the store signs URLs itself, whole objects go to it directly. Everywhere else, and for parts, the links are this
server's own.
"""

from typing import Annotated, Final
from urllib.parse import quote

import msgspec

from penstock.kernel.bounds import Address, Count, Metadata, Moment, Name, Size
from penstock.kernel.errors import InvalidArgument
from penstock.lake.records.service import Lake
from penstock.lake.rest.links import RequestLinks
from penstock.lake.rest.metadata import plain_names
from penstock.lake.rest.rest_models import LinkBody, asked, object_json
from penstock.lake.rest.rest_objects import condition_of, is_true, path_of
from penstock.lake.rest.rest_refs import BASE, BRANCH, Add
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response, json_response

__all__ = ["UploadHandlers"]

PARTS_MAX: Final = 10_000
UNLIMITED: Final = 0  # of an answer's time: as long as the client sends
PARTS: Final = BRANCH + "/staging/pmpu"


class StageBody(msgspec.Struct):
    """Make an object of bytes that are in the store."""

    physical_address: Address
    checksum: Name
    size_bytes: Size
    mtime: Moment | None = None
    metadata: Metadata | None = None
    content_type: Name | None = ""
    force: bool | None = False


class PartBody(msgspec.Struct):
    """A part that was uploaded."""

    part_number: Count
    etag: Name


class PartsBody(msgspec.Struct):
    """The end of an upload in parts."""

    physical_address: Address
    parts: Annotated[list[PartBody], msgspec.Meta(max_length=PARTS_MAX)] = []
    user_metadata: Metadata | None = None
    content_type: Name | None = ""


class UploadHandlers:
    """The handlers."""

    def __init__(self, lake: Lake, links: RequestLinks, *, can_sign: bool) -> None:
        self._lake = lake
        self._links = links
        self._can_sign = can_sign  # the store

    def add_to(self, add: Add) -> None:
        add("GET", BRANCH + "/staging/backing", self.upload_address)
        add("PUT", BRANCH + "/staging/backing", self.link)
        add("PUT", BRANCH + "/staging/content", self.content, UNLIMITED)
        add("PUT", BRANCH + "/objects", self.stage)
        add("GET", BRANCH + "/objects/stage_allowed", self.may_stage)
        add("POST", PARTS, self.begin)
        add("PUT", PARTS + "/{id}", self.complete, UNLIMITED)
        add("DELETE", PARTS + "/{id}", self.abort)
        add("PUT", PARTS + "/{id}/parts/{number}", self.part_link)
        add("PUT", PARTS + "/{id}/parts/{number}/content", self.part, UNLIMITED)

    # in one piece

    async def upload_address(self, request: Request) -> Response:
        wants_url, branch, path = is_true(request.query_value("presign")), _branch(request), path_of(request)
        place = await asked(self._lake, request).upload_address(*branch, path, sign=wants_url and self._can_sign)
        shown: dict[str, object] = {"physical_address": place.address}
        if place.url:
            shown |= {"presigned_url": place.url, "presigned_url_expiry": int(place.expires_at)}
        elif wants_url:
            url, ends_at = self._links.make(
                request, "PUT", f"{_path(*branch)}/staging/content", path=path, address=place.address
            )
            shown |= {"presigned_url": url, "presigned_url_expiry": ends_at}
        return json_response(shown)

    async def content(self, request: Request) -> Response:
        """Take the bytes; the answer's ETag is the checksum that `link` wants."""
        address = request.query_value("address") or ""
        _, etag = await self._lake.upload_to(*_branch(request), path_of(request), address, request.body())
        return Response(200, b"", {"etag": f'"{etag}"'})

    async def link(self, request: Request) -> Response:
        body = await request.json(LinkBody)
        made = await asked(self._lake, request, body).link(
            *_branch(request),
            path_of(request),
            body.staging.physical_address,
            size=body.size_bytes,
            etag=body.checksum,
            content_type=body.content_type or "",
            metadata=plain_names(body.user_metadata or {}),
            mtime=body.mtime,
            when=condition_of(request),
        )
        return json_response(object_json(made))

    async def stage(self, request: Request) -> Response:
        """Make an object of bytes elsewhere in the store: they are copied into the repository's namespace."""
        body = await request.json(StageBody)
        made = await asked(self._lake, request, body).link(
            *_branch(request),
            path_of(request),
            body.physical_address,
            size=body.size_bytes,
            etag=body.checksum,
            content_type=body.content_type or "",
            metadata=plain_names(body.metadata or {}),
            mtime=body.mtime,
            when=condition_of(request),
        )
        return json_response(object_json(made), 201)

    async def may_stage(self, request: Request) -> Response:
        """Answer 204, or the refusal that an upload would get."""
        await asked(self._lake, request).upload_address(*_branch(request), path_of(request))
        return Response(204)

    # in parts

    async def begin(self, request: Request) -> Response:
        branch, path, count = _branch(request), path_of(request), request.query_value("parts") or "0"
        if not (count.isascii() and count.isdigit() and int(count) <= PARTS_MAX):
            raise InvalidArgument(f"parts can be between 0 and {PARTS_MAX}")
        place = await self._lake.upload_address(*branch, path)
        id_ = await self._lake.begin_parts(*branch, path)
        shown: dict[str, object] = {"upload_id": id_, "physical_address": place.address}
        if int(count):
            shown["presigned_urls"] = [
                self._part_link(request, branch, path, id_, number) for number in range(1, int(count) + 1)
            ]
        return json_response(shown, 201)

    async def part_link(self, request: Request) -> Response:
        number = _number(request)
        url = self._part_link(request, _branch(request), path_of(request), request.parameters["id"], number)
        return json_response({"presigned_url": url})

    def _part_link(self, request: Request, branch: tuple[str, str], path: str, id_: str, number: int) -> str:
        place = f"{_path(*branch)}/staging/pmpu/{quote(id_, safe='')}/parts/{number}/content"
        return self._links.make(request, "PUT", place, path=path)[0]

    async def part(self, request: Request) -> Response:
        etag = await self._lake.put_part(*_branch(request), request.parameters["id"], _number(request), request.body())
        return Response(200, b"", {"etag": f'"{etag}"'})

    async def complete(self, request: Request) -> Response:
        body, branch, path, id_ = (
            await request.json(PartsBody),
            _branch(request),
            path_of(request),
            request.parameters["id"],
        )
        parts = [(each.part_number, each.etag) for each in body.parts]
        size, etag = await self._lake.finish_parts(*branch, path, id_, body.physical_address, parts)
        made = await self._lake.link(
            *branch,
            path,
            body.physical_address,
            size=size,
            etag=etag,
            content_type=body.content_type or "",
            metadata=plain_names(body.user_metadata or {}),
            when=condition_of(request),
        )
        await self._lake.drop_parts(id_)
        return json_response(object_json(made))

    async def abort(self, request: Request) -> Response:
        await self._lake.drop_parts(request.parameters["id"])
        return Response(204)


def _branch(request: Request) -> tuple[str, str]:
    return request.parameters["repository"], request.parameters["branch"]


def _path(repository: str, branch: str) -> str:
    return f"{BASE}/repositories/{quote(repository, safe='')}/branches/{quote(branch, safe='')}"


def _number(request: Request) -> int:
    text = request.parameters["number"]
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= PARTS_MAX):
        raise InvalidArgument(f"a part has a number from 1 to {PARTS_MAX}")
    return int(text)
