"""Deliveries of one round of a subscription, which follows others to the same destination.

A destination may know by itself how far it is: of a topic that counts, as transactions have it; a folder of files shows
a store that was laid back.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from py4j.java_gateway import JavaObject
from typing_extensions import override

from messagestore_core.contract.destinations import FilesDestination, KafkaDestination
from messagestore_core.contract.replay import ReplayOutcome
from messagestore_core.store.cursors import Cursor, ahead, own_name, unknown
from messagestore_core.store.layout import ENDED, REPLAYS
from messagestore_core.store.objects import join, read_document, write_document
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import EndedFiles, Part
from messagestore_jobs.replay import kafka
from messagestore_jobs.replay.begin import delivery_of, task_of
from messagestore_jobs.replay.chunks import Delivery, Size
from messagestore_jobs.replay.files import FilesDelivery
from messagestore_jobs.replay.kafka import KafkaDelivery

_CHUNK = Size(100_000, 256 << 20)
"""Of a run that goes on: an erasure waits for the end of a chunk."""
_MANIFEST = re.compile(r"manifest-([0-9]{8})\.json")
_PART = re.compile(r"part-([0-9]{8,})\.jsonl?")
_POSITION = re.compile(rb'"globalPosition":(\d{1,18})\b')


class Reached(NamedTuple):
    """How far a destination is by what it has itself."""

    resets: int = -1
    position: int = 0
    rounds: int = 0
    parts: int = 0
    sent: int = 0
    """Records of all rounds since the cursor was made or moved, where positions don't tell."""


def round_delivery(run: Run, cursor: Cursor) -> Delivery:
    """The delivery of a round to the task's destination; the cursor has the round, or is the one before it."""
    task, to = task_of(run), task_of(run).to
    if isinstance(to, FilesDestination):
        return FilesRound(run, task.job_id, to, cursor)
    if isinstance(to, KafkaDestination):
        return KafkaRound(run, to, cursor) if cursor.sequences is None else KafkaSequences(run, to, cursor)
    return delivery_of(run)


def reached_by(delivery: Delivery) -> Reached:
    """What the destination of a round knows."""
    if not isinstance(delivery, FilesRound | KafkaRound | KafkaSequences):
        return Reached()
    try:
        return delivery.reached()
    finally:
        delivery.close()


class FilesRound(FilesDelivery):
    """Sends to a folder in which the objects of earlier rounds lie; each round has a manifest of its own.

    Whoever has read the manifest may remove it. So the store has what it says until the cursor has moved.
    """

    def __init__(self, run: Run, job_id: str, destination: FilesDestination, cursor: Cursor) -> None:
        super().__init__(run, job_id, destination)
        number = cursor.round.number if cursor.round else cursor.rounds + 1
        self._first_part = cursor.round.first_part if cursor.round else cursor.parts
        self._manifest_name = f"manifest-{number:08d}.json"
        self._is_first = number == 1
        self._noted = run.store.objects(REPLAYS, job_id)

    @override
    def ended(self) -> ReplayOutcome | None:
        ended = super().ended()
        noted = read_document(self._noted, ENDED, EndedFiles) if ended is None else None
        return ended if noted is None else self._taken_up(noted)

    @override
    def _note_end(self, ended: EndedFiles) -> None:
        with self._store.step("replay-ended"):
            write_document(self._noted, ENDED, ended)

    @override
    def check(self) -> str | None:
        """Refuse a folder with anything but what this subscription has sent; at its first round, any content."""
        names = self.objects.names()
        left = [name for name in names if self._is_left(name)]
        others = [name for name in names if not (_MANIFEST.fullmatch(name) or _PART.fullmatch(name) or name in left)]
        if self._is_first or others not in ([], [f"{self._own}/"]) or not self._is_ours(names):
            return super().check()
        for name in left:
            with self._store.step("replay-forgotten"):
                self.objects.delete_folder(name)
        return None

    def _is_left(self, name: str) -> bool:
        """Whether a folder is of an earlier round, under way when its destination was removed from the subscription."""
        subscription, _, number = name.removesuffix("/").rpartition("_")
        own, _, current = self._own.rpartition("_")
        return subscription == own and number.isdecimal() and int(number) < int(current)

    def reached(self) -> Reached:
        """The newest manifest, and the next number of an object."""
        names = self.objects.names()
        parts = [int(match[1]) + 1 for match in map(_PART.fullmatch, names) if match]
        rounds = _rounds(names) if self._is_ours(names) else {}
        return Reached(rounds=max(rounds, default=0), parts=max(parts, default=0))

    def _is_ours(self, names: list[str]) -> bool:
        """Whether this subscription wrote the newest manifest, if there is one."""
        rounds = _rounds(names)
        if not rounds:
            return True
        job = self._read_manifest(rounds[max(rounds)]).get("job")
        return str(job).rpartition("_")[0] == self._job_id.rpartition("_")[0]

    def next_part(self) -> int:
        """The number after those of the round's objects, by its manifest, or by what is noted of it."""
        objects = self._manifest().get("objects")
        return self._first_part + (len(objects) if isinstance(objects, list) else self._objects)


