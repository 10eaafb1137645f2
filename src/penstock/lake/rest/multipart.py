"""The one part of a multipart/form-data body that lakeFS's API has: `content`.

Some clients of lakeFS upload that way, and only small objects: the body is held in memory, up to `FORM_BYTES_MAX`.
Larger ones come as a plain body, which is streamed.
"""

import re
from email.parser import HeaderParser
from typing import Final

from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.http.request import Request

__all__ = ["content_part", "find_part"]

FORM_BYTES_MAX: Final = 64 << 20
_BOUNDARY: Final = re.compile(r'boundary="?([^";]{1,70})"?')


async def content_part(request: Request) -> tuple[bytes, str]:
    """The bytes of the part, and its content type."""
    found = _BOUNDARY.search(request.header("content-type"))
    if found is None:
        raise InvalidArgument("the form has no boundary")
    return find_part(await request.read(FORM_BYTES_MAX), found[1].encode("latin-1"), "content")


def find_part(body: bytes, boundary: bytes, name: str) -> tuple[bytes, str]:
    r"""
    >>> form = b'--x\r\nContent-Disposition: form-data; name="content"\r\n\r\nhello\r\n--x--\r\n'
    >>> find_part(form, b"x", "content")
    (b'hello', '')
    """
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary)[1:]:
        head, gap, data = part.partition(b"\r\n\r\n")
        if not gap:
            continue
        headers = HeaderParser().parsestr(head.decode("latin-1").strip())
        if headers.get_param("name", header="content-disposition") == name:
            return data, headers.get("content-type", "")
    raise InvalidArgument(f"the form has no part {name!r}")
