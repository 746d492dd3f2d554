"""A server may take its time: a copy of a large object, say, is answered once it has been made."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.storage import Storage
from support.objectstore import ENVIRONMENT, RIGHT

SECONDS = 5
"""Longer than pyarrow waits by default."""


class _Slow(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        time.sleep(SECONDS)
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.send_header("Last-Modified", "Mon, 05 Jan 2026 11:00:00 GMT")
        self.send_header("ETag", '"e"')
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_answer_after_five_seconds_is_heard(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    storage = Storage([StorageEntry(bucket="lake", endpoint=endpoint, path_style_access=True, environment=RIGHT)])
    assert storage.filesystem("s3a://lake/large").get_file_info("lake/large").size == 3
    assert storage.bucket("s3a://lake/large").mark("large") == b'"e" 3 2026-01-05T11:00:00+00:00'
