"""Work in the background of a test."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from support.waiting import scaled


@contextmanager
def repeated(step: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call ``step`` in another thread, with a pause after each call, until the block ends; an error ends it."""
    stop = threading.Event()

    def go_on() -> None:
        while not stop.wait(seconds):
            step()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=scaled(30))
