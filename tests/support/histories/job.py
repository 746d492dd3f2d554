"""A replay job, what it has sent and what it will send."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.run_report import ReplayOutcome
from support.histories import found
from support.histories.state import Job, Message
from support.histories.steps import Replay

Records = list[dict[str, Any]]
_OF_THE_TARGET = ("globalPosition", "retries", "error")
"""Fields that another stream assigns again."""


def to_be_sent(rows: list[Message], sent: Records, erased: set[str]) -> list[Message]:
    """Rows without those that were erased before they were sent."""
    gone = erased - {record["messageId"] for record in sent}
    return [row for row in rows if row.message_id not in gone]


@dataclass
class ReplayJob:
    """A replay job that has begun or will begin."""

    what: Replay
    document: RunDocument
    folder: Path
    job: Job = field(default_factory=Job)
    missed: set[str] = field(default_factory=set)
    """The ids of messages that were erased before the replay ended."""

    def is_under_way(self) -> bool:
        """Whether it has selected what it sends, and not sent all of it."""
        return self.job.sends is not None and not self.job.ended

    def has_ended(self, outcome: ReplayOutcome) -> None:
        """It has sent all that it selected, but for what was erased."""
        told, selected = outcome.progress, len(self.job.sends or [])
        assert (outcome.complete, outcome.selection.messages) == (True, selected)
        assert (told.replayed + told.erased, told.failed, told.lost) == (selected, 0, 0)
        assert told.replayed == len(self.sent())
        self.job.end()

    def sent(self) -> Records:
        """The records that have arrived so far."""
        return found.sent_to_files(self.folder) if self.what.to == "files" else found.sent_to_stream(self.folder)

    def expected(self, erased: set[str]) -> Records:
        """The records that arrive in the end; erased ones only if they were sent before."""
        sent = self.sent()
        rows = to_be_sent(self.job.sends or [], sent, erased)
        if self.what.order == "None":
            # Any order is right.
            places = {record["messageId"]: place for place, record in enumerate(sent)}
            rows.sort(key=lambda row: places.get(row.message_id, len(places)))
        return [self._marked(row) for row in rows] if self.what.to == "files" else self._in_stream(rows)

    def _marked(self, row: Message, **more: str) -> dict[str, Any]:
        return row.as_sent(**{"x-job": self.folder.name, "x-place": f"{row.stream_name}/{row.position}", **more})

    def _in_stream(self, rows: list[Message]) -> Records:
        heads: Counter[str] = Counter()
        taken = []
        for row in rows:
            places = {"x-original-position": row.position, "x-original-global-position": row.global_position}
            record = self._marked(row, **{name: str(place) for name, place in places.items()})
            record |= {"position": heads[row.stream_name], "status": None if row.expires_at else row.status}
            taken.append({name: value for name, value in record.items() if name not in _OF_THE_TARGET})
            heads[row.stream_name] += 1
        return taken