def _rounds(names: list[str]) -> dict[int, str]:
    """The names of manifests by the number of their round."""
    return {int(match[1]): name for name in names if (match := _MANIFEST.fullmatch(name))}


class KafkaRound(KafkaDelivery):
    """Sends to a topic in transactions that commit the position after the last record, for all rounds."""

    def __init__(self, run: Run, destination: KafkaDestination, cursor: Cursor) -> None:
        super().__init__(run, task_of(run), destination, cursor)
        self._cursor, self._is_started = cursor, False
        self._own = _group(cursor)

    def reached(self) -> Reached:
        """What transactions have committed."""
        with self._telling():
            sender = self._opened()
            return Reached(sender.resets(), sender.sent() - 1) if sender.resets() >= 0 else Reached()

    @override
    def undelivered(self, part: Part, first: int) -> tuple[str, int] | None:
        """Transactions show how much was sent."""
        content = self.objects.read(part.staged)
        if content is None:
            return None
        with self._telling():
            following = self._open().sent()
        positions = [_POSITION.search(line) for line in content.split(b"\n")]
        return part.staged, max((i + 1 for i, at in enumerate(positions) if at and int(at[1]) < following), default=0)

    @override
    def _send(self, name: str, first: int, messages: int, unchanged: Callable[[], bool]) -> bool:
        with self._telling():
            sender = self._open()
            conf = self._spark._jsparkSession.sessionState().newHadoopConf()
            return self._send_all(sender, sender.readOn(conf, join(self.objects.uri, name)), unchanged)

    def _send_all(self, sender: JavaObject, more: bool, unchanged: Callable[[], bool]) -> bool:
        while more:
            if not self._transaction(sender, kafka.TRANSACTION_RECORDS, unchanged):
                return False
            more = sender.more()
        return True

    @override
    def set_aside(self) -> int:
        """Those that another destination gets, as no topic takes them."""
        return self.left(self._cursor.global_position, self._cursor.until)

    def left(self, after: int, until: int) -> int:
        """How many messages of a range another destination gets, as no topic takes them."""
        return self._named.left(after, until) if self._named is not None else 0

    @override
    def _open(self) -> JavaObject:
        """A sender that goes on where the cursor is, or where the transactions of its round are."""
        sender = self._opened()
        if not self._is_started:
            frozen = self.state.begun()
            if frozen is not None:
                self._check_same(frozen)
            reached = Reached(sender.resets(), sender.sent() - 1)
            same = reached.resets == self._cursor.resets
            at = max(self._cursor.global_position, reached.position if same else 0)
            sender.startFrom(self._cursor.resets, at + 1)
            self._is_started = True
        return sender

    def _opened(self) -> JavaObject:
        if self._sender is None:
            self._sender = self._make_sender(self._own, self._own, by_position=True)
            self._is_started = False
        return self._sender


class KafkaSequences(KafkaDelivery):
    """Sends complete sequences to a topic in transactions that commit how many records all rounds have sent.

    A position would not tell, as members of sequences that waited come behind messages with higher positions.
    """

    def __init__(self, run: Run, destination: KafkaDestination, cursor: Cursor) -> None:
        super().__init__(run, task_of(run), destination)
        assert cursor.sequences is not None
        assert self._task.subscription is not None
        self.largest_chunk = _CHUNK if self._task.subscription.continuous else None
        self._own, self._since, self._before = _group(cursor), cursor.sequences.run, cursor.sent

    def reached(self) -> Reached:
        """What transactions have committed."""
        with self._telling():
            return Reached(sent=self._opened().sent())

    @override
    def _open(self) -> JavaObject:
        if self._sender is None and (frozen := self.state.begun()) is not None:
            self._check_same(frozen)
        return self._opened()

    def _opened(self) -> JavaObject:
        if self._sender is None:
            self._sender = self._make_sender(self._own, f"{self._own}-{self._since}", by_position=False)
        return self._sender


def _group(cursor: Cursor) -> str:
    """The consumer group of a destination of a subscription, by whose offset it knows what was sent."""
    return f"messagestore-{own_name(cursor.subscription.replace('/', '.'), cursor.destination)}-{cursor.store}"


def refuse_ahead(cursor: Cursor, head: int, known: Reached) -> None:
    """Refuse a cursor that is ahead of the store, and a destination that is ahead of the cursor or has forgotten it.

    Raises:
        RunFailedError: one is ahead, as the store was laid back from a copy; or the destination has forgotten how much
            of a round that broke off has arrived.
    """
    if cursor.global_position > head:
        raise ahead(f"the cursor is at {cursor.global_position}, and the store's last global position is {head}")
    if (known.resets, known.position) > (cursor.resets, cursor.until):
        raise ahead(f"the topic has records up to global position {known.position}, the cursor is at {cursor.until}")
    if cursor.round is not None and cursor.round.anchored and known.resets < 0:
        raise unknown(cursor)
    if cursor.round is None and known.sent > cursor.sent:
        raise ahead(f"the topic has been sent {known.sent} records, the cursor says {cursor.sent}")
    last = cursor.round.number if cursor.round else cursor.rounds
    if known.rounds > last:
        raise ahead(f"the folder has the manifest of round {known.rounds}, the cursor is at round {last}")
