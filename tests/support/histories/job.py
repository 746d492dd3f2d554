"""A replay job, what it has sent and what it will send."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from messagestore_core.contract.replay import ReplayOutcome
from messagestore_core.contract.run_document import RunDocument
from support.histories import found
from support.histories.state import Job, Message
from support.histories.steps import Replay

Records = list[dict[str, Any]]
_OF_THE_TARGET = ("globalPosition", "retries", "error")
"""Fields that another stream assigns again."""


def to_be_sent(rows: list[Message], sent: Records, missed: set[str]) -> list[Message]:
    """Rows without those that may be missed, unless they were sent."""
    gone = missed - {record["messageId"] for record in sent}
    return [row for row in rows if row.message_id not in gone]


@dataclass
class ReplayJob:
    """A replay job that has begun or will begin."""

    what: Replay
    document: RunDocument
    folder: Path
    job_id: str
    """The name under which it sends: another one if its resource was made again."""
    found: Records = field(default_factory=list)
    """What the replays of this name before have sent to the stream, which stores no message twice."""
    job: Job = field(default_factory=Job)
    missed: set[str] = field(default_factory=set)
    """The ids of messages that it may pass over: those erased before it ended, and those that the store has lost."""
    never: set[str] = field(default_factory=set)
    """The ids of messages that were erased to the last byte before they were sent."""
    since: dict[int, list[Message]] | None = None
    """Later states of messages, by global position, once an erasure has removed the past; then it sends the newest."""

    def is_under_way(self) -> bool:
        """Whether it has selected what it sends, and not sent all of it."""
        return self.job.sends is not None and not self.job.ended

    def lose_the_past(self, messages: list[Message], erased: set[str], looks: bool) -> None:
        """An erasure has left only the newest versions of the tables, with these messages.

        ``looks`` tells whether the replay looks at the tombstones before it sends anything else.
        """
        selected = {row.message_id for row in self.job.sends or []}
        self.since = self.since or {}
        self.missed |= selected - {message.message_id for message in messages}
        if looks:
            self.never |= (selected & erased) - {record["messageId"] for record in self.sent()}

    def note_states(self, messages: list[Message]) -> None:
        """Note the present state of messages, if that may be sent."""
        if self.since is not None and not self.job.ended:
            for message in messages:
                self.since.setdefault(message.global_position, []).append(message)

    def has_ended(self, outcome: ReplayOutcome) -> None:
        """It has sent all that it selected, but for what was erased."""
        told, selected = outcome.progress, len(self.job.sends or [])
        assert (outcome.complete, outcome.selection.messages) == (True, selected)
        assert (told.replayed + told.erased + told.lost, told.failed) == (selected, 0)
        assert told.lost == 0 or self.since is not None
        assert self.found or told.replayed == len(self.sent())
        self.job.end()

    def sent_later(self) -> int:
        """How many messages it sent in a later state than they were selected in."""
        sent = self.sent()
        return sum(self._as_it_was(row, sent) is not row for row in self.job.sends or [])

    def sent(self) -> Records:
        """The records that have arrived so far."""
        return found.sent_to_files(self.folder) if self.what.to == "files" else found.sent_to_stream(self.folder)

    def expected(self, missed: set[str]) -> Records:
        """The records that arrive in the end; those that may be missed only if they were sent.

        Files are final with their manifest.
        """
        sent = self.sent()
        never = self.never if self.job.ended or self.what.to == "stream" else set()
        rows = [row for row in to_be_sent(self.job.sends or [], sent, missed) if row.message_id not in never]
        there = {record["messageId"] for record in self.found}
        rows = [self._as_it_was(row, sent) for row in rows if row.message_id not in there]
        if self.what.order == "None":
            # Any order is right.
            places = {record["messageId"]: place for place, record in enumerate(sent)}
            rows.sort(key=lambda row: places.get(row.message_id, len(places)))
        return [self._marked(row) for row in rows] if self.what.to == "files" else self._in_stream(rows)

    def _as_it_was(self, row: Message, sent: Records) -> Message:
        """The message as it was selected, or in the later state that was sent."""
        names = ("status", "retries", "error", "payload") if self.what.to == "files" else ("status", "payload")
        later = (self.since or {}).get(row.global_position, [])
        for record in sent:
            if record["messageId"] == row.message_id:
                states = (one for one in (row, *later) if all(one.as_sent()[name] == record[name] for name in names))
                return next(states, row)
        return row

    def _marked(self, row: Message, **more: str) -> dict[str, Any]:
        return row.as_sent(**{"x-job": self.job_id, "x-place": f"{row.stream_name}/{row.position}", **more})

    def _in_stream(self, rows: list[Message]) -> Records:
        heads = Counter(record["streamName"] for record in self.found)
        taken = [*self.found]
        for row in rows:
            places = {"x-original-position": row.position, "x-original-global-position": row.global_position}
            record = self._marked(row, **{name: str(place) for name, place in places.items()})
            record |= {"position": heads[row.stream_name], "status": None if row.expires_at else row.status}
            taken.append({name: value for name, value in record.items() if name not in _OF_THE_TARGET})
            heads[row.stream_name] += 1
        return taken
