"""Serves /metrics, so that neither many scrapes nor strangers hold up the operator's work."""

import asyncio
import hashlib
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from prometheus_client import CONTENT_TYPE_LATEST

from messagestore_operator.kube.client import ApiError, KubeClient
from messagestore_operator.kube.objects import at
from messagestore_operator.kube.ratelimit import TokenBucket

Render = Callable[[], bytes]
"""Makes the page, in any thread; once at a time."""
_REMEMBERED_SECONDS = 60.0
_MOST_REMEMBERED = 1000
_STRANGERS_PER_SECOND, _STRANGERS_AT_ONCE = 5.0, 4
_BURST = 10
_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ANSWER_SECONDS = 5.0
OK, UNAUTHORIZED, FORBIDDEN, TOO_MANY = 200, 401, 403, 429
MOST_CONNECTIONS = 16
"""Connections at once; the kernel keeps as many more waiting, and refuses the others."""
CONNECTION_SECONDS = 10.0
FRESH_SECONDS = 2.0
_REFUSED_SECONDS = 0.1


class Visitors:
    """Checks tokens by TokenReview and SubjectAccessReview, and remembers the result for a while.

    These requests have a rate of their own, so tokens of strangers delay no other work. A token that was allowed before
    is checked again however many strangers ask.
    """

    def __init__(self, client: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client.unlimited(_ANSWER_SECONDS)
        self._clock = clock
        self._remembered: dict[bytes, tuple[float, int]] = {}
        self._strangers = TokenBucket(_STRANGERS_PER_SECOND, _BURST, clock)
        self._asking = 0

    async def authorize(self, authorization: str | None, path: str) -> int:
        """The HTTP status of a GET request for a path, by the bearer token in its header.

        It is TOO_MANY if too many unknown tokens came.

        Raises:
            ApiError: the API server could not be asked.
        """
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return UNAUTHORIZED
        key = hashlib.sha256(f"{path} {token.strip()}".encode()).digest()
        now = self._clock()
        checked_at, status = self._remembered.get(key, (-_REMEMBERED_SECONDS, UNAUTHORIZED))
        if now - checked_at < _REMEMBERED_SECONDS:
            return status
        if status != OK and (self._asking >= _STRANGERS_AT_ONCE or not self._strangers.take()):
            return TOO_MANY
        self._asking += 1
        try:
            status = await self._ask(token.strip(), path)
        finally:
            self._asking -= 1
        self._remember(key, now, status)
        return status

    def _remember(self, key: bytes, now: float, status: int) -> None:
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered = {one: answer for one, answer in self._remembered.items() if answer[1] == OK}
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = now, status

    async def _ask(self, token: str, path: str) -> int:
        review = await self._client.create(
            _REVIEWS, {**_kind("authentication", "TokenReview"), "spec": {"token": token}}
        )
        if at(review, "status", "authenticated") is not True:
            return UNAUTHORIZED
        who = at(review, "status", "user") or {}
        attributes = {
            "user": who.get("username"),
            "uid": who.get("uid"),
            "groups": who.get("groups"),
            "extra": who.get("extra"),
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        spec = {name: value for name, value in attributes.items() if value}
        answer = await self._client.create(
            _ACCESS_REVIEWS, {**_kind("authorization", "SubjectAccessReview"), "spec": spec}
        )
        return OK if at(answer, "status", "allowed") is True else FORBIDDEN


def _kind(group: str, kind: str) -> dict[str, str]:
    return {"apiVersion": f"{group}.k8s.io/v1", "kind": kind}


class Page:
    """The metrics as text, rendered in a thread of its own, once in some seconds for all who ask."""

    def __init__(self, render: Render, clock: Callable[[], float] = time.monotonic) -> None:
        self._render = render
        self._clock = clock
        self._begun = 0.0
        self._rendered: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """The page, at most some seconds old."""
        old = self._clock() - self._begun >= FRESH_SECONDS
        if self._rendered is None or (self._rendered.done() and old):
            self._begun = self._clock()
            self._rendered = asyncio.create_task(asyncio.to_thread(self._render))
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
    render: Render, address: tuple[str, int], tls: ssl.SSLContext | None, visitors: Visitors | None
) -> AsyncIterator[int]:
    """Serve /metrics while the block lasts; gives the port.

    Args:
        visitors: decide who gets figures; None: anyone does.
    """
    page = Page(render)

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
