"""Send a batch of events: those of one lane one after the other, several lanes at once."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")

LEAST_BATCH, MOST_BATCH = 1, 1000
_QUICK_SECONDS, _SLOW_SECONDS = 2.0, 8.0


class Lanes(Generic[Item, Answer]):
    """Threads that send items.

    Args:
        at_once: how many lanes go on at a time.
        send: sends one item; an error ends all lanes after what is under way.
    """

    def __init__(self, at_once: int, send: Callable[[Item], Answer]) -> None:
        self._send = send
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="http")

    def send(self, items: Sequence[Item], lane_of: Callable[[Item], object]) -> tuple[list[Answer], Exception | None]:
        """Send items; return the answers of all before the first that has none, and the first error.

        Items behind the first without an answer may have been sent too; they are sent again.
        """
        lanes: dict[object, deque[int]] = {}
        for number, item in enumerate(items):
            lanes.setdefault(lane_of(item), deque()).append(number)
        answers: dict[int, Answer] = {}
        errors: dict[int, Exception] = {}
        failed = threading.Event()

        def go(lane: deque[int]) -> None:
            while lane and not failed.is_set():
                number = lane.popleft()
                try:
                    answers[number] = self._send(items[number])
                except Exception as error:
                    errors[number] = error
                    failed.set()

        list(self._threads.map(go, lanes.values()))
        first = next((number for number in range(len(items)) if number not in answers), len(items))
        error = errors[min(errors)] if errors else None
        return [answers[number] for number in range(first)], error

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()


def next_batch(size: int, seconds: float) -> int:
    """The size of the next batch, so that progress is noted every few seconds, by how long the last one took."""
    if seconds < _QUICK_SECONDS:
        return min(size * 2, MOST_BATCH)
    return max(size // 2, LEAST_BATCH) if seconds > _SLOW_SECONDS else size
