from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import PenstockError
from penstock.lake.s3.xml import children, document, element, parse, text_of


@given(st.text())
def test_any_text_makes_well_formed_xml(text: str) -> None:
    root = ElementTree.fromstring(document("List", element("Key", text)))
    shown = root[0].text or ""
    if text.isprintable():
        assert shown == text


def test_elements_are_read_whatever_their_namespace() -> None:
    body = (
        b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Object><Key>a&amp;b</Key></Object><Quiet/></Delete>'
    )
    root = parse(body, "Delete")
    assert [text_of(one, "Key") for one in children(root, "Object")] == ["a&b"]
    assert text_of(root, "Quiet") == ""
    assert text_of(root, "Missing", "x") == "x"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<Delete>",
        b"<Other/>",
        b"\xff\xfe",
        b'<?xml version="1.0" encoding="no-such"?><Delete/>',
        b'<!DOCTYPE x [<!ENTITY a "aaaa">]><Delete>&a;</Delete>',
    ],
)
def test_bad_bodies_are_malformed(body: bytes) -> None:
    with pytest.raises(PenstockError) as caught:
        parse(body, "Delete")
    assert caught.value.details["s3"] == "MalformedXML"


def test_a_missing_element_is_named() -> None:
    with pytest.raises(PenstockError, match="<Object> has no <Key>"):
        text_of(next(children(parse(b"<Delete><Object/></Delete>", "Delete"), "Object")), "Key")
