"""Calls of a lake's REST API, for asyncio: each call becomes a request, each refusal a Penstock error.

async with LakeApi(find_lake()) as api:
    made = await api.call("POST", "/repositories", {"name": "shop", "storage_namespace": ""})
    async for line in api.pages("/repositories/shop/branches"): ...
"""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

import msgspec

from penstock.lake.client.lake import error_of
from penstock.lake.client.lake_place import LakePlace
from penstock.plumbing.http.client import Body, HttpAnswer, HttpClient
from penstock.plumbing.ports.ports import Ports, system_ports
from penstock.plumbing.process.per_process import PerProcess

__all__ = ["LakeApi"]

PAGE: Final = 1000


class LakeApi:
    """One lake's server. For one event loop of each process, and any number of tasks."""

    def __init__(self, place: LakePlace, ports: Ports | None = None) -> None:
        self.place = place
        self.ports = ports or system_ports()
        self._https = PerProcess(lambda: HttpClient(place.url, tls=place.tls))
        self._https.get()  # which refuses what cannot be a URL
        pair = base64.b64encode(f"{place.access_key_id}:{place.secret_access_key}".encode()).decode()
        self._headers = {"authorization": f"Basic {pair}", "x-lakefs-client": "penstock"}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        made = self._https.peek()
        if made is not None:
            await made.close()

    async def call(self, method: str, api: str, body: Any = None, **query: Any) -> Any:
        """Send one request and return its decoded answer: None if it is empty, text if it is no JSON."""
        data = b"" if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"content-type": "application/json"}
        async with self.ask(method, api, data, headers, query) as answer:
            content = await answer.read()
        if not content:
            return None
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return msgspec.json.decode(content) if is_json else content.decode()

    async def pages(self, api: str, *, limit: int | None = None, **query: Any) -> AsyncIterator[dict[str, Any]]:
        """Yield all results of a list, page by page; or the first `limit`."""
        after, left = "", limit
        while left is None or left > 0:
            page = await self.call("GET", api, after=after, amount=min(PAGE, left or PAGE), **query)
            for each in page["results"]:
                yield each
            left = None if left is None else left - len(page["results"])
            if not page["pagination"]["has_more"]:
                return
            after = page["pagination"]["next_offset"]

    @asynccontextmanager
    async def ask(
        self, method: str, api: str, body: Body, headers: Mapping[str, str], query: Mapping[str, Any]
    ) -> AsyncIterator[HttpAnswer]:
        """The answer as it comes, if it is no refusal."""
        given = {name: _text(value) for name, value in query.items() if value not in (None, "")}
        target = f"/api/v1{api}" + (f"?{urlencode(given, quote_via=quote)}" if given else "")
        async with self._https.get().request(method, target, {**self._headers, **headers}, body) as answer:
            if answer.status >= 400:
                raise error_of(answer.status, await answer.read())
            yield answer


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
