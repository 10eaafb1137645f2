"""The HTTP edge: one small server for all our HTTP, and what its sites are written with."""

from penstock.web.http.app import App, Site
from penstock.web.http.limits import HttpLimits
from penstock.web.http.request import Request
from penstock.web.http.response import Response, json_response, text_response
from penstock.web.http.router import Route, Router
from penstock.web.http.server import HttpServer

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
