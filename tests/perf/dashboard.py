"""Make the docs' pictures of the dashboard: a shop in the cluster of ``make cluster``, seen by a Prometheus.

PYTHONPATH=tests .venv/bin/python -m tests.perf.dashboard [MINUTES]
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hack.dashboard.pictures import Source, draw

from support.kind import Cluster, remove_bucket, upgraded
from support.kind import cluster as running_cluster
from support.scraping import scraping_operator
from support.site import SECRET, Site

SHOP = "shop"
"""The namespace, and the bucket."""
_VALUES = ('tenancy.http.hosts=["events.example.org"]', 'runs.backoffBase="PT2M"')
_FIRST_FILES = 9
"""When these have landed, the other kinds come: then there is something to remove and to send."""


def main() -> None:
    """Work for some minutes, then draw them; twelve show each panel."""
    seconds = 60 * float(sys.argv[1] if len(sys.argv) > 1 else "12")
    with (
        tempfile.TemporaryDirectory(prefix="dashboard-") as folder,
        _shop(running_cluster()) as shop,
        upgraded(*_VALUES),
        scraping_operator(shop, Path(folder), "5s") as prometheus,
    ):
        start = time.time()
        _apply_streams(shop)
        for number in range(int(seconds / 10)):
            _land(shop, number)
            time.sleep(10)
            if number == _FIRST_FILES:
                _apply_others(shop)
        draw(Source(f"http://127.0.0.1:{prometheus.port}", start, time.time()))


@contextmanager
def _shop(cluster: Cluster) -> Iterator[Site]:
    shop, files = Site(cluster, SHOP, SHOP), cluster.s3.filesystem()
    files.create_dir(SHOP)
    try:
        shop.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
        shop.apply(shop.secret(SECRET, cluster.s3.access_key, cluster.s3.secret_key))
        yield shop
    finally:
        cluster.kubectl("delete", "namespace", SHOP, "--ignore-not-found")
        remove_bucket(files, SHOP)


def _land(shop: Site, number: int) -> None:
    """Another file for each stream: of the records, some are twice there, some not JSON, some without a type."""
    for name, count in (("orders", 400 + 40 * (number % 7)), ("payments", 150)):
        lines = [_record(name, number * 1000 + one) for one in range(count)]
        lines += [*lines[:20], *["{torn"] * (number % 5), *['{"data": {}}'] * (number % 3)]
        shop.land(f"{name}/{number:05}.jsonl", "\n".join(lines).encode())


def _record(name: str, number: int) -> str:
    event = {
        "specversion": "1.0",
        "id": f"{name}-{number}",
        "source": "/shop",
        "type": f"{name.capitalize()}{'Taken' if number % 10 else 'Refused'}",
        "subject": f"{name}-{number % 50}",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "data": {"amount": number % 97, "note": "n" * 200},
    }
    return json.dumps(event)


def _apply_streams(shop: Site) -> None:
    """Two streams that work, and one whose bucket is gone."""
    given: dict[str, Any] = {"envelope": {"format": "CloudEvents"}, "trigger": {"interval": "PT2M"}}
    gone = {"files": {"uri": "s3a://gone/refunds"}}
    shop.apply(
        shop.stream("orders", **{**given, "trigger": {"interval": "PT1M"}}),
        shop.stream("payments", **given),
        shop.stream("refunds", **given, source=gone),
    )


def _apply_others(shop: Site) -> None:
    """Policies and replays.

    A purge that waits for approval, an erasure, a purge that waits for a subscription, a slow replay, and this
    subscription, with an endpoint that is away.
    """
    refused = {"name": "refused", "match": {"types": ["PaymentsRefused"]}}
    gone = {"name": "gone", "match": {"types": ["OrdersRefused"]}, "erase": True}
    sent = {"name": "sent", "consumedBy": {"replayJobs": ["out"]}}
    several = [
        {"name": "audit", "files": {"uri": shop.uri("audit"), "storage": shop.storage()}},
        {"name": "hook", "where": "payload_size > 0", "http": {"url": "https://events.example.org/orders"}},
    ]
    out = shop.replay("out", "orders", start={"at": "Beginning"}, trigger={"interval": "PT2M"}, destinations=several)
    del out["spec"]["destination"]
    shop.apply(
        shop.policy("refused", "payments", rules=[refused], approval="Required"),
        shop.policy("to-be-forgotten", "orders", rules=[gone], erasure={"within": "PT8H"}),
        shop.policy("sent", "orders", rules=[sent], trigger={"schedule": {"cron": "*/3 * * * *"}}),
        shop.replay("again", "orders", rateLimit={"messagesPerSecond": 3}),
        out,
    )


if __name__ == "__main__":
    main()
