"""Serving metrics: beside the event loop, seldom, and to a bounded number of connections."""

import asyncio
import functools
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
from aiohttp import web

from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.labels import RUN_KIND
from messagestore_operator.cluster.metrics import Metrics
from messagestore_operator.kube.objects import MANAGED_BY, MANAGER
from messagestore_operator.kube.scrapes import FRESH_SECONDS, MOST_CONNECTIONS, Listener, Page, served
from messagestore_operator.names import RUN
from support.waiting import scaled


class Slow:
    """A page that takes a while; it tells how often it was made."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.made = seconds, 0

    def __call__(self) -> bytes:
        self.made += 1
        time.sleep(self.seconds)
        return b"made %d\n" % self.made


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test, run by an event loop."""

    @functools.wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


@in_a_loop
async def test_rendering_does_not_hold_up_the_event_loop() -> None:
    begun, went_on = threading.Event(), threading.Event()

    def render() -> bytes:
        begun.set()
        return b"%d" % went_on.wait(scaled(10))

    rendering = asyncio.create_task(Page(render).text())
    while not begun.is_set():
        await asyncio.sleep(0.01)
    went_on.set()
    assert await rendering == b"1"


@in_a_loop
async def test_all_who_ask_within_some_seconds_get_one_page() -> None:
    slow, clock = Slow(0.05), [100.0]
    page = Page(slow, lambda: clock[0])
    pages = await asyncio.gather(*(page.text() for _ in range(100)))
    assert len(set(pages)) == slow.made == 1
    clock[0] += FRESH_SECONDS
    assert await page.text() not in pages
    assert slow.made == 2


@in_a_loop
async def test_a_client_that_leaves_does_not_end_the_page_for_others() -> None:
    page = Page(Slow(0.2))
    leaving, staying = asyncio.create_task(page.text()), asyncio.create_task(page.text())
    await asyncio.sleep(0.05)
    leaving.cancel()
    assert await staying == b"made 1\n"


@in_a_loop
async def test_connections_that_say_nothing_are_few_and_end() -> None:
    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="figures")

    listener = Listener(respond, seconds=0.4)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        listening.setblocking(False)
        accepting = asyncio.create_task(listener.accept(listening))
        address = listening.getsockname()
        silent = [await asyncio.open_connection(*address) for _ in range(100)]
        async with asyncio.timeout(scaled(20)):
            while listener.connections < MOST_CONNECTIONS:
                await asyncio.sleep(0.01)
        assert listener.connections == MOST_CONNECTIONS
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: it\r\n\r\n")
        async with asyncio.timeout(scaled(20)):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200"), "after those before it"
        for _, one in [*silent, (reader, writer)]:
            one.close()
        accepting.cancel()
        await asyncio.gather(accepting, return_exceptions=True)
    assert listener.connections == 0


@in_a_loop
async def test_only_metrics_are_served_and_each_answer_ends_its_connection() -> None:
    async with served(Slow(), ("127.0.0.1", 0), None, None) as port, aiohttp.ClientSession() as session:
        told = {}
        for method, path in (("GET", "/metrics"), ("HEAD", "/metrics"), ("POST", "/metrics"), ("GET", "/healthz")):
            async with session.request(method, f"http://127.0.0.1:{port}{path}") as answer:
                told[method, path] = answer.status, answer.headers.get("Connection")
    assert told == {
        ("GET", "/metrics"): (200, "close"),
        ("HEAD", "/metrics"): (200, "close"),
        ("POST", "/metrics"): (405, "close"),
        ("GET", "/healthz"): (404, "close"),
    }


def test_runs_are_counted_by_known_kinds_alone() -> None:
    cache, metrics = Cache(), Metrics()
    for number, kind in enumerate(["ingest", "ingest", "erase", "", None, *(f"free text {n}" for n in range(50))]):
        held = {"holderIdentity": f"shop/orders-{number}"}
        cache.put({"kind": "Lease", "metadata": {"name": f"table-{number}"}, "spec": held})
        cache.put(_config_map(f"orders-{number}", kind))
    metrics.watch_cache(cache)
    (runs,) = [one for one in metrics.registry.collect() if one.name == "messagestore_runs"]
    assert {one.labels["kind"]: one.value for one in runs.samples} == {"ingest": 2, "erase": 1}


def _config_map(name: str, kind: str | None) -> dict[str, Any]:
    labels = {MANAGED_BY: MANAGER, RUN: name, **({RUN_KIND: kind} if kind is not None else {})}
    metadata = {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "1", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
