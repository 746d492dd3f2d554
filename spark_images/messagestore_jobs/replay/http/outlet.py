"""The endpoint of a continuous replay."""

from bisect import bisect_right
from collections.abc import Callable, Iterator

from messagestore_core.contract.run_document import HttpDestination, ReplayTask
from messagestore_core.store.cursors import own_name
from messagestore_jobs.context import Run
from messagestore_jobs.replay.http.delivery import HttpDelivery, next_events
from messagestore_jobs.replay.rounds import Reached


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
        """Send records, one per line, in batches; see ``Outlet``."""
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
