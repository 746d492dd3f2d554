"""The possible steps of a history."""

import json
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from support.ingests import START, record
from support.lifecycles import update

HOUR = timedelta(hours=1)


class Record(NamedTuple):
    """One record of the source of messages; ``lasts`` is in hours from the beginning of the history."""

    number: int
    stream: str = "a-1"
    garbage: bool = False
    expects: int | None = None
    lasts: int | None = None
    group: str | None = None
    place: int | None = None
    """Its number in the only sequence."""
    size: int | None = None
    """Its size of that sequence, if it has a number in it."""

    @property
    def message_id(self) -> str:
        return f"m{self.number}"

    @property
    def expires_at(self) -> datetime | None:
        return None if self.lasts is None else START + self.lasts * HOUR

    @property
    def told_size(self) -> int | None:
        return None if self.place is None else self.size

    @property
    def payload(self) -> bytes:
        return b'{"n":%d,"secret":"s%d"}' % (self.number, self.number)

    def line(self) -> bytes:
        if self.garbage:
            return b"garbage about m%d" % self.number
        given: dict[str, Any] = {
            "streamName": self.stream,
            "headers": {"k": f"v{self.number}"},
            "expectedVersion": self.expects,
            "expiresAt": self.expires_at.isoformat() if self.expires_at else None,
            "correlationId": self.group,
            "sequenceId": None if self.place is None else "s",
            "sequenceNumber": self.place,
            "sequenceSize": self.told_size,
        }
        told = {name: value for name, value in given.items() if value is not None}
        return record(self.message_id, payload=self.payload, **told)


class Told(NamedTuple):
    """One record of the source of updates; ``hour`` is from the beginning of the history. No status: invalid."""

    number: int
    status: str | None
    attempt: int | None = None
    hour: int | None = None

    @property
    def message_id(self) -> str:
        return f"m{self.number}"

    @property
    def time(self) -> datetime | None:
        return None if self.hour is None else START + self.hour * HOUR

    @property
    def error(self) -> str | None:
        return f"{self.status} {self.attempt}" if self.status == "FAILED" else None

    def line(self) -> bytes:
        if self.status is None:
            return b"no update of m%d" % self.number
        given = {"attempt": self.attempt, "time": self.time.isoformat() if self.time else None, "error": self.error}
        return update(self.message_id, self.status, **{k: v for k, v in given.items() if v is not None})


Spec = Literal["takes all", "asks for groups", "sets b aside", "drops b", "stores expired"]
"""What a stream's spec says about records."""


class Growth(NamedTuple):
    """Records that are appended to an earlier file."""

    file: int
    by: tuple[Record, ...]


class Ingest(NamedTuple):
    """Files arrive, and a run ingests what waits; ``again`` are earlier files that are touched."""

    files: tuple[tuple[Record, ...], ...] = ()
    updates: tuple[tuple[Told, ...], ...] = ()
    again: tuple[int, ...] = ()
    files_in_a_batch: int = 2
    spec: Spec = "takes all"
    growth: Growth | None = None


class Purge(NamedTuple):
    """A run of a policy with one rule with these conditions; a rule with a number erases that message."""

    older: int | None = None
    """Older than these hours."""
    stream: str | None = None
    status: str | None = None
    erased: int | None = None
    scrubs: bool = False
    held: tuple[int, ...] = ()


class Replay(NamedTuple):
    """A new replay job."""

    to: Literal["files", "stream"] = "files"
    order: Literal["PerStream", "Global", "Sequence", "None"] = "PerStream"
    stream: str | None = None
    status: str | None = None
    limit: int | None = None
    remade: bool = False
    """Whether it asks for something else under the name of the replay before, with the same destination."""


class Redeliver(NamedTuple):
    """One more run of the job that sends messages due for a retry."""


class Redrive(NamedTuple):
    """A new replay job that sends all open dead letters of messages to their own stream; it is never left undone."""

    spec: Spec = "takes all"


class Maintain(NamedTuple):
    """A maintenance that keeps only still needed parts of the past, as after half a year."""


class Foreign(NamedTuple):
    """Maintenance by somebody else, of one table or of all."""

    what: Literal["optimize", "optimize without statistics", "vacuum", "compact"]
    table: str | None = None


class Damaged(NamedTuple):
    """Somebody changes, rolls back or removes a table; once runs have refused the store, all of it is put back."""

    how: Literal["restored", "rolled back", "lost"]
    table: str


class RestoreAll(NamedTuple):
    """A RESTORE of all tables to the moment before the last step, which somebody accepts; a history ends with it."""


class MakeAgain(NamedTuple):
    """The store's folder is removed, and the next run makes another store under its name."""


class GoOn(NamedTuple):
    """Continue all interrupted replays."""


class Erasure(NamedTuple):
    """A message that other runs erase, to its last byte, at a moment of a replay's run that has selected."""

    number: int
    moment: int


class Step(NamedTuple):
    """One step, some hours after the one before.

    Its run is interrupted at each of these moments in turn, if it has so many. Then it is continued to its end, or left
    as it is.
    """

    does: Ingest | Purge | Replay | Redrive | Redeliver | Maintain | Foreign | Damaged | RestoreAll | MakeAgain | GoOn
    hours: int = 1
    cuts: tuple[int, ...] = ()
    left: bool = False
    unheard: bool = False
    """Whether a lost answer interrupts it: the write succeeded, and the run gets an error."""
    gone: bool = False
    """Whether after each interruption of an ingest the next file that it would read is deleted."""
    erases: Erasure | None = None
    """What is erased while a replay runs."""


def words(ids: Iterable[str]) -> re.Pattern[bytes]:
    """A pattern for some ids as whole words; without any it matches nothing."""
    return re.compile(rb"(?<![\w-])(" + (b"|".join(one.encode() for one in ids) or rb"(?!)") + rb")(?![\w-])")


def scrubbed(payload: bytes) -> bytes:
    """A payload after a scrub of ``$.secret``."""
    return payload[: payload.index(b'"secret":')] + b'"secret":' + json.dumps("[redacted]").encode() + b"}"
