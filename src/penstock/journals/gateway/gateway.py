"""The journal gateway. Design: gazette.md §1.6, with its faults mended.

    GET  /journal/NAME?offset=0&end=0&block=false    content from an offset on; -1 is where the journal ends now
    HEAD /journal/NAME?offset=-1                     the same without content: how far the journal has come
    PUT  /journal/NAME                               one append: all of the body, or nothing
    GET  /journals?selector=name:prefix=shop/        the journals there are, as JSON

Preconditions and registers of an append, and where it landed, are headers (docs/reference/journal-http.md). Invariants:
an answer of 204 means that the body is on every replica; every other answer says in `written` whether anything was; a
read that cannot continue breaks its connection, so that a part is never taken for the whole.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from penstock.journals.client.journal import Appended
from penstock.journals.gateway.port import JournalAccess
from penstock.journals.records.fragment import OFFSET_MAX
from penstock.journals.records.labels import Label
from penstock.journals.records.names import check_journal_name
from penstock.journals.records.protocol import JournalInfo, ReadHeader
from penstock.journals.records.registers import Txn
from penstock.kernel.errors import HeadLost, InvalidArgument, PenstockError, PreconditionFailed, Unauthenticated
from penstock.kernel.ids import Offset
from penstock.plumbing.config.secret import Secret
from penstock.plumbing.http.app import Site
from penstock.plumbing.http.conditions import http_date
from penstock.plumbing.http.problems import render_json
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import SANDBOXED, Response, json_response
from penstock.plumbing.http.router import Router

__all__ = ["JournalGateway"]

WHOLE_BYTES_MAX: Final = 1 << 20  # a body up to this is held, so that it can be sent again to another primary
TIMEOUT_S: Final = 60.0
TIMEOUT_S_MAX: Final = 3600.0


class ReadParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The query of a read."""

    offset: int = 0
    end: int = 0  # stop there; 0: where the journal ends now, or never if it blocks
    block: bool = False  # wait for more at the end


class AppendParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The query of an append."""

    timeout: float = TIMEOUT_S  # seconds, the body included


class ListParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The query of a list."""

    selector: str = ""


class JournalGateway:
    """The gateway to some journals. With a token, requests must bring it: `Authorization: Bearer TOKEN`."""

    def __init__(self, journals: JournalAccess, *, token: Secret | None = None) -> None:
        self._journals = journals
        self._token = token

    def site(self) -> Site:
        """Return the gateway as a site of the HTTP edge, for all paths below /journal/ and /journals."""
        router = Router()
        router.get("/journal/{name...}", self._read)
        router.put("/journal/{name...}", self._append, answer_ms=0)
        router.get("/journals", self._list)
        return Site("journal", router, _render, lambda request: request.raw_path.startswith("/journal"))

    async def _read(self, request: Request) -> Response:
        self._authenticate(request)
        name, query = request.parameters["name"], request.query_as(ReadParameters)
        if not -1 <= query.offset <= OFFSET_MAX or not 0 <= query.end <= OFFSET_MAX:
            raise InvalidArgument("offset and end are offsets of the journal; -1 is where it ends now")
        if 0 < query.end < query.offset:
            raise InvalidArgument(f"end {query.end} is below offset {query.offset}")
        check_journal_name(name)
        header = await self._journals.stat(name, query.offset)
        headers = _read_headers(header)
        # it may continue at a later offset
        is_there = header.fragment is not None and not 0 < query.end <= header.offset
        if not is_there and (header.offset > header.write_head or (request.method == "GET" and not query.block)):
            return _nothing_there(request, header, headers)
        end = query.end or (0 if query.block else header.write_head)
        return Response(206, self._content(name, header.offset, end, follow=query.block), headers)

    async def _content(self, name: str, offset: Offset, end: int, *, follow: bool) -> AsyncGenerator[memoryview, None]:
        """Content without a hole. It ends before a hole, and the next request learns where it continues."""
        at = offset
        chunks = self._journals.read(name, offset, end=end, follow=follow)
        assert isinstance(chunks, AsyncGenerator), "a read is a generator, and closed when its reader is gone"
        async with aclosing(chunks):
            async for chunk in chunks:
                if chunk.offset != at:
                    return
                yield memoryview(chunk.content)
                at = chunk.end

    async def _append(self, request: Request) -> Response:
        self._authenticate(request)
        query = request.query_as(AppendParameters)
        if not 0 < query.timeout <= TIMEOUT_S_MAX:
            raise InvalidArgument(f"timeout is between 0 and {TIMEOUT_S_MAX:g} seconds")
        length = request.content_length
        is_small = length is not None and length <= WHOLE_BYTES_MAX
        done = await self._journals.append(
            request.parameters["name"],
            await request.read(WHOLE_BYTES_MAX) if is_small else request.body(),
            offset=_offset(request.header("x-check-offset")),
            check=request.header("x-check-registers"),
            union=_labels(request.header("x-union-registers")),
            subtract=_labels(request.header("x-subtract-registers")),
            txn=_txn(request.header("x-txn")),
            timeout=query.timeout,
        )
        return Response(204, headers=_append_headers(done))

    async def _list(self, request: Request) -> Response:
        self._authenticate(request)
        found = await self._journals.list(request.query_as(ListParameters).selector)
        return json_response({"journals": [_shown(one) for one in found]})

    def _authenticate(self, request: Request) -> None:
        if self._token is None:
            return
        kind, _, given = request.header("authorization").partition(" ")
        if kind.lower() != "bearer" or not self._token.matches(given.strip()):
            raise Unauthenticated("the request brings no token, or a wrong one")


