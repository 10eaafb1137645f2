"""An S3 server for `scripts/lakefs-suites`: prints its port, serves until its standard input is closed.

It has the bucket which the wrapper's tests import from, with as many objects as they expect there, and enough of them
below for an import to last longer than the second after which it is cancelled. The lake is in the same bucket, since
imports take objects of the lake's own store.
"""

import logging
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import make_server

BUCKET = "esti-system-testing-data"
FOLDERS = ["prefix-1", "prefix-2", *(f"nested/prefix-{number}" for number in range(1, 8))]
OBJECTS_EACH = 2100


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    store = s3_backends["123456789012"]["aws"]
    store.create_bucket(BUCKET, "us-east-1")
    for folder in FOLDERS:
        for number in range(1, OBJECTS_EACH + 1):
            store.put_object(BUCKET, f"import-test-data/{folder}/file{number:06}", b"x")
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
