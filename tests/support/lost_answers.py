"""A proxy for an object store that loses answers: requests are carried out, and the client gets no answer.

It is a separate process, as delta-rs blocks Python while it waits for some answers.
"""

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

_BLOCK = 1 << 16
_VARYING = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8,}|[0-9]+")
_WRITES = ("PUT", "POST", "DELETE")


@dataclass
class Lossy:
    """The proxy: it loses the first answer of each kind of write, which is method and path without numbers."""

    endpoint: str
    _lost: Path

    def lost(self) -> list[str]:
        """The kinds whose answers were lost."""
        return self._lost.read_text().splitlines()

    def forget(self) -> None:
        """Lose one more answer of each kind."""
        self._lost.write_text("")


@contextmanager
def losing(endpoint: str, lost: Path) -> Iterator[Lossy]:
    """A proxy for the store at an endpoint; it writes lost kinds to a file."""
    lost.write_text("")
    command = [sys.executable, "-m", "support.lost_answers", endpoint, str(lost)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Lossy(process.stdout.readline().strip(), lost)
        finally:
            process.terminate()


class _Proxy:
    def __init__(self, target: str, lost: Path) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname or "", parts.port or 80)
        self._lost = lost
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            client, _ = self._server.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Serve one connection, on which each request comes after the answer to the one before it."""
        with client, socket.create_connection(self._target) as server:
            state = _Connection()
            threading.Thread(target=self._ask, args=(client, server, state), daemon=True).start()
            with suppress(OSError):
                self._answer(client, server, state)
            for one in (client, server):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def _answer(self, client: socket.socket, server: socket.socket, state: "_Connection") -> None:
        while block := server.recv(_BLOCK):
            if not block.startswith(b"HTTP/1.1 100"):
                if state.doomed:
                    return
                state.asking = False
            client.sendall(block)

    def _ask(self, client: socket.socket, server: socket.socket, state: "_Connection") -> None:
        with suppress(OSError):
            while block := client.recv(_BLOCK):
                if not state.asking:
                    state.asking = True
                    state.doomed = self._is_lost(block)
                server.sendall(block)
            server.shutdown(socket.SHUT_RDWR)

    def _is_lost(self, request: bytes) -> bool:
        method, target, _ = request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        kind = f"{method} {_VARYING.sub('#', urlsplit(target).path)}"
        with self._lock:
            if method not in _WRITES or kind in self._lost.read_text().splitlines():
                return False
            with self._lost.open("a") as told:
                told.write(f"{kind}\n")
            return True


class _Connection:
    asking = False
    """Whether the answer to a request is still to come."""
    doomed = False


def main() -> None:
    proxy = _Proxy(sys.argv[1], Path(sys.argv[2]))
    sys.stdout.write(f"{proxy.endpoint}\n")
    sys.stdout.flush()
    proxy.serve()


if __name__ == "__main__":
    main()