def _read_headers(header: ReadHeader) -> dict[str, str]:
    headers = {
        **SANDBOXED,
        "content-type": "application/octet-stream",
        # As in Gazette: the end of the content is not known yet.
        "content-range": f"bytes {header.offset}-{OFFSET_MAX}/{OFFSET_MAX}",
        "x-offset": str(header.offset),
        "x-write-head": str(header.write_head),
    }
    fragment = header.fragment
    if fragment is not None:
        headers["x-fragment-name"] = fragment.content_name
        if fragment.mod_time:
            headers["x-fragment-last-modified"] = http_date(datetime.fromtimestamp(fragment.mod_time, UTC))
    if header.url:
        headers["x-fragment-location"] = header.url
    return headers


def _nothing_there(request: Request, header: ReadHeader, headers: dict[str, str]) -> Response:
    error = InvalidArgument(
        f"the journal has nothing at {header.offset} yet: it ends at {header.write_head}",
        next_step="ask again later, or with block=true",
    )
    response = render_json(request, error, 416)
    response.headers |= {name: value for name, value in headers.items() if name.startswith("x-")}
    response.headers["content-range"] = f"bytes */{header.write_head}"
    return response


def _append_headers(done: Appended) -> dict[str, str]:
    return {
        "x-commit-begin": str(done.begin),
        "x-commit-end": str(done.end),
        "x-commit-sha1-sum": done.sum.hex(),
        "x-write-head": str(done.end),
        "x-registers": str(done.registers),
        "x-epoch": str(done.epoch),
    }


def _render(request: Request, error: PenstockError, status: int) -> Response:
    response = render_json(request, error, status)
    if isinstance(error, PreconditionFailed):
        # What the client needs to try again with: where the journal ends, and what its registers are.
        for name, header in (("end", "x-write-head"), ("registers", "x-registers")):
            if error.details.get(name) is not None:
                response.headers[header] = str(error.details[name])
    if isinstance(error, HeadLost):
        response.headers["x-write-head"] = str(error.details.get("begin", 0))
        response.headers["content-range"] = f"bytes */{error.details.get('begin', 0)}"
    if status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


def _shown(info: JournalInfo) -> dict[str, Any]:
    primary = info.primary
    return {
        "name": info.spec.name,
        "labels": [[label.name, label.value] for label in info.spec.labels.labels],
        "replication": info.spec.replication,
        "flags": info.spec.flags.value,
        "fragment": msgspec.to_builtins(info.spec.fragment),
        "primary": primary.broker if primary is not None else None,
        "brokers": [{"id": one.broker, "address": one.address} for one in info.brokers],
        "create_revision": info.create_revision,
        "mod_revision": info.mod_revision,
    }


def _offset(text: str) -> Offset | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InvalidArgument(f"x-check-offset is an offset, not {text[:40]!r}")
    return Offset(int(text))


def _labels(text: str) -> list[Label]:
    """Registers as `name=value, name=value`."""
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    return [Label(name.strip(), value.strip()) for name, _, value in pairs]


def _txn(text: str) -> Txn | None:
    """A transaction id as `writer/number`."""
    if not text:
        return None
    writer, _, number = text.rpartition("/")
    if not (writer and number.isascii() and number.isdigit() and len(number) < 20):
        raise InvalidArgument(f"x-txn is WRITER/NUMBER, not {text[:80]!r}")
    return Txn(writer, int(number))
