"""An HTTP endpoint that answers as a test says, and keeps what it was sent."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote


@dataclass(frozen=True)
class Request:
    """One request, with fields in small letters."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def position(self) -> int:
        """The global position of its event."""
        return int(self.attributes["globalposition"])

    @property
    def attributes(self) -> dict[str, Any]:
        """Of its event, in either mode."""
        if self.headers["content-type"].startswith("application/cloudevents+json"):
            attributes: dict[str, Any] = json.loads(self.body)
            return attributes
        return {name[3:]: unquote(value) for name, value in self.headers.items() if name.startswith("ce-")}


@dataclass(frozen=True)
class Answer:
    """A status, or None to close the connection without an answer; after a wait."""

    status: int | None = 202
    headers: dict[str, str] = field(default_factory=dict)
    after: float = 0
    body: bytes = b""


Answers = Callable[[Request], Answer]


@dataclass
class HttpEndpoint:
    """What an endpoint was sent, and how many requests were under way at once, in all and of one stream."""

    url: str = ""
    answer: Answers = lambda _: Answer()
    requests: list[Request] = field(default_factory=list)
    taken: list[Request] = field(default_factory=list)
    most: int = 0
    most_of_stream: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _under_way: list[str] = field(default_factory=list)

    @property
    def positions(self) -> list[int]:
        """Of the events that were taken, in the order of their answers."""
        return [request.position for request in self.taken]

    def handle(self, request: Request) -> Answer:
        """Note a request, and return its answer."""
        stream = str(request.attributes.get("streamname"))
        with self._lock:
            self.requests.append(request)
            self._under_way.append(stream)
            self.most = max(self.most, len(self._under_way))
            self.most_of_stream = max(self.most_of_stream, self._under_way.count(stream))
        answer = self.answer(request)
        time.sleep(answer.after)
        with self._lock:
            self._under_way.remove(stream)
            if answer.status is not None and 200 <= answer.status < 300:
                self.taken.append(request)
        return answer


@contextmanager
def http_endpoint(
    answer: Answers = lambda _: Answer(), *, port: int = 0, certificate: tuple[Path, Path] | None = None
) -> Iterator[HttpEndpoint]:
    """A server on this machine while the block lasts.

    Args:
        certificate: of the server, and its key; without it the server speaks plain HTTP.
    """
    endpoint = HttpEndpoint(answer=answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            given = endpoint.handle(Request(self.path, headers, body))
            if given.status is None:
                self.close_connection = True
                return
            self.send_response(given.status)
            for name, value in given.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(given.body)))
            self.end_headers()
            self.wfile.write(given.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Say nothing of a client that has closed its connection."""

    server = Server(("127.0.0.1", port), Handler)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    endpoint.url = f"{scheme}://127.0.0.1:{server.server_port}/events"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
