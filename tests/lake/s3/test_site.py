import asyncio
import base64
from pathlib import Path
from typing import Any

import msgspec
from tests.lake.member.lakes import running_lake
from tests.lake.s3.conftest import client_of
from tests.lake.s3.harness import KEY, SECRET
from tests.plumbing.http.harness import connect

from penstock.lake.rest.credentials import Credentials
from penstock.plumbing.http.server import HttpServer
from penstock.server.lake_site import lake_app


def put_and_get(url: str) -> bytes:
    s3: Any = client_of(url)
    try:
        s3.put_object(Bucket="shop", Key="main/prices.csv", Body=b"kettle,39.90\n", IfNoneMatch="*")
        body: bytes = s3.get_object(Bucket="shop", Key="main/prices.csv")["Body"].read()
        return body
    finally:
        s3.close()


async def test_rest_and_s3_share_a_port_and_the_keys(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        app = lake_app(lake, Credentials(KEY, SECRET), f"file://{tmp_path}/objects")
        async with await HttpServer.start(app) as server, connect(server) as client:
            assert await asyncio.to_thread(put_and_get, server.url) == b"kettle,39.90\n"
            pair = base64.b64encode(f"{KEY}:{SECRET}".encode()).decode()
            path = "/api/v1/repositories/shop/refs/main/objects/stat?path=prices.csv"
            answer = await client.ask(f"GET {path} HTTP/1.1\r\nauthorization: Basic {pair}\r\n\r\n".encode())
    assert msgspec.json.decode(answer.body)["size_bytes"] == 13
