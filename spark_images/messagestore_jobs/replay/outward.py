"""A replay to something that is no folder: what of it is the same for a topic and an endpoint."""

from abc import abstractmethod
from collections.abc import Callable

from typing_extensions import override

from messagestore_core.contract.replay import ReplayOutcome, ReplayTask
from messagestore_core.store.folder import exists
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import Chunk, Format
from messagestore_jobs.native import LineBreaks
from messagestore_jobs.replay.chunks import StoreDelivery
from messagestore_jobs.replay.freeze import nothing


class OutwardDelivery(StoreDelivery):
    """Sends staged objects of one record a line, and deletes each once all of it is sent.

    The replay's state is in the folder of the store that it reads, whose readers ignore it.
    """

    form: Format = "JSONLines"
    line_breaks: LineBreaks = "Space"

    def __init__(self, run: Run, task: ReplayTask) -> None:
        super().__init__(run.store, task, run.store.uri)

    @override
    def ended(self) -> ReplayOutcome | None:
        """Without a store there is nothing to send."""
        return super().ended() if exists(self._held) else nothing()

    @override
    def part_name(self, number: int) -> str:
        """The name is not used, as sent objects are deleted."""
        return f"sent/part-{number:08d}"

    @override
    def deliver(self, chunk: Chunk, first: int, unchanged: Callable[[], bool]) -> bool:
        """Send only what has not been sent yet."""
        for part in chunk.parts:
            if self.objects.exists(part.staged):
                if not self._send(part.staged, first, part.messages, unchanged):
                    return False
                with self._held.step("replay-staged-removed"):
                    self.objects.delete(part.staged)
            first += part.messages
        return True

    @override
    def break_off(self) -> None:
        self.close()

    @override
    def has_sent(self) -> bool:
        parts = [part for chunk in self.state.chunks() for part in chunk.parts]
        first = self.undelivered(parts[0], 0) if parts else ("", 0)
        return first is None or first[1] > 0

    @abstractmethod
    def _send(self, name: str, first: int, messages: int, unchanged: Callable[[], bool]) -> bool:
        """Send the records of an object that have not been sent; false if tombstones changed before all were.

        The object has ``messages`` records, and ``first`` records of the replay are before its first one.
        """
