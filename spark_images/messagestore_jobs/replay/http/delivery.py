"""A replay to an HTTP endpoint: chunks are staged as one record a line, and sent in batches.

After each batch an object of the replay's state says how many records of the staged object the endpoint has. So the
next run after a crash sends again only what it has no answer for: each event arrives at least once, and its ``id`` and
``source`` are the same each time.
"""

import time
from collections.abc import Callable, Iterator
from io import BufferedReader
from itertools import islice

from typing_extensions import override

from messagestore_core.contract.base import ContractModel, Count
from messagestore_core.contract.destinations import HttpDestination
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask
from messagestore_core.store.errors import end_if_stopped
from messagestore_core.store.layout import SENT, STATE
from messagestore_core.store.objects import Objects, read_document, write_document
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import Chunk, Frozen, Part
from messagestore_jobs.replay.chunks import Size
from messagestore_jobs.replay.http.endpoint import Endpoint, Taken
from messagestore_jobs.replay.http.events import Event, event_of
from messagestore_jobs.replay.http.lanes import Lanes, next_batch
from messagestore_jobs.replay.outward import OutwardDelivery

_SENT = f"{STATE}/{SENT}"
_BATCH_BYTES = 16 << 20
_CHUNK = Size(10_000, 64 << 20)


class Sent(ContractModel):
    """What the endpoint has answered for: records of the staged object, and how many it refused in the whole replay."""

    part: str = ""
    records: Count = 0
    set_aside: Count = 0


class HttpDelivery(OutwardDelivery):
    """Sends to an endpoint."""

    largest_chunk = _CHUNK

    def __init__(self, run: Run, task: ReplayTask, destination: HttpDestination) -> None:
        super().__init__(run, task)
        self._to, self._stopped = destination, run.stopped
        self._sent: Sent | None = None
        self._endpoint: Endpoint | None = None
        self._lanes: Lanes[Event, Taken] | None = None
        self._batch = destination.in_flight

    def check(self) -> str | None:
        """Return None: an endpoint has no id."""
        return None

    @override
    def undelivered(self, part: Part, first: int) -> tuple[str, int] | None:
        """What was noted shows how much was sent."""
        return (part.staged, self._of_part(part.staged)) if self.objects.exists(part.staged) else None

    @override
    def set_aside(self) -> int:
        return self._noted().set_aside

    def close(self) -> None:
        """Close the connections."""
        if self._endpoint is not None and self._lanes is not None:
            self._lanes.close()
            self._endpoint.close()
            self._endpoint = self._lanes = None

    def end(
        self, frozen: Frozen, chunks: list[Chunk], outcome: ReplayOutcome, unchanged: Callable[[], bool]
    ) -> ReplayOutcome:
        """End the replay."""
        return self._end(outcome)

    def _noted(self) -> Sent:
        if self._sent is None:
            self._sent = read_document(self.objects, _SENT, Sent) or Sent()
        return self._sent

    def _of_part(self, name: str) -> int:
        noted = self._noted()
        return noted.records if noted.part == name else 0

    @override
    def _send(self, name: str, first: int, messages: int, unchanged: Callable[[], bool]) -> bool:
        """Tombstones are looked at before each batch."""
        filesystem, path = self.objects.locate(name)
        with filesystem.open_input_stream(path) as content:
            lines = islice(BufferedReader(content), self._of_part(name), None)
            while batch := next_events(lines, self._batch):
                end_if_stopped(self._stopped)
                if not unchanged():
                    return False
                self._send_batch(name, batch)
        return True

    def _send_batch(self, name: str, events: list[Event]) -> None:
        """Send events, and note what has an answer.

        Raises:
            RunFailedError: one has none, after all tries.
        """
        taken, error = self._answered(events)
        refused = [one for one in taken if one.refused is not None]
        before = self._noted()
        done = Sent(part=name, records=self._of_part(name) + len(taken), set_aside=before.set_aside + len(refused))
        if taken:
            with self._held.step("replay-sent"):
                write_document(self.objects, _SENT, done)
            self._sent = done
        if error is not None:
            raise error

    def _answered(self, events: list[Event]) -> tuple[list[Taken], Exception | None]:
        """Send events; return those that have an answer, before the first that has none, and the first error."""
        began = time.monotonic()
        taken, error = self._opened().send(events, self._lane)
        self._batch = next_batch(self._batch, time.monotonic() - began)
        self._write_refused([one for one in taken if one.refused is not None])
        return taken, error

    def _write_refused(self, refused: list[Taken]) -> None:
        """Write what the endpoint refuses to the folder of ``deadLetter``, before it counts as answered."""
        if not refused or self._to.dead_letter is None:
            return
        folder = Objects(self._to.dead_letter.uri, self._held.storage)
        name = f"{self._task.job_id}/{refused[0].event.global_position:020d}.jsonl"
        content = b"".join(one.event.set_aside(one.refused or 0, self._to.url) for one in refused)
        with self._held.step("replay-set-aside"):
            folder.write(name, content)

    def _opened(self) -> Lanes[Event, Taken]:
        if self._lanes is None:
            self._endpoint = Endpoint(self._to, self._stopped)
            self._lanes = Lanes(self._to.in_flight, self._endpoint.send)
        return self._lanes

    def _lane(self, event: Event) -> object:
        """What must be sent one after the other: a stream's events, or all, as the order says."""
        match self._task.order:
            case "PerStream":
                return event.stream
            case "None":
                return event.global_position
            case _:
                return None


def next_events(lines: Iterator[bytes], most: int) -> list[Event]:
    """The next events: at most so many, and of at most so many bytes unless one alone has more."""
    events: list[Event] = []
    size = 0
    for line in lines:
        events.append(event_of(line))
        size += len(line)
        if len(events) >= most or size >= _BATCH_BYTES:
            break
    return events
