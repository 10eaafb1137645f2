"""Router: from a method and a path to a handler, in one walk down a tree of segments.

    router.get("/repositories/{repository}/refs/{ref}/objects", get_object)
    router.put("/journal/{name...}", append)

A template's segments are literal, or `{name}` for one segment, or, as the last, `{name...}` for all the rest. The path
is split before it is decoded, so `%2F` belongs to its segment. A literal segment goes before a named one, and that
before a tail.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from penstock.kernel.errors import NotFound
from penstock.plumbing.http.problems import method_refused
from penstock.plumbing.http.request import Request, decode_part
from penstock.plumbing.http.response import Response

__all__ = ["Handler", "HttpRoute", "Router"]

Handler = Callable[[Request], Awaitable[Response]]

SEGMENTS_MAX: Final = 64  # of a path; only a tail takes the rest in one piece


class HttpRoute(msgspec.Struct, frozen=True):
    """A handler, and how long it may take to the head of its answer. None: as the server's limits say; 0: no limit."""

    template: str
    handler: Handler
    answer_ms: int | None = None


class _Node:
    """A place in the tree: what the next segment may be, and the routes which end here, by method."""

    __slots__ = ("children", "named", "parameter", "routes", "tail", "tail_parameter")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.named: _Node | None = None
        self.parameter = ""
        self.routes: dict[str, HttpRoute] = {}
        self.tail: dict[str, HttpRoute] = {}
        self.tail_parameter = ""


class Router:
    """Routes by method and template. `respond` is what a site needs."""

    def __init__(self) -> None:
        self._root = _Node()

    def get(self, template: str, handler: Handler, *, answer_ms: int | None = None) -> None:
        """A GET route, which answers HEAD too: the edge leaves out the body."""
        self.add("GET", template, handler, answer_ms=answer_ms)
        self.add("HEAD", template, handler, answer_ms=answer_ms)

    def put(self, template: str, handler: Handler, *, answer_ms: int | None = None) -> None:
        self.add("PUT", template, handler, answer_ms=answer_ms)

    def post(self, template: str, handler: Handler, *, answer_ms: int | None = None) -> None:
        self.add("POST", template, handler, answer_ms=answer_ms)

    def delete(self, template: str, handler: Handler, *, answer_ms: int | None = None) -> None:
        self.add("DELETE", template, handler, answer_ms=answer_ms)

    def add(self, method: str, template: str, handler: Handler, *, answer_ms: int | None = None) -> None:
        """A route; a later one for the same method and template replaces it."""
        assert template.startswith("/"), f"a template starts with a slash: {template}"
        node, routes = self._root, None
        segments = template[1:].split("/")
        for at, segment in enumerate(segments):
            if segment.startswith("{") and segment.endswith("...}"):
                assert at == len(segments) - 1, f"a tail is the last segment: {template}"
                node.tail_parameter, routes = segment[1:-4], node.tail
            elif segment.startswith("{"):
                node.named = node.named or _Node()
                node = node.named
                name = segment[1:-1]
                assert node.parameter in ("", name), f"{template}: this segment is {node.parameter!r} elsewhere"
                node.parameter = name
            else:
                node = node.children.setdefault(segment, _Node())
        (node.routes if routes is None else routes)[method] = HttpRoute(template, handler, answer_ms)

    def match(self, method: str, raw_path: str) -> tuple[HttpRoute, dict[str, str]]:
        """The route and its parameters; `NotFound`, or for another method an error with status 405."""
        segments = raw_path[1:].split("/", SEGMENTS_MAX)
        found = _walk(self._root, segments, 0)
        if found is None:
            raise NotFound(f"nothing is at {raw_path[:200]}")
        routes, raw = found
        route = routes.get(method)
        if route is None:
            raise method_refused(method, sorted(routes))
        return route, {name: decode_part(value, "path") for name, value in raw}

    def find(self, request: Request) -> HttpRoute:
        """The route of a request, whose parameters are then filled in."""
        route, request.parameters = self.match(request.method, request.raw_path)
        return route

    async def respond(self, request: Request) -> Response:
        return await self.find(request).handler(request)


Found = tuple[dict[str, HttpRoute], list[tuple[str, str]]]


def _walk(node: _Node, segments: list[str], at: int) -> Found | None:
    """Routes which fit the segments from `at` on, and the raw parameters. At most SEGMENTS_MAX deep."""
    if at == len(segments):
        return (node.routes, []) if node.routes else None
    segment = segments[at]
    child = node.children.get(segment)
    if child is not None and (found := _walk(child, segments, at + 1)) is not None:
        return found
    if node.named is not None and segment and (found := _walk(node.named, segments, at + 1)) is not None:
        found[1].append((node.named.parameter, segment))
        return found
    if node.tail:
        return node.tail, [(node.tail_parameter, "/".join(segments[at:]))]
    return None
