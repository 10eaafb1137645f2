"""lakeFS's REST API, version 1, on the lake's service: the unmodified Python packages of lakeFS work with it.

Reference: docs/reference/lake-rest.md. Handlers translate and nothing else: a path, a query and a body become a call of
`service.Lake`, its answer becomes JSON, and an error becomes {"message": …} under the status lakeFS has for it.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from penstock.kernel.errors import (
    AlreadyExists,
    DirtyBranch,
    MergeConflict,
    NoChanges,
    PenstockError,
    StagedFileMissing,
    TableChanged,
)
from penstock.lake.records.service import Lake
from penstock.lake.rest.credentials import Credentials
from penstock.lake.rest.links import RequestLinks
from penstock.lake.rest.refused import add_refused
from penstock.lake.rest.rest_commits import CommitHandlers
from penstock.lake.rest.rest_models import LoginBody
from penstock.lake.rest.rest_objects import ObjectHandlers
from penstock.lake.rest.rest_refs import BASE, Add, RefHandlers
from penstock.lake.rest.rest_sinks import SinkHandlers
from penstock.lake.rest.rest_uploads import UploadHandlers
from penstock.lake.rest.words import message_of
from penstock.plumbing.http.app import Site
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response, json_response
from penstock.plumbing.http.router import Router
from penstock.plumbing.ports.ports import Clocks, Ports, system_ports

__all__ = ["BASE", "rest_site"]

VERSION: Final = "1.84.0"  # of lakeFS, whose API this is
_STATUSES: Final[dict[type[PenstockError], int]] = {
    NoChanges: 400,
    DirtyBranch: 400,
    MergeConflict: 409,
    StagedFileMissing: 409,
    TableChanged: 409,
    AlreadyExists: 409,
}
STATISTICS_BYTES_MAX: Final = 1 << 20
Handler = Callable[[Request], Awaitable[Response]]


def rest_site(
    lake: Lake, credentials: Credentials, *, namespace_prefix: str, can_sign: bool, ports: Ports | None = None
) -> Site:
    """The site of one lake, for all paths below /api/v1."""
    router = Router()
    lake = lake.asked_by(credentials.user)
    ports = ports or system_ports()
    links = RequestLinks(credentials.secret_access_key, ports.clock)
    usage = Usage(credentials.access_key_id, ports.clock)
    general = _General(credentials, namespace_prefix, usage)

    def guarded(handler: Handler) -> Handler:
        async def checked(request: Request) -> Response:
            if not links.holds(request):
                credentials.check(request)
            usage.count()
            return await handler(request)

        return checked

    def add(method: str, template: str, handler: Handler, answer_ms: int | None = None) -> None:
        routes = {"GET": router.get, "POST": router.post, "PUT": router.put, "DELETE": router.delete}
        routes[method](BASE + template, guarded(handler), answer_ms=answer_ms)

    router.get(f"{BASE}/healthcheck", general.health)
    router.post(f"{BASE}/auth/login", general.login)
    router.get(f"{BASE}/setup_lakefs", general.setup)
    add("GET", "/config", general.config)
    add("GET", "/config/version", general.version)
    add("GET", "/config/storage", general.storage)
    add("GET", "/user", general.user)
    add("GET", "/auth/capabilities", general.capabilities)
    add("POST", "/statistics", general.statistics)
    add("GET", "/usage-report/summary", general.usage)
    parts: tuple[_Part, ...] = (
        RefHandlers(lake),
        ObjectHandlers(lake, links, can_sign=can_sign),
        UploadHandlers(lake, links, can_sign=can_sign),
        CommitHandlers(lake, ports),
        SinkHandlers(lake),
    )
    for part in parts:
        part.add_to(add)
    add_refused(add)
    return Site("lake-rest", router, _render, lambda request: request.raw_path.startswith(BASE + "/"))


def _render(request: Request, error: PenstockError, status: int) -> Response:
    own = next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), status)
    # `message` is all that lakeFS's clients read; ours make the same error of the rest.
    body: dict[str, Any] = {"message": message_of(error), "penstock": error.to_record()}
    if isinstance(error, MergeConflict):
        body["reference"] = ""
    response = json_response(body, own)
    if own == 416:
        response.headers["content-range"] = f"bytes */{error.details.get('size', '*')}"
    if own == 401:
        response.headers["www-authenticate"] = 'Basic realm="penstock lake"'
    return response


class Usage:
    """The number of answered requests by month: lakeFS's usage report. A restart forgets it."""

    def __init__(self, installation: str, clock: Clocks) -> None:
        self._clock = clock
        self._installation = installation
        self._months: Counter[tuple[int, int]] = Counter()

    def count(self) -> None:
        now = datetime.fromtimestamp(self._clock.time_ns() / 1e9, UTC)
        self._months[now.year, now.month] += 1

    def summary(self) -> dict[str, object]:
        counts = sorted(self._months.items())
        reports = [{"year": year, "month": month, "count": count} for (year, month), count in counts]
        return {"installation_id": self._installation, "reports": reports}


class _Part(Protocol):
    def add_to(self, add: Add) -> None: ...


class _General:
    """Operations outside of any repository."""

    def __init__(self, credentials: Credentials, namespace_prefix: str, usage: Usage) -> None:
        self._credentials = credentials
        self._prefix = namespace_prefix
        self._usage = usage

    async def health(self, request: Request) -> Response:
        return Response(204)

    async def setup(self, request: Request) -> Response:
        login = {"RBAC": "none", "login_url": "", "logout_url": "", "login_cookie_names": []}
        return json_response({"state": "initialized", "comm_prefs_missing": False, "login_config": login})

    async def login(self, request: Request) -> Response:
        body = await request.json(LoginBody)
        token, ends_at = self._credentials.login(body.access_key_id, body.secret_access_key)
        return json_response({"token": token, "token_expiration": ends_at})

    async def user(self, request: Request) -> Response:
        return json_response({"user": {"id": self._credentials.user, "creation_date": 0}})

    async def version(self, request: Request) -> Response:
        return json_response({"version": VERSION})

    async def config(self, request: Request) -> Response:
        storage = self._storage()
        # Both forms: clients that know of several stores look for theirs in the list, others take the one.
        return json_response(
            {"version_config": {"version": VERSION}, "storage_config": storage, "storage_config_list": [storage]}
        )

    async def storage(self, request: Request) -> Response:
        return json_response(self._storage())

    async def capabilities(self, request: Request) -> Response:
        return json_response({"invite_user": False, "forgot_password": False})

    async def usage(self, request: Request) -> Response:
        return json_response(self._usage.summary())

    async def statistics(self, request: Request) -> Response:
        """Take what clients report of themselves, and keep nothing of it."""
        await request.read(STATISTICS_BYTES_MAX)
        return Response(204)

    def _storage(self) -> dict[str, object]:
        kind = self._prefix.partition(":")[0]
        return {
            "blockstore_type": kind,
            "blockstore_namespace_example": f"{self._prefix}example",
            "blockstore_namespace_ValidityRegex": f"^{self._prefix}",
            "default_namespace_prefix": self._prefix.rstrip("/") if kind != "local" else "local:/",
            "pre_sign_support": True,
            "pre_sign_support_ui": False,
            "import_support": True,
            "import_validity_regex": f"^{self._prefix}",
            "pre_sign_multipart_upload": True,
            "blockstore_id": "",
            "blockstore_description": "",
        }
