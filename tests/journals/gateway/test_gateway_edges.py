"""For every input over HTTP there is an answer that names the problem, and the gateway continues."""

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.journals.gateway.test_gateway import error_of, gateway, get, put
from tests.plumbing.http.harness import connect

NUMBERS = st.integers(-3, 30) | st.integers(-(1 << 70), 1 << 70)
ODD = st.text(max_size=6) | st.text("ab=!,()/ ", max_size=8)
PARAMETERS = st.sampled_from(["offset", "end", "timeout", "selector", "x"])
QUERIES = st.lists(
    st.tuples(PARAMETERS, NUMBERS.map(str) | ODD | st.sampled_from(["true", "1e9", "nan", ""])), max_size=3
)
HEADERS = st.dictionaries(
    st.sampled_from(
        ["x-check-offset", "x-check-registers", "x-union-registers", "x-subtract-registers", "x-txn", "range"]
    ),
    NUMBERS.map(str) | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12),
    max_size=2,
)
NAMES = (
    st.just("shop/orders") | ODD | st.sampled_from(["..", "../../etc/passwd", "%2e%2e", "shop//orders", "shop/orders/"])
)
REQUESTS = st.tuples(st.sampled_from(["GET", "PUT", "HEAD", "POST", "LIST"]), NAMES, QUERIES, HEADERS)
Requested = tuple[str, str, list[tuple[str, str]], dict[str, str]]


def drawn() -> list[Requested]:
    requests: list[Requested] = []

    @settings(max_examples=150, database=None, suppress_health_check=list(HealthCheck), deadline=None)
    @given(REQUESTS)
    def collect(request: Requested) -> None:
        requests.append(request)

    collect()
    return requests


def raw(request: Requested) -> bytes:
    method, name, query, headers = request
    asked = "&".join(f"{key}={quote(value, errors='replace')}" for key, value in query)
    lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    body = "content-length: 1\r\n" if method in ("PUT", "POST") else ""
    path = quote(name, safe="/%.", errors="replace")
    return f"{method} /journal/{path}?{asked} HTTP/1.1\r\n{lines}{body}\r\n{'x' if body else ''}".encode()


async def test_every_request_has_an_answer_and_none_is_a_defect(tmp_path: Path) -> None:
    requests = drawn()
    async with gateway(tmp_path) as server:
        defects: list[tuple[Requested, int]] = []
        for request in requests:
            async with connect(server) as client:
                answer = await client.ask(raw(request), head_only=True)
                if answer.status >= 500:
                    defects.append((request, answer.status))
        assert defects == []
        async with connect(server) as client:
            assert (await put(client, b"still here")).status == 204


@pytest.mark.parametrize(("query", "status"), [("?offset=5&end=3", 400), ("?offset=-1&end=3", 416)])
async def test_a_span_which_ends_before_it_begins_is_refused(tmp_path: Path, query: str, status: int) -> None:
    async with gateway(tmp_path) as server, connect(server) as client:
        await put(client, b"hello world")
        assert error_of(await get(client, query))[:2] == (status, "invalid-argument")
