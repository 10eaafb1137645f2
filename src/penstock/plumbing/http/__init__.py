"""The HTTP edge: one small server for all our HTTP, and what its sites are written with."""

from penstock.plumbing.http.app import App, Site
from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response, json_response, text_response
from penstock.plumbing.http.router import Route, Router
from penstock.plumbing.http.server import HttpServer

__all__ = [
    "App",
    "HttpLimits",
    "HttpServer",
    "Request",
    "Response",
    "Route",
    "Router",
    "Site",
    "json_response",
    "text_response",
]
