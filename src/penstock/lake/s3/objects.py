"""Operations on one object: get, head, put, copy, delete."""

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Final

from penstock.kernel.errors import PreconditionFailed
from penstock.lake.s3.call import Call, iso_time, object_headers, xml_response
from penstock.lake.s3.port import Info, Opened
from penstock.lake.s3.protocol.faults import fault
from penstock.lake.s3.xml import element
from penstock.plumbing.http.conditions import ByteRange, parse_range, read_verdict
from penstock.plumbing.http.request import decode_part
from penstock.plumbing.http.response import SANDBOXED, Response

__all__ = ["OVERRIDES", "copy_object", "copy_source", "delete_object", "get_object", "put_object"]

# Query parameters of a read which set headers of the answer. They are signed like the rest of the query.
OVERRIDES: Final = {
    f"response-{name}": name
    for name in (
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-type",
        "expires",
    )
}


async def get_object(call: Call) -> Response:
    """GET and HEAD, with a range and conditions. To a HEAD the edge sends no body, and the stream is never begun."""
    wish = parse_range(call.request.header("range"))
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(_open(call, wish))
        verdict = read_verdict(call.request.headers, opened.info.etag, opened.info.modified)
        if verdict == 412:
            raise PreconditionFailed("the object is not what the request's condition says")
        headers = object_headers(opened.info) | SANDBOXED
        if verdict == 304:
            return Response(304, headers=headers)
        headers |= {OVERRIDES[name]: value for name, value in call.request.query if name in OVERRIDES}
        if wish is not None:
            headers["content-range"] = f"bytes {opened.start}-{opened.end - 1}/{opened.info.size}"
        # From here on the stream keeps the object open, and closes it.
        body = _Stream(opened, stack.pop_all())
        return Response(206 if wish is not None else 200, body, headers, opened.end - opened.start)


def _open(call: Call, wish: ByteRange | None) -> AbstractAsyncContextManager[Opened]:
    if not call.key:
        raise fault("InvalidArgument", "the key is empty")
    return call.buckets.open(call.bucket, call.key, wish)


class _Stream:
    """The bytes of an opened object, which is closed when they end, or when its reader is gone."""

    def __init__(self, opened: Opened, stack: AsyncExitStack) -> None:
        self._opened = opened
        self._stack = stack

    def __aiter__(self) -> "_Stream":
        return self

    async def __anext__(self) -> memoryview:
        return await anext(self._opened.chunks)

    async def aclose(self) -> None:
        await self._stack.aclose()


async def put_object(call: Call) -> Response:
    payload = call.payload()
    info = await call.buckets.put(
        call.bucket,
        call.key,
        payload,
        content_type=call.content_type(),
        metadata=call.metadata(),
        when=call.precondition(),
    )
    return Response(200, b"", {"etag": f'"{info.etag}"', **payload.checksum_headers})


async def copy_object(call: Call) -> Response:
    source_bucket, source_key = copy_source(call)
    source = await call.buckets.head(source_bucket, source_key)
    check_source(call, source)
    directive = call.request.header("x-amz-metadata-directive", "COPY")
    if directive not in ("COPY", "REPLACE"):
        raise fault("InvalidArgument", "x-amz-metadata-directive is COPY or REPLACE")
    is_same = (source_bucket, source_key) == (call.bucket, call.key)
    if is_same and directive == "COPY":
        raise fault("InvalidRequest", "an object copied onto itself must get other metadata")
    info = await call.buckets.copy(
        source_bucket,
        source_key,
        call.bucket,
        call.key,
        content_type=call.content_type() if directive == "REPLACE" else None,
        metadata=call.metadata() if directive == "REPLACE" else None,
        when=call.precondition(),
    )
    return xml_response(
        "CopyObjectResult", element("LastModified", iso_time(info.modified)), element("ETag", f'"{info.etag}"')
    )


def copy_source(call: Call) -> tuple[str, str]:
    """Bucket and key of `x-amz-copy-source`."""
    text, _, version = call.request.header("x-amz-copy-source").partition("?")
    if version:
        raise fault("NotImplemented", f"{version[:80]} of x-amz-copy-source is not supported: there are no versions")
    bucket, _, key = decode_part(text, "x-amz-copy-source").removeprefix("/").partition("/")
    if not bucket or not key:
        raise fault("InvalidArgument", "x-amz-copy-source must be BUCKET/KEY")
    return bucket, key


def check_source(call: Call, source: Info) -> None:
    if read_verdict(call.request.headers, source.etag, source.modified, "x-amz-copy-source-") != 200:
        raise PreconditionFailed("the source is not what the request's condition says")


async def delete_object(call: Call) -> Response:
    await call.buckets.delete(call.bucket, [call.key], when=call.precondition())
    return Response(204)
