"""A lake's server as a process of its own, which tests start, kill and start again."""

import base64
import http.client
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

KEY = "AKIAIOSFOLQUICKSTART"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
AUTHORIZATION = "Basic " + base64.b64encode(f"{KEY}:{SECRET}".encode()).decode()
_URL = re.compile(r"serves REST and S3 on (http://\S+),")


class LakeProcess:
    """`penstock lake serve` in a folder: alone, or on the queue which the flags name."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self.flags = flags or ("--alone",)
        self.url = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until it says where it serves."""
        environment = {
            **os.environ,
            "PENSTOCK_DATA_FOLDER": str(self.folder),
            "PENSTOCK_LAKE_ACCESS_KEY_ID": KEY,
            "PENSTOCK_LAKE_SECRET_ACCESS_KEY": SECRET,
            "PENSTOCK_LOG_LEVEL": "warning",
        }
        command = [sys.executable, "-m", "penstock", "lake", "serve", *self.flags, "--listen", "127.0.0.1:0"]
        self._process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
            found = _URL.search("".join(said).replace("\n", " "))
            if found is not None:
                self.url = found[1]
                return
        raise AssertionError(f"the server did not start: {''.join(said)}")

    def call(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
        """One request, and its answer: status, headers, body. `OSError` or `HTTPException` if none comes."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        try:
            sent = {"authorization": AUTHORIZATION} | {name.replace("_", "-"): text for name, text in headers.items()}
            connection.request(method, f"/api/v1{path}", body, sent)
            answer = connection.getresponse()
            return answer.status, {name.lower(): text for name, text in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def kill(self) -> None:
        """As a power failure would, but for what the system has already been given."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._end()

    def _end(self) -> None:
        assert self._process is not None
        self._process.wait(30)
        assert self._process.stderr is not None
        self._process.stderr.close()
        self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._end()
