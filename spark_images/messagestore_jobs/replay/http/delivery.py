"""A replay to an HTTP endpoint: chunks are staged as one record a line, and sent in batches.

After each batch an object of the replay's state says how many records of the staged object the endpoint has. So the
next run after a crash sends again only what it has no answer for: each event arrives at least once, and its ``id`` and
``source`` are the same each time.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BufferedReader
from itertools import islice

from typing_extensions import override

from messagestore_core.contract.base import ContractModel, Count
from messagestore_core.contract.destinations import HttpDestination
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.store.errors import end_if_stopped
from messagestore_core.store.layout import SENT, STATE
from messagestore_core.store.objects import Objects, read_document, write_document
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import Part
from messagestore_jobs.replay.chunks import Size
from messagestore_jobs.replay.http.endpoint import Endpoint, Taken
from messagestore_jobs.replay.http.events import Event, event_of
from messagestore_jobs.replay.outward import OutwardDelivery

_SENT = f"{STATE}/{SENT}"
_BATCH_BYTES = 16 << 20
_CHUNK = Size(10_000, 64 << 20)
LEAST_BATCH, MOST_BATCH = 1, 1000
_QUICK_SECONDS, _SLOW_SECONDS = 2.0, 8.0


class Sent(ContractModel):
    """What the endpoint has answered for: records of the staged object, and how many it refused in the whole replay."""

    part: str = ""
    records: Count = 0
    set_aside: Count = 0


class Lanes:
    """Threads that send events: those of one lane one after the other, several lanes at once.

    If one can't be sent, all lanes end after what is under way.
    """

    def __init__(self, at_once: int, send: Callable[[Event], Taken]) -> None:
        self._send = send
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="http")

    def send(self, events: Sequence[Event], lane_of: Callable[[Event], object]) -> tuple[list[Taken], Exception | None]:
        """Send events; return the answers of all before the first that has none, and the first error.

        Events behind the first without an answer may have been sent too; they are sent again.
        """
        lanes: dict[object, deque[int]] = {}
        for number, event in enumerate(events):
            lanes.setdefault(lane_of(event), deque()).append(number)
        answers: dict[int, Taken] = {}
        errors: dict[int, Exception] = {}
        failed = threading.Event()

        def go(lane: deque[int]) -> None:
            while lane and not failed.is_set():
                number = lane.popleft()
                try:
                    answers[number] = self._send(events[number])
                except Exception as error:
                    errors[number] = error
                    failed.set()

        list(self._threads.map(go, lanes.values()))
        first = next((number for number in range(len(events)) if number not in answers), len(events))
        error = errors[min(errors)] if errors else None
        return [answers[number] for number in range(first)], error

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()


class HttpDelivery(OutwardDelivery):
    """Sends to an endpoint."""

    largest_chunk = _CHUNK

    def __init__(self, run: Run, task: ReplayTask, destination: HttpDestination) -> None:
        super().__init__(run, task)
        self._to, self._stopped = destination, run.stopped
        self._sent: Sent | None = None
        self._endpoint: Endpoint | None = None
        self._lanes: Lanes | None = None
        self._batch = destination.in_flight

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

    def _opened(self) -> Lanes:
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


def next_batch(size: int, seconds: float) -> int:
    """The size of the next batch, so that progress is noted every few seconds, by how long the last one took."""
    if seconds < _QUICK_SECONDS:
        return min(size * 2, MOST_BATCH)
    return max(size // 2, LEAST_BATCH) if seconds > _SLOW_SECONDS else size
