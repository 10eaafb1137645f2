"""A gateway in a thread of its own, for clients which block."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType

import uvloop

from penstock.lake.s3 import Keyring, S3Gateway
from penstock.lake.s3.port import Buckets
from penstock.plumbing.config.secret import Secret
from penstock.plumbing.http.app import App
from penstock.plumbing.http.server import HttpServer
from penstock.plumbing.wire.tls import Tls

KEY, SECRET = "AKIAPENSTOCK", "a secret for tests only"

OpenBuckets = Callable[[], AbstractAsyncContextManager[Buckets]]


class GatewayThread:
    """`with GatewayThread(open_buckets) as url: …`. The buckets are opened and closed in the thread's loop."""

    def __init__(self, open_buckets: OpenBuckets, *, tls: Tls | None = None, domain: str = "") -> None:
        self._open_buckets = open_buckets
        self._tls = tls
        self._domain = domain
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gateway")
        self._url = ""

    def __enter__(self) -> str:
        self._thread.start()
        self._started.wait()
        assert self._url, "the gateway did not start"
        return self._url

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as servers do
            runner.run(self._main())

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with self._open_buckets() as buckets:
                gateway = S3Gateway(buckets, Keyring({KEY: Secret(SECRET)}), domain=self._domain)
                server = await HttpServer.start(App([gateway.site(is_alone=True)]), tls=self._tls)
                self._url = server.url
                self._started.set()
                await self._stop.wait()
                await server.close(drain_s=1)
        finally:
            self._started.set()
