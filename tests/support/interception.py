"""A proxy that can hold one request while something else happens, and that can break connections."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

_BLOCK = 1 << 16


class Interception:
    """Forwards everything; before the first request that begins with some bytes, it calls a function once.

    Requests within TLS can't be recognised, but their connections can be broken.
    """

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname or "", parts.port or 80)
        self._armed: tuple[bytes, Callable[[], object]] | None = None
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._down = False
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def before(self, request: str, act: Callable[[], object]) -> None:
        """Call ``act`` while the first request that begins with method and path is held."""
        self._armed = (request.encode(), act)

    @property
    def armed(self) -> bool:
        """Whether the request has not come yet."""
        return self._armed is not None

    def break_down(self) -> None:
        """Break all connections, and accept none until :meth:`mend`."""
        self._down = True
        self.cut()

    def mend(self) -> None:
        """Accept connections again."""
        self._down = False

    def cut(self) -> None:
        """Break all connections."""
        broken, self._open = self._open, []
        for one in broken:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                server = None if self._down else socket.create_connection(self._target)
            except OSError:
                server = None
            if server is None:
                client.close()
                continue
            self._open += [client, server]
            threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, requests: bool) -> None:
        try:
            while block := source.recv(_BLOCK):
                if requests:
                    self._act(block)
                sink.sendall(block)
        except OSError:
            pass
        finally:
            for one in (source, sink):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def _act(self, block: bytes) -> None:
        with self._lock:
            armed = self._armed
            if armed is None or not block.startswith(armed[0]):
                return
            self._armed = None
        armed[1]()


@contextmanager
def intercepting(endpoint: str) -> Iterator[Interception]:
    """A proxy for the store at an endpoint."""
    interception = Interception(endpoint)
    try:
        yield interception
    finally:
        interception.close()
