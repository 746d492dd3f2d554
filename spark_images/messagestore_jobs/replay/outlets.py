"""Where a continuous replay sends to: a topic or an endpoint, which stage nothing and keep their connections open."""

from collections.abc import Callable, Iterable
from typing import Protocol

from messagestore_core.contract.run_document import HttpDestination, KafkaDestination
from messagestore_core.store.cursors import Cursor
from messagestore_jobs.context import Run
from messagestore_jobs.native import LineBreaks
from messagestore_jobs.replay.begin import task_of
from messagestore_jobs.replay.http.outlet import HttpOutlet
from messagestore_jobs.replay.rounds import KafkaOutlet, Reached


class Outlet(Protocol):
    """A destination of a continuous replay."""

    line_breaks: LineBreaks
    tells: bool
    """Whether transactions tell how far it is; of others the cursor is written after all that is sent at once."""
    failure: Exception | None
    """Why the last call did not send all."""

    def check(self) -> str | None:
        """Refuse an unfit destination."""

    def reached(self) -> Reached:
        """What the destination knows."""

    def start_from(self, resets: int, position: int) -> bool:
        """Send on behind a position; whether the destination knows that now."""

    def send(self, content: bytes, unchanged: Callable[[], bool]) -> Iterable[int | None]:
        """Send records, one per line.

        Yields:
            The last position that was sent so far, whenever it can be noted; None once all are. Without a None,
            tombstones changed, or ``failure`` says why.
        """

    def left(self, after: int, until: int) -> int:
        """How many messages of a range were set aside, or left to another destination."""

    def close(self) -> None:
        """Close the connections."""


def outlet_of(run: Run, cursor: Cursor) -> Outlet:
    """Where a continuous replay sends to."""
    to = task_of(run).to
    if isinstance(to, KafkaDestination):
        return KafkaOutlet(run, to, cursor)
    if isinstance(to, HttpDestination):
        return HttpOutlet(run, task_of(run), to)
    raise TypeError(f"nothing is sent continuously to a destination of kind {to.kind}")
