"""Names for all moments at which a run changes something outside its own process.

A run may be killed at each of them, and the next run must go on from there. Names let tests stop a run at each.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Observer = Callable[[str, str], None]

_log = logging.getLogger(__name__)
_observers: list[Observer] = []


def observe(observer: Observer) -> None:
    """Call ``observer(name, moment)`` around each external write; moment is "before" or "after"."""
    _observers.append(observer)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Like :func:`observe`, while the block lasts."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


@contextmanager
def external_write(name: str) -> Iterator[None]:
    """Wrap a write that outlives the process, such as a commit, an object or a marker."""
    _tell(name, "before")
    yield
    _tell(name, "after")


def _tell(name: str, moment: str) -> None:
    _log.debug("%s %s", moment, name)
    for observer in _observers:
        observer(name, moment)
