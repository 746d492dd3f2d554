"""The operator's health, and the web servers for probes and metrics.

Any answer shows that the process is alive: the event loop that does the work serves the probes. Late work makes a
replica unready and fires an alert, but never ends it: another replica would have the same work, and would have to read
everything first.

Kopf serves probes only while it watches, but a replica that waits for the lead needs them, too.
"""

import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from messagestore_operator.kube import scrapes
from messagestore_operator.kube.scrapes import Visitors


class Health:
    """The health of the process, by its recent work.

    Args:
        stalled_after: how many seconds late work may be.
        resync: seconds between two lists of everything.
    """

    def __init__(self, stalled_after: float, resync: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._stalled_after = stalled_after
        self._resync = resync
        self._clock = clock
        self._busy: dict[object, float] = {}
        self._synced: float | None = None
        self._misses = 0
        self.waiting_to_lead = False
        self.unread = ""
        """Why objects could not be read yet."""
        self.lateness: Callable[[], float] = lambda: 0.0

    def begin(self, work: object) -> None:
        """A worker has started on a key."""
        self._busy[work] = self._clock()

    def end(self, work: object) -> None:
        """A worker has finished a key."""
        self._busy.pop(work, None)

    def synced(self, missed: int = 0) -> None:
        """Everything was listed; ``missed`` changes had not been shown by any watch."""
        self._synced = self._clock()
        self._misses = self._misses + 1 if missed else 0

    def problems(self) -> list[str]:
        """What is late, in words; empty if nothing is. A replica that waits for the lead has no work.

        Metrics are rendered in another thread, so this may be called in any.
        """
        if self.waiting_to_lead or self._synced is None:
            return []
        now, problems = self._clock(), list[str]()
        if (late := self.lateness()) > self._stalled_after:
            problems.append(f"a resource has been due for {late:.0f} s")
        longest = max((now - since for since in list(self._busy.values())), default=0.0)
        if longest > self._stalled_after:
            problems.append(f"reconciling a resource has lasted {longest:.0f} s")
        if now - self._synced > 2 * self._resync + self._stalled_after:
            problems.append(f"everything was last read {now - self._synced:.0f} s ago")
        if self._misses > 1:
            problems.append("watches have missed changes, twice in a row")
        return problems

    def unready(self) -> list[str]:
        """Why the replica is not ready, in words."""
        if not self.waiting_to_lead and self._synced is None:
            return [f"not everything has been read yet{f': {self.unread}' if self.unread else ''}"]
        return self.problems()


@asynccontextmanager
async def served(
    health: Health,
    render: scrapes.Render,
    probes: tuple[str, int],
    metrics: tuple[str, int],
    certificates: str | None = None,
    visitors: Visitors | None = None,
) -> AsyncIterator[tuple[int, int]]:
    """Serve probes and metrics over HTTP while the block lasts; gives the two ports.

    Args:
        render: makes the page of metrics.
        probes: the address for /healthz and /readyz.
        metrics: the address for /metrics.
        certificates: the folder with tls.crt and tls.key for /metrics; None: plain HTTP.
        visitors: decide who gets figures; None: anyone does.
    """

    def answer(problems: Callable[[], list[str]]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def respond(_: web.Request) -> web.StreamResponse:
            words = problems()
            return web.Response(text="; ".join(words) or "ok", status=503 if words else 200)

        return respond

    application = web.Application()
    application.router.add_get("/healthz", answer(list))
    application.router.add_get("/readyz", answer(health.unready))
    runner = web.AppRunner(application, access_log=None)
    try:
        await runner.setup()
        await web.TCPSite(runner, *probes).start()
        async with scrapes.served(render, metrics, _tls(certificates), visitors) as metrics_port:
            yield int(runner.addresses[0][1]), metrics_port
    finally:
        await runner.cleanup()


def _tls(certificates: str | None) -> ssl.SSLContext | None:
    if certificates is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    folder = Path(certificates)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context
