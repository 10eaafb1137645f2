"""`/livez`, `/readyz` and `/healthz` on the HTTP port of the lake, as on the metrics port."""

from hmac import compare_digest

import msgspec

from penstock.plumbing.http.app import Site
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response
from penstock.plumbing.http.router import Router
from penstock.plumbing.process.health import Health, answer_of

__all__ = ["health_site"]

PATHS = ("/livez", "/readyz", "/healthz")


class HealthParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The query of a question."""

    role: str = ""


def health_site(health: Health, token: str = "") -> Site:
    """Return the three answers as a site. With a token, they are one word for requests that do not bring it."""

    async def answer(request: Request) -> Response:
        credential = request.header("authorization").encode()
        shows_all = not token or compare_digest(credential, f"Bearer {token}".encode())
        role = request.query_as(HealthParameters).role
        found = answer_of(health, request.raw_path, role, shows_all=shows_all)
        assert found is not None, "only the three paths lead here"
        status, text, is_json = found
        kind = "application/json" if is_json else "text/plain; charset=utf-8"
        return Response(status, text.encode(), {"content-type": kind, "cache-control": "no-store"})

    router = Router()
    for path in PATHS:
        router.get(path, answer)
    return Site("health", router, claims=lambda request: request.raw_path in PATHS)
