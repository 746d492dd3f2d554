"""Many resources applied at a steady rate, as many people and pipelines would."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import accumulate
from typing import Any

from tests.perf.operator_load.scene import Scene, apply

_HANDS = 16
"""That make resources, each with a connection of its own."""


def mixed(some: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The others evenly among the first."""
    found: list[dict[str, Any]] = []
    for place, one in enumerate(some):
        found.append(one)
        found += others[place * len(others) // len(some) : (place + 1) * len(others) // len(some)]
    return found


def apply_steadily(found: Scene, resources: list[dict[str, Any]], rate: float) -> float:
    """Make each resource at its time; policies come between and take no time of the streams'. Returns the end.

    Several hands share them, so that a slow answer holds nobody back and no burst makes up for it.
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
