"""A site: a set of routes with an error format of its own. Sites share a port."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.plumbing.http.problems import Render, render_json
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.router import HttpRoute

__all__ = ["Finder", "Site"]


class Finder(Protocol):
    """What finds the route of a request: a Router, or a site's own way."""

    def find(self, request: Request) -> HttpRoute: ...


@dataclass(frozen=True, slots=True)
class Site:
    """A set of routes with their own error format. `claims` says which requests are its own; by default, all."""

    name: str
    routes: Finder
    render: Render = render_json
    claims: Callable[[Request], bool] = lambda _: True
