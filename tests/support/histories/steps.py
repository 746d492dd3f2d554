"""What may happen to a store."""

import json
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from support.ingests import START, record
from support.lifecycles import update

HOUR = timedelta(hours=1)


class Record(NamedTuple):
    """One record at the source of messages; ``lasts`` are hours from the beginning of the history."""

    number: int
    stream: str = "a-1"
    garbage: bool = False
    expects: int | None = None
    lasts: int | None = None
    group: str | None = None
    place: int | None = None
    """Its number in the one sequence that there is."""
    size: int | None = None
    """What it says of that sequence's size, if it has a number in it."""

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
    """One record at the source of updates; ``hour`` counts from the beginning of the history. No status: garbage."""

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


class Ingest(NamedTuple):
    """Files arrive, and a run takes in what waits; ``again`` are earlier files that are touched."""

    files: tuple[tuple[Record, ...], ...] = ()
    updates: tuple[tuple[Told, ...], ...] = ()
    again: tuple[int, ...] = ()
    files_in_a_batch: int = 2


class Purge(NamedTuple):
    """A run of a policy whose one rule has these conditions; a rule with a number erases that message."""

    older: int | None = None
    """Than so many hours."""
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


class Redeliver(NamedTuple):
    """One more run of the job that sends again what is due."""


class Maintain(NamedTuple):
    """A maintenance that keeps of the past only what somebody still needs, as after half a year."""


class GoOn(NamedTuple):
    """All replays that were cut off are carried on."""


class Step(NamedTuple):
    """One thing that is done, hours after the one before.

    Its run is cut off at each of these moments in turn, if it has so many. Then it is carried on to its end, or left
    as it is.
    """

    does: Ingest | Purge | Replay | Redeliver | Maintain | GoOn
    hours: int = 1
    cuts: tuple[int, ...] = ()
    left: bool = False
    unheard: bool = False
    """Whether it is cut off by an answer that is lost: what it asked for has happened, and it hears that it failed."""
    gone: bool = False
    """Whether after each cut of an ingest the next file that it would read is gone."""


def scrubbed(payload: bytes) -> bytes:
    """As a scrub of ``$.secret`` leaves a payload."""
    return payload[: payload.index(b'"secret":')] + b'"secret":' + json.dumps("[redacted]").encode() + b"}"
