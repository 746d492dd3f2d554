"""Many resources applied at a steady rate, as by many people and pipelines."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import accumulate
from typing import Any

from tests.perf.operator_load.scene import Scene, apply

_HANDS = 16
"""Threads that create resources, each with its own connection."""


def mixed(some: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``some``, with ``others`` evenly among them."""
    found: list[dict[str, Any]] = []
    for place, one in enumerate(some):
        found.append(one)
        found += others[place * len(others) // len(some) : (place + 1) * len(others) // len(some)]
    return found


def apply_steadily(found: Scene, resources: list[dict[str, Any]], rate: float) -> float:
    """Create each resource at its time; policies come between streams without delaying them. Returns the end time.

    Several threads share them, so that a slow answer delays no other resource and no burst follows.
    """
    began, due = time.monotonic(), list(accumulate((one["kind"] == "MessageStream" for one in resources), initial=0))

    def work(hand: int) -> None:
        with closing(found.server.another()) as server:
            for place in range(hand, len(resources), _HANDS):
                time.sleep(max(0.0, began + due[place] / rate - time.monotonic()))
                apply(server, resources[place])

    with ThreadPoolExecutor(_HANDS) as hands:
        list(hands.map(work, range(_HANDS)))
    return time.time()
