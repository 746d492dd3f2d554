"""What a run that goes on has done since its last row in the audit: the cursor keeps it, up to an hour."""

from collections.abc import Mapping
from datetime import timedelta

from messagestore_core.clock import now
from messagestore_core.contract.replay import ReplayProgress
from messagestore_core.store.audit import note
from messagestore_core.store.cursors import Cursor, Unnoted
from messagestore_jobs.context import Run
from messagestore_jobs.replay.begin import REPLAY, counts_of, detail_of, task_of

_NOTED_EVERY = timedelta(hours=1)
_NO_PROGRESS = {"after", "since", "selected", "bytes"}


def with_unnoted(run: Run, cursor: Cursor, counts: Mapping[str, int]) -> Cursor:
    """The cursor with more to note, counted since its position of before."""
    before = cursor.unnoted or Unnoted(after=cursor.global_position, since=now(run.document))
    sums = {name: getattr(before, name) + count for name, count in counts.items()}
    return cursor.model_copy(update={"unnoted": before.model_copy(update=sums)})


def is_due(run: Run, cursor: Cursor) -> bool:
    """Whether something waits for its row for an hour."""
    return cursor.unnoted is not None and now(run.document) - cursor.unnoted.since >= _NOTED_EVERY


def note_unnoted(run: Run, cursor: Cursor) -> Cursor:
    """Add a row to the audit; of one range there is one, whatever crashes. Return the cursor without it, to write."""
    unnoted = cursor.unnoted
    if unnoted is None:
        return cursor
    place = {"after": unnoted.after, "until": cursor.global_position, "resets": cursor.resets}
    if cursor.sequences is not None:
        # A round may send what waited, and not move.
        place["rounds"] = cursor.rounds
    counts = counts_of(run.store, unnoted.selected, ReplayProgress(**unnoted.model_dump(exclude=_NO_PROGRESS)))
    detail = {**detail_of(run.document, task_of(run)), **place}
    note(run.store, run.document, REPLAY, detail, counts=counts, bytes=unnoted.bytes, once=True)
    return cursor.model_copy(update={"unnoted": None})
