import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.plumbing.http.problems import status_of
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response
from penstock.plumbing.http.router import Router


async def handler(_: Request) -> Response:
    return Response()


def router(*templates: str) -> Router:
    made = Router()
    for template in templates:
        made.get(template, handler)
    return made


ROUTES = router(
    "/",
    "/repositories",
    "/repositories/{repository}",
    "/repositories/{repository}/branches",
    "/repositories/{repository}/refs/{ref}/objects",
    "/repositories/{repository}/refs/main/log",
    "/journal/{name...}",
    "/journal/list/all",
)


@pytest.mark.parametrize(
    ("path", "template", "parameters"),
    [
        ("/", "/", {}),
        ("/repositories", "/repositories", {}),
        ("/repositories/shop", "/repositories/{repository}", {"repository": "shop"}),
        ("/repositories/a%2Fb", "/repositories/{repository}", {"repository": "a/b"}),
        ("/repositories/%C3%A9", "/repositories/{repository}", {"repository": "é"}),
        (
            "/repositories/shop/refs/main/objects",  # the literal "main" leads nowhere here
            "/repositories/{repository}/refs/{ref}/objects",
            {"repository": "shop", "ref": "main"},
        ),
        ("/repositories/s/refs/main/log", "/repositories/{repository}/refs/main/log", {"repository": "s"}),
        ("/journal/a/b//c", "/journal/{name...}", {"name": "a/b//c"}),
        ("/journal/", "/journal/{name...}", {"name": ""}),
        ("/journal/list/all", "/journal/list/all", {}),
        ("/journal/list/al", "/journal/{name...}", {"name": "list/al"}),
        ("/journal/" + "x/" * 200, "/journal/{name...}", {"name": "x/" * 200}),
    ],
)
def test_a_path_finds_its_route(path: str, template: str, parameters: dict[str, str]) -> None:
    route, found = ROUTES.match("GET", path)
    assert (route.template, found) == (template, parameters)


@pytest.mark.parametrize(
    "path", ["/x", "/repositories/", "/repositories/a/b", "/repositories//branches", "//", "/" * 99]
)
def test_other_paths_are_not_found(path: str) -> None:
    with pytest.raises(NotFound):
        ROUTES.match("GET", path)


def test_another_method_is_told_which_there_are() -> None:
    with pytest.raises(InvalidArgument, match="PATCH is not allowed here; GET, HEAD is") as caught:
        ROUTES.match("PATCH", "/repositories")
    assert status_of(caught.value) == 405


def test_a_parameter_must_be_utf8() -> None:
    with pytest.raises(InvalidArgument, match="not UTF-8"):
        ROUTES.match("GET", "/repositories/%ff")


def test_one_place_has_one_parameter_name() -> None:
    with pytest.raises(AssertionError, match="is 'a' elsewhere"):
        router("/x/{a}", "/x/{b}/y")


@given(st.text(alphabet="/ax%{}.é", max_size=40))
def test_any_path_finds_a_route_or_a_refusal(path: str) -> None:
    with contextlib.suppress(NotFound, InvalidArgument):
        ROUTES.match("GET", "/" + path)
