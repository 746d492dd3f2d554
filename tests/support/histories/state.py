"""A store in plain Python."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from support.histories.steps import Purge, Record, Spec, Told

Writes = Iterator[str]
"""A run of the model as its external writes: the code after a name takes effect with that write, at once.

Names are those of the product's own writes; an interrupted run stops at one of them.
"""


@dataclass
class Message:
    """One row of ``messages``."""

    message_id: str
    stream_name: str
    position: int
    global_position: int
    inserted_at: datetime
    expires_at: datetime | None
    correlation_id: str | None
    sequence_number: int | None
    sequence_size: int | None
    source: tuple[str, int]
    """File and offset."""
    headers: dict[str, str]
    payload: bytes
    status: str = "RECEIVED"
    retries: int = 0
    next_retry_at: datetime | None = None
    updated_at: datetime | None = None
    error: str | None = None
    scrubbed_at: datetime | None = None

    def as_sent(self, **headers: str) -> dict[str, Any]:
        """The compared part of its record."""
        return {
            "messageId": self.message_id,
            "streamName": self.stream_name,
            "position": self.position,
            "globalPosition": self.global_position,
            "status": self.status,
            "retries": self.retries,
            "error": self.error,
            "payload": self.payload,
            "headers": {**self.headers, **headers},
        }


class Place(NamedTuple):
    """Source and offset of a record."""

    kind: str
    file: str
    offset: int


class Letter(NamedTuple):
    """One dead letter, written by ``batch``, or refused by it again."""

    reason: str
    raw: bytes
    batch: str
    at: datetime
    tries: int = 1
    earlier: tuple[tuple[str, str], ...] = ()
    """Reason and batch of the refusals before."""
    redriven: tuple[datetime, str] | None = None
    """When the redrive began that took it out, and by which resource."""


class Exhausted(NamedTuple):
    """The dead letter of a message without retries left: written by a batch, with the message's earlier state."""

    batch: str
    message: Message


class Waiting(NamedTuple):
    """One update that waits for its message."""

    since: datetime
    place: Place
    told: Told


class File(NamedTuple):
    """A file that has arrived, of messages or of updates."""

    name: str
    content: tuple[Record, ...] | tuple[Told, ...]

    def places(self, kind: str) -> Iterator[tuple[Place, Record | Told]]:
        """The file's records with their places."""
        offset = 0
        for one in self.content:
            yield Place(kind, self.name, offset), one
            offset += len(one.line()) + 1


class Batch(NamedTuple):
    """The planned records of one batch, when it was planned, and the spec that judges it."""

    name: str
    at: datetime
    files: tuple[File, ...]
    spec: Spec
    redrives: bool = False
    """Whether its records are dead letters."""
    lacks: bool = False
    """Whether a file of the plan is gone, and no run has noted that."""


@dataclass
class Plan:
    """A decided purge: the messages to remove, by global position, with their status at that time."""

    run: str
    what: Purge
    at: datetime
    rows: dict[int, str]
    remembered: bool = False
    """Whether the ids of its messages are remembered."""


@dataclass
class Job:
    """A replay; its selection is frozen when it begins."""

    sends: list[Message] | None = None
    ended: bool = False

    def end(self) -> None:
        self.ended = True


@dataclass
class RedriveJob:
    """A redrive; the dead letters that it sends are frozen when it begins."""

    name: str
    letters: list[Place] | None = None
    batch: Batch | None = None
    stored: bool = False
    """Whether its batch is committed."""

    @property
    def by(self) -> str:
        return f"default/{self.name}"

    @property
    def own(self) -> str:
        """The name of its only batch."""
        return f"replay:{self.name}/1"


@dataclass
class Store:
    """A store's whole state, and the files to read."""

    messages: list[Message] = field(default_factory=list)
    heads: dict[str, int] = field(default_factory=dict)
    next_global: int = 1
    letters: dict[Place, Letter] = field(default_factory=dict)
    exhausted: list[Exhausted] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    erased: set[str] = field(default_factory=set)
    remember_purged: timedelta | None = None
    purged: dict[str, datetime] = field(default_factory=dict)
    """When the ids of purged messages were purged last, if they are remembered."""
    erased_letters: int = 0
    """Counted dead letters that were copies of erased messages."""
    archived: list[int] = field(default_factory=list)
    totals: Counter[str] = field(default_factory=Counter)
    updates: Counter[str] = field(default_factory=Counter)

    unread: list[File] = field(default_factory=list)
    unread_updates: list[File] = field(default_factory=list)
    batches: Counter[str] = field(default_factory=Counter)
    batch: Batch | None = None
    """Planned and not committed, like the next two."""
    update_batch: Batch | None = None
    settling: bool = False
    plan: Plan | None = None
    rounds: list[list[Message]] = field(default_factory=list)

    seen: Counter[str] = field(default_factory=Counter)
    """The kinds of steps that have happened."""

    def find(self, message_id: str) -> Message | None:
        return next((message for message in self.messages if message.message_id == message_id), None)

    def remembers(self, message_id: str, at: datetime) -> bool:
        """Whether an id is remembered as purged."""
        return (
            self.remember_purged is not None
            and message_id in self.purged
            and at < self.purged[message_id] + self.remember_purged
        )

    def is_to_read(self, file: File) -> bool:
        """Whether a file of messages waits for a run, or for the end of an interrupted one."""
        return file in self.unread or (self.batch is not None and file in self.batch.files)

    def lose_next_file(self) -> str | None:
        """Delete the next file of messages that a run would read; returns its name."""
        batch = self.batch
        file = next(iter((*(batch.files if batch else ()), *self.unread)), None)
        if file is None:
            return None
        self.seen["file gone"] += 1
        if batch and file in batch.files:
            self.batch = batch._replace(files=tuple(one for one in batch.files if one != file), lacks=True)
        self.unread = [one for one in self.unread if one.name != file.name]
        return file.name

    def gone_letters(self, batch: Batch) -> int:
        """How many dead letters an earlier try of a batch wrote whose file is gone since."""
        return sum(letter.batch == batch.name for letter in self.letters.values()) - len(self.own_letters(batch))

    def own_letters(self, batch: Batch) -> list[Place]:
        """The dead letters that an earlier try of a batch wrote and whose file is there."""
        files = {file.name for file in batch.files}
        return [p for p, letter in self.letters.items() if letter.batch == batch.name and p.file in files]

    def is_open(self, batch: str) -> bool:
        """Whether a batch has not been committed and counted yet."""
        return batch in {one.name for one in (self.batch, self.update_batch) if one} or (
            self.settling and batch == self.settled_by
        )

    @property
    def settled_by(self) -> str:
        """The name of the next batch of waiting updates."""
        return f"pending-updates/{self.batches['settled'] + 1}"

    def set_aside(self, letters: dict[Place, Letter]) -> Writes:
        """Write dead letters at once, if any of them is new."""
        new = {place: letter for place, letter in letters.items() if place not in self.letters}
        if new:
            yield "dead-letters"
            self.letters |= new
            self.seen.update(letter.reason for letter in new.values())

    def by_position(self) -> list[Message]:
        """Copies of all messages, by global position."""
        return [replace(message) for message in sorted(self.messages, key=lambda m: m.global_position)]
