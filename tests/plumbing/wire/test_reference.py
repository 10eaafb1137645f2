"""The reference page says what the code does: its programs run, and no kind, key or limit is missing from it."""

import asyncio
import re
import sys
import types
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.plumbing.wire.harness import Stage

from penstock.plumbing.wire import WireLimits
from penstock.plumbing.wire.limits import SPARE_WINDOW_BYTES
from penstock.plumbing.wire.protocol.flow import CREDIT_MAX, GRANT_PARTS, MESSAGE_COST, WINDOW_BYTES_MAX
from penstock.plumbing.wire.protocol.frames import HEADER_BYTES, FrameKind
from penstock.plumbing.wire.protocol.hello import HELLO_BYTES_MAX, Welcome, WireHello

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "wire.md").read_text(encoding="utf-8")
FIRST, LAST = re.findall(r"^```py(?:thon)?\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_every_kind_has_a_row() -> None:
    rows = re.findall(r"^\| ([A-Z]+) \| (\d+) \|", PAGE, re.MULTILINE)
    assert [(name, int(number)) for name, number in rows] == [(kind.name, kind.value) for kind in FrameKind]


def test_every_key_and_limit_is_named() -> None:
    names = (*WireHello.__struct_fields__, *Welcome.__struct_fields__, *WireLimits.__struct_fields__)
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_the_numbers_are_those_of_the_code() -> None:
    said = ("a header of 24 bytes", "4 KiB", "plus\n64 bytes", "a quarter", "up to 4 MiB", "within 16 MiB", "2^31 - 1")
    assert [sentence for sentence in said if sentence not in PAGE] == []
    assert (HEADER_BYTES, HELLO_BYTES_MAX, MESSAGE_COST, GRANT_PARTS) == (24, 4 << 10, 64, 4)
    assert (WINDOW_BYTES_MAX, SPARE_WINDOW_BYTES, CREDIT_MAX) == (4 << 20, 16 << 20, 2**31 - 1)


def test_the_first_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(FIRST, "wire.md", "exec"), {"__name__": "__main__"})
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("b'")] == [
        "b'hello'",
        "b'0' b'chunk'",
        "b'1' b'chunk'",
        "b'2' b'chunk'",
    ]


async def test_the_smallest_client_is_a_client(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    msgpack: Any = types.ModuleType("msgpack")  # the page uses the common package; ours speaks the same format
    msgpack.packb, msgpack.unpackb = msgspec.msgpack.encode, msgspec.msgpack.decode
    monkeypatch.setitem(sys.modules, "msgpack", msgpack)
    program: dict[str, Any] = {}
    exec(compile(LAST, "wire.md", "exec"), program)
    server = await stage.server(token="secret")
    host, port = server.address.rsplit(":", 1)
    call = program["call"]
    assert await asyncio.to_thread(call, (host, int(port)), "secret", "echo", b"hello") == b"hello"
    with pytest.raises(ConnectionError, match="the token is wrong"):
        await asyncio.to_thread(call, (host, int(port)), "other", "echo", b"hello")
    with pytest.raises(RuntimeError, match="mirror is a stream"):
        await asyncio.to_thread(call, (host, int(port)), "secret", "mirror", b"")
