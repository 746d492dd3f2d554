"""Ctrl-C and SIGTERM: end at once and cleanly, with an exit code that shows it."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_EXIT_BASE = 128


class InterruptedRunError(BaseException):
    """A signal asked the process to end; like KeyboardInterrupt it is no Exception."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = _EXIT_BASE + number


@contextmanager
def interruptible(stop: Callable[[], None]) -> Iterator[None]:
    """Turn the signals into InterruptedRunError; ``stop`` is called first, from within the signal handler.

    Work may fail with any error once it is stopped: that is reported as the interruption, too.
    """
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if received:
            return
        received.append(number)
        stop()
        raise InterruptedRunError(number)

    with _handled_by(handle):
        try:
            yield
        except Exception as error:
            if received:
                raise InterruptedRunError(received[0]) from error
            raise
        if received:
            raise InterruptedRunError(received[0])


@contextmanager
def _handled_by(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
