"""XML, as little of it as S3 needs: elements written as text, and two kinds of request bodies read.

Nothing is indented, because a widespread Java client takes white space for content. A body with a document type is
refused before it is parsed: entities have no place in it.
"""

import re
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree

from penstock.kernel.errors import InvalidArgument

__all__ = ["DECLARATION", "XML_TYPE", "children", "document", "element", "escape", "parse", "text_of"]

XML_TYPE: Final = "application/xml"
DECLARATION: Final = b'<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"

# XML 1.0 cannot spell these at all, not even escaped; a listing without encoding-type=url must not break on one.
_UNSPEAKABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


class Markup(str):
    """Text which is XML already."""

    __slots__ = ()


def escape(text: str) -> str:
    tidy = _UNSPEAKABLE.sub("\ufffd", text)
    tidy = tidy.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    return tidy.replace("\r", "&#13;")


def element(name: str, *content: str | int | None) -> Markup:
    """An element. Text in it is escaped, elements stay as they are, None is left out.

    >>> element("Key", "a<b"), element("Page", element("N", 1), None)
    ('<Key>a&lt;b</Key>', '<Page><N>1</N></Page>')
    """
    inner = "".join(one if isinstance(one, Markup) else escape(str(one)) for one in content if one is not None)
    return Markup(f"<{name}>{inner}</{name}>")


def document(name: str, *content: str | int | None) -> bytes:
    """A whole answer."""
    inner = element(name, *content)
    start = f'<{name} xmlns="{NAMESPACE}">'
    return DECLARATION + (start + inner[len(name) + 2 :]).encode()


def parse(body: bytes, name: str) -> ElementTree.Element:
    """The root of a body, which must have this name, in any namespace."""
    if b"<!" in body.replace(b"<!--", b""):
        raise InvalidArgument("the body has a document type or CDATA, which is not taken", s3="MalformedXML")
    try:
        root = ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise InvalidArgument(f"the body is no XML: {error}", s3="MalformedXML") from None
    if _local(root.tag) != name:
        raise InvalidArgument(f"the body is no <{name}>", s3="MalformedXML")
    return root


def children(parent: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    return (child for child in parent if _local(child.tag) == name)


def text_of(parent: ElementTree.Element, name: str, default: str | None = None) -> str:
    """The text of the only child with this name."""
    found = next(children(parent, name), None)
    if found is not None:
        return found.text or ""
    if default is None:
        raise InvalidArgument(f"<{_local(parent.tag)}> has no <{name}>", s3="MalformedXML")
    return default


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
