"""Where a continuous replay sends to: a topic or an endpoint, which stage nothing and keep their connections open.

Of each outlet ``tells`` says whether transactions tell how far it is; of others the cursor is written after all that is
sent at once. ``failure`` is why the last call did not send all.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from messagestore_core.contract.destinations import HttpDestination, KafkaDestination
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.store.cursors import Cursor, own_name
from messagestore_core.store.errors import RunFailedError
from messagestore_jobs.context import Run
from messagestore_jobs.replay.begin import task_of
from messagestore_jobs.replay.http.delivery import HttpDelivery, next_events
from messagestore_jobs.replay.rounds import KafkaRound, Reached


class KafkaOutlet(KafkaRound):
    """The topic of a continuous replay, which stages nothing and keeps its connections open."""

    tells = True
    failure: Exception | None = None

    def start_from(self, resets: int, position: int) -> bool:
        """Send on behind a position, and commit it, so that the group exists before a round is named.

        Return whether it exists: where messages name the topics, that takes one that was sent to.
        """
        with self._telling():
            sender = self._opened()
            sender.startFrom(resets, position + 1)
            if not sender.hasPlace():
                return False
            sender.readOn(b"")
            with self._held.step("replay-anchor"):
                sender.send(1)
                sender.commit()
        return True

    def send(self, content: bytes, unchanged: Callable[[], bool]) -> Iterable[int | None]:
        """Send records, one per line, in transactions.

        Returns:
            The last position that was sent, or None if all are; see ``HttpOutlet.send``.
        """
        self.failure = None
        with self._telling():
            sender = self._opened()
            try:
                all_sent = self._send_all(sender, sender.readOn(content), unchanged)
            except RunFailedError as stopped:
                self.failure, all_sent = stopped, False
            return [None if all_sent else int(sender.sent()) - 1]


class HttpOutlet(HttpDelivery):
    """Sends batches to an endpoint; what has an answer is told by the cursor, which is written after each."""

    tells = False

    def __init__(self, run: Run, task: ReplayTask, destination: HttpDestination) -> None:
        name = task.subscription.destination if task.subscription else ""
        super().__init__(run, task.model_copy(update={"job_id": own_name(task.job_id, name)}), destination)
        self.failure: Exception | None = None
        self._aside: list[int] = []

    def reached(self) -> Reached:
        """Nothing: an endpoint tells nothing."""
        return Reached()

    def start_from(self, resets: int, position: int) -> bool:
        """Return false: an endpoint keeps nothing."""
        return False

    def send(self, content: bytes, unchanged: Callable[[], bool]) -> Iterator[int | None]:
        """Send records, one per line, in batches.

        Yields:
            The last position that was sent so far, whenever it can be noted; None once all are. Without a None,
            tombstones changed, or ``failure`` says why.
        """
        self.failure, self._aside = None, []
        lines = iter(content.split(b"\n"))
        batch = next_events(lines, self._batch)
        while batch and unchanged():
            taken, self.failure = self._answered(batch)
            self._aside += [one.event.global_position for one in taken if one.refused is not None]
            following = next_events(lines, self._batch)
            if taken:
                yield None if self.failure is None and not following else taken[-1].event.global_position
            if self.failure is not None:
                return
            batch = following

    def left(self, after: int, until: int) -> int:
        """How many messages of a range were set aside."""
        return bisect_right(self._aside, until) - bisect_right(self._aside, after)


Outlet = KafkaOutlet | HttpOutlet


def outlet_of(run: Run, cursor: Cursor) -> Outlet:
    """Where a continuous replay sends to."""
    to = task_of(run).to
    if isinstance(to, KafkaDestination):
        return KafkaOutlet(run, to, cursor)
    assert isinstance(to, HttpDestination)
    return HttpOutlet(run, task_of(run), to)
