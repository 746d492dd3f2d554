"""Serves /metrics, so that neither many scrapes nor strangers hold up the operator's work."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from messagestore_operator.cluster.client import ApiError
from messagestore_operator.cluster.visitors import OK, Visitors

MOST_CONNECTIONS = 16
"""Connections at once; the kernel keeps as many more waiting, and refuses the others."""
CONNECTION_SECONDS = 10.0
FRESH_SECONDS = 2.0
_REFUSED_SECONDS = 0.1


class Page:
    """The metrics as text, rendered in a thread of its own, once in some seconds for all who ask."""

    def __init__(self, figures: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._figures = figures
        self._clock = clock
        self._begun = 0.0
        self._rendered: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """The page, at most some seconds old."""
        old = self._clock() - self._begun >= FRESH_SECONDS
        if self._rendered is None or (self._rendered.done() and old):
            self._begun = self._clock()
            self._rendered = asyncio.create_task(asyncio.to_thread(generate_latest, self._figures))
        # One who leaves ends the rendering for nobody else.
        return await asyncio.shield(self._rendered)


class _Server(web.Server):
    """Knows when a connection has ended."""

    def __init__(self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        super().__init__(handler, access_log=None)
        self.ended: dict[RequestHandler, asyncio.Event] = {}

    def __call__(self) -> RequestHandler:
        handler = super().__call__()
        self.ended[handler] = asyncio.Event()
        return handler

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self.ended[handler].set()


class Listener:
    """Accepts connections while there is room; none lasts for longer than some seconds, its handshake included.

    Args:
        tls: for HTTPS; None for plain HTTP.
        seconds: how long a connection may last.
    """

    def __init__(
        self,
        respond: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        tls: ssl.SSLContext | None = None,
        seconds: float = CONNECTION_SECONDS,
    ) -> None:
        self._server = _Server(respond)
        self._tls = tls
        self._seconds = seconds
        self._room = asyncio.Semaphore(MOST_CONNECTIONS)

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._server.ended)

    async def accept(self, listening: socket.socket) -> None:
        """Serve for ever."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as served:
            while True:
                await self._room.acquire()
                try:
                    connection, _ = await loop.sock_accept(listening)
                except OSError:
                    # The client has left, or the process has no more file descriptors.
                    self._room.release()
                    await asyncio.sleep(_REFUSED_SECONDS)
                    continue
                served.create_task(self._serve(connection))

    async def _serve(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        handler = self._server()
        ended = self._server.ended[handler]
        try:
            # A handshake that fails, and one who stays, end alike.
            with suppress(OSError):
                async with asyncio.timeout(self._seconds):
                    await loop.connect_accepted_socket(lambda: handler, connection, ssl=self._tls)
                    await ended.wait()
        finally:
            if handler.transport is not None:
                handler.transport.abort()
            del self._server.ended[handler]
            self._room.release()


@asynccontextmanager
async def served(
    figures: CollectorRegistry, address: tuple[str, int], tls: ssl.SSLContext | None, visitors: Visitors | None
) -> AsyncIterator[int]:
    """Serve /metrics while the block lasts; gives the port.

    Args:
        visitors: decide who gets figures; None: anyone does.
    """
    page = Page(figures)

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        answer = await _answer(request, page, visitors)
        # So nobody keeps a connection until the next scrape.
        answer.force_close()
        return answer

    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.create_server(address, family=family, backlog=MOST_CONNECTIONS) as listening:
        listening.setblocking(False)
        accepting = asyncio.create_task(Listener(respond, tls).accept(listening))
        try:
            yield int(listening.getsockname()[1])
        finally:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)


async def _answer(request: web.BaseRequest, page: Page, visitors: Visitors | None) -> web.StreamResponse:
    if request.path != "/metrics":
        return web.Response(status=404)
    if request.method not in ("GET", "HEAD"):
        return web.Response(status=405, headers={"Allow": "GET, HEAD"})
    if visitors is not None:
        try:
            status = await visitors.authorize(request.headers.get("Authorization"), request.path)
        except ApiError:
            return web.Response(text="the API server can't be asked", status=503)
        if status != OK:
            return web.Response(status=status)
    return web.Response(body=await page.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})
