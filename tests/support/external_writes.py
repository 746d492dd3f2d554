"""Watching what a run changes outside its own process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from messagestore_jobs.store import external


@contextmanager
def observing(observer: Callable[[str, str], None]) -> Iterator[None]:
    """Call the observer around each external write of a block."""
    external.observe(observer)
    try:
        yield
    finally:
        external._observers.remove(observer)
