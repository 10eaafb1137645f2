"""Operations on uploads in parts."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from penstock.kernel.errors import PenstockError
from penstock.lake.s3.call import Call, iso_time, xml_response
from penstock.lake.s3.objects import check_source, copy_source
from penstock.lake.s3.port import Opened
from penstock.lake.s3.protocol.checksums import Checksum, given_checksums
from penstock.lake.s3.protocol.faults import fault, render_xml
from penstock.lake.s3.uploads import PARTS_MAX, Part, S3Upload, composed_etag
from penstock.lake.s3.xml import DECLARATION, XML_TYPE, children, element, parse, text_of
from penstock.plumbing.http.conditions import parse_range
from penstock.plumbing.http.problems import status_of
from penstock.plumbing.http.response import Response

__all__ = ["abort_upload", "begin_upload", "complete_upload", "copy_part", "list_parts", "list_uploads", "put_part"]


PATIENCE_S: Final = 5.0  # a completion that takes longer begins its answer
PULSE_S: Final = 10.0  # between the spaces of such an answer


async def begin_upload(call: Call) -> Response:
    await call.buckets.check_bucket(call.bucket)
    upload = await call.uploads.begin(call.bucket, call.key, call.content_type(), call.metadata())
    return xml_response(
        "InitiateMultipartUploadResult",
        element("Bucket", call.bucket),
        element("Key", call.key),
        element("UploadId", upload.id),
    )


async def put_part(call: Call) -> Response:
    upload = await _find(call)
    payload = call.payload()
    part = await call.uploads.put_part(upload, _part_number(call), payload)
    return Response(200, b"", {"etag": f'"{part.etag}"', **payload.checksum_headers})


async def copy_part(call: Call) -> Response:
    """A part which is all of an object, or a range of it."""
    upload, number = await _find(call), _part_number(call)
    wish_text = call.request.header("x-amz-copy-source-range")
    wish = parse_range(wish_text)
    if wish_text and wish is None:
        raise fault("InvalidArgument", "x-amz-copy-source-range must be bytes=FIRST-LAST")
    async with call.buckets.open(*copy_source(call), wish) as opened:
        check_source(call, opened.info)
        part = await call.uploads.put_part(upload, number, _bytes_of(opened))
    return xml_response(
        "CopyPartResult", element("LastModified", iso_time(part.modified)), element("ETag", f'"{part.etag}"')
    )


async def complete_upload(call: Call) -> Response:
    upload = await _find(call)
    wanted = _wanted(await call.xml(has_checksums=False))
    etag = await call.uploads.finished_etag(upload)
    if etag is not None:
        return _completed(call, etag)
    parts = await call.uploads.choose(upload, wanted)
    composing = asyncio.create_task(_compose(call, upload, parts), name="s3 compose")
    try:
        await asyncio.wait([composing], timeout=PATIENCE_S)
    except asyncio.CancelledError:
        await _end(composing)
        raise
    if composing.done():
        return _completed(call, composing.result())
    return Response(200, _Spaces(call, composing), {"content-type": XML_TYPE})


def _completed(call: Call, etag: str) -> Response:
    scheme = "https" if call.request.is_secure else "http"
    return xml_response(
        "CompleteMultipartUploadResult",
        element("Location", f"{scheme}://{call.request.header('host')}{call.request.raw_path}"),
        element("Bucket", call.bucket),
        element("Key", call.key),
        element("ETag", f'"{etag}"'),
    )


class _Spaces:
    """The answer to a long completion: spaces while the parts are copied, then the result or the error, as in S3.

    A client of a silent answer gives up and asks again. The status is 200 already, so clients look into the answer.
    """

    def __init__(self, call: Call, composing: "asyncio.Task[str]") -> None:
        self._call = call
        self._composing = composing
        self._bytes = self._run()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._bytes)

    async def aclose(self) -> None:
        """End; a client that went away leaves no object."""
        await self._bytes.aclose()
        await _end(self._composing)

    async def _run(self) -> AsyncGenerator[bytes, None]:
        yield DECLARATION
        while not self._composing.done():
            yield b" "
            await asyncio.wait([self._composing], timeout=PULSE_S)
        try:
            answer = _completed(self._call, self._composing.result())
        except PenstockError as error:
            answer = render_xml(self._call.request, error, status_of(error))
        assert isinstance(answer.body, bytes)
        yield answer.body.removeprefix(DECLARATION)


async def _end(composing: "asyncio.Task[str]") -> None:
    composing.cancel()
    await asyncio.wait([composing])


async def abort_upload(call: Call) -> Response:
    await call.uploads.abort(await _find(call))
    return Response(204)


async def list_parts(call: Call) -> Response:
    upload = await _find(call)
    limit = call.number("max-parts", 1000, 1000)
    after = call.number("part-number-marker", 0, PARTS_MAX)
    found = [part for part in await call.uploads.parts(upload) if part.number > after]
    page, rest = found[:limit], found[limit:]
    return xml_response(
        "ListPartsResult",
        element("Bucket", call.bucket),
        element("Key", call.key),
        element("UploadId", upload.id),
        element("PartNumberMarker", after),
        element("NextPartNumberMarker", page[-1].number if page else 0),
        element("MaxParts", limit),
        element("IsTruncated", "true" if rest else "false"),
        element("StorageClass", "STANDARD"),
        *[_row(part) for part in page],
    )


async def list_uploads(call: Call) -> Response:
    """List the first 1000 uploads at most, without paging: the list serves to look at them and abort them."""
    await call.buckets.check_bucket(call.bucket)
    limit = call.number("max-uploads", 1000, 1000)
    found = await call.uploads.under_way(call.bucket, call.query("prefix"), limit)
    rows = [
        element(
            "Upload",
            element("Key", one.key),
            element("UploadId", one.id),
            element("StorageClass", "STANDARD"),
            element("Initiated", iso_time(one.started)),
        )
        for one in found
    ]
    return xml_response(
        "ListMultipartUploadsResult",
        element("Bucket", call.bucket),
        element("Prefix", call.query("prefix")),
        element("MaxUploads", limit),
        element("IsTruncated", "false"),
        *rows,
    )


async def _compose(call: Call, upload: S3Upload, parts: list[Part]) -> str:
    size = call.request.header("x-amz-mp-object-size")
    if size and size != str(sum(part.size for part in parts)):
        raise fault("InvalidRequest", f"the parts have {sum(part.size for part in parts)} bytes, not {size[:20]}")
    if any("-" in value for name, value in call.request.headers.items() if name.startswith("x-amz-checksum-crc")):
        raise fault("NotImplemented", "a checksum of checksums is not supported in a CompleteMultipartUpload request")
    content = _checked(call.uploads.content(parts), given_checksums(call.request.headers))
    try:
        info = await call.buckets.put(
            call.bucket,
            call.key,
            content,
            content_type=upload.content_type,
            metadata=upload.metadata,
            when=call.precondition(),
            etag=composed_etag(parts),
        )
    finally:
        await content.aclose()
    await call.uploads.finish(upload, info.etag)
    return info.etag


async def _checked(
    content: AsyncGenerator[memoryview, None], checksums: list[Checksum]
) -> AsyncGenerator[memoryview, None]:
    """Pass content on, and raise at its end if a checksum of the whole object differs: then nothing is written."""
    async with aclosing(content):
        async for chunk in content:
            for checksum in checksums:
                checksum.update(chunk)
            yield chunk
    for checksum in checksums:
        checksum.check()


async def _find(call: Call) -> S3Upload:
    return await call.uploads.find(call.query("uploadId"), call.bucket, call.key)


def _part_number(call: Call) -> int:
    return call.number("partNumber", 0, PARTS_MAX + 1)


def _wanted(body: bytes) -> list[tuple[int, str]]:
    root = parse(body, "CompleteMultipartUpload")
    found = []
    for one in children(root, "Part"):
        number = text_of(one, "PartNumber").strip()
        if not (number.isascii() and number.isdigit() and len(number) < 7):
            raise fault("MalformedXML", "<PartNumber> is no number")
        found.append((int(number), text_of(one, "ETag").strip().strip('"')))
    return found


async def _bytes_of(opened: Opened) -> AsyncIterator[memoryview]:
    async for chunk in opened.chunks:
        yield chunk


def _row(part: Part) -> str:
    return element(
        "Part",
        element("PartNumber", part.number),
        element("LastModified", iso_time(part.modified)),
        element("ETag", f'"{part.etag}"'),
        element("Size", part.size),
    )
