"""The REST reference names every call there is, and none that is not."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

from penstock.lake.records.service import Lake
from penstock.lake.rest.links import RequestLinks
from penstock.lake.rest.refused import REFUSED
from penstock.lake.rest.rest_commits import CommitHandlers
from penstock.lake.rest.rest_objects import ObjectHandlers
from penstock.lake.rest.rest_refs import RefHandlers
from penstock.lake.rest.rest_sinks import SinkHandlers
from penstock.lake.rest.rest_uploads import UploadHandlers
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response
from penstock.plumbing.ports.ports import system_ports

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "lake-rest.md"
NO_LAKE = cast("Lake", None)  # no handler is called


def test_the_page_and_the_routes_agree() -> None:
    routes: set[str] = set()

    def add(
        method: str, template: str, handler: Callable[[Request], Awaitable[Response]], answer_ms: int | None = None
    ) -> None:
        routes.add(f"{method} {template}")

    links = RequestLinks("secret")
    RefHandlers(NO_LAKE).add_to(add)
    ObjectHandlers(NO_LAKE, links, can_sign=False).add_to(add)
    UploadHandlers(NO_LAKE, links, can_sign=False).add_to(add)
    CommitHandlers(NO_LAKE, system_ports()).add_to(add)
    SinkHandlers(NO_LAKE).add_to(add)
    named = set(re.findall(r"^\| `([A-Z]+ /\S+)` \|", PAGE.read_text(), re.MULTILINE))
    assert {each for each in named if "/repositories" in each} == routes


def test_the_page_has_every_call_that_is_refused() -> None:
    rows = re.findall(r"^\| ([A-Z ]+) `(/\S+)` \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    expected = [(methods, template, what, instead) for template, (methods, (what, instead)) in REFUSED.items()]
    assert [row for row in rows if row[1] in REFUSED] == expected
