"""What a page of /metrics costs the operator: ``PYTHONPATH=tests python -m tests.perf.scrape [STREAMS]``.

Streams as they are after some runs are in the operator's cache. Each row is one page, after so many have changed.
"""

import platform
import resource
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.metrics import Metrics

AT = "2026-01-05T08:00:00Z"
RUN = {"name": "orders-ingest-7", "state": "Succeeded", "startedAt": AT, "finishedAt": AT}
STATUS: dict[str, Any] = {
    "conditions": [
        {"type": name, "status": "True", "reason": "Waiting", "message": "7 stored"}
        for name in ("Ready", "Reconciling", "SourceFound")
    ],
    "totals": {"received": 15, "stored": 15},
    "table": {"messages": 7, "deadLetters": 3, "deadLettersByReason": [{"reason": "Unparseable", "count": 3}]}
    | {"bytes": 900, "smallFiles": 2},
    "lag": {"files": 2, "records": 9, "oldestPendingTime": AT},
    "lastBatchTime": AT,
    "maintenance": {"at": AT},
    "lastRun": {**RUN, "cpuSeconds": 1.5, "bytesWritten": 77},
    "recentRuns": [RUN] * 10,
}


def main() -> None:
    """Measure and print."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    cache, metrics = Cache(), Metrics()
    metrics.watch_cache(cache)
    console = Console(width=120)
    console.print(f"{platform.platform()}, Python {platform.python_version()}, {number} streams")
    table = Table("changed", "CPU-seconds", "MB", "series", "peak memory, MiB")
    for version, changed in enumerate((number, 0, number // 10, number // 2, 0), 1):
        for one in range(changed):
            cache.put(_stream(one, version))
        began = time.process_time()
        page = metrics.page()
        took = time.process_time() - began
        series = sum(not line.startswith(b"#") for line in page.splitlines())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        table.add_row(str(changed), f"{took:.2f}", f"{len(page) / 1e6:.1f}", str(series), f"{peak:.0f}")
    console.print(table)


def _stream(number: int, version: int) -> dict[str, Any]:
    name = f"orders-{number}"
    return {
        "apiVersion": "messagestore.dev/v1alpha1",
        "kind": "MessageStream",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": str(version), "generation": 1},
        "spec": {
            "table": {"uri": f"s3a://lake/{name}"},
            "source": {"files": {"uri": f"s3a://landing/{name}/"}},
            "trigger": {"interval": "PT1M"},
        },
        "status": STATUS,
    }


if __name__ == "__main__":
    main()
