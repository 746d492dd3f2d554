"""Why a resource is in the state it is in: the one list of constants for conditions, Events and logs.

A run that failed brings a reason of its own; those are listed too, because what is done next hangs on them.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Constants of `reason` in conditions and of `error.reason`; a new one is added here and nowhere else."""

    # Of what is well.
    INGESTING = "Ingesting"
    PREVIEWED = "Previewed"
    PURGED = "Purged"
    SCRUBBED = "Scrubbed"
    NOTHING_TO_REMOVE = "NothingToRemove"
    AWAITING_APPROVAL = "AwaitingApproval"
    REPLAYED = "Replayed"
    SUSPENDED = "Suspended"

    # Of what is under way.
    PENDING = "Pending"
    RUNNING = "Running"

    # Of runs that failed.
    ARCHIVE_INCOMPLETE = "ArchiveIncomplete"
    COMMIT_LOST = "CommitLost"
    DESTINATION_NOT_EMPTY = "DestinationNotEmpty"
    INVALID_SPEC = "InvalidSpec"
    MISSING_KEY = "MissingKey"
    NOT_SUPPORTED = "NotSupported"
    PREDICATE_REFUSED = "PredicateRefused"
    REPLAY_CHANGED = "ReplayChanged"
    RUN_FAILED = "RunFailed"
    STREAM_FAILED = "StreamFailed"
    TABLE_BUSY = "TableBusy"
    TABLE_REFUSED = "TableRefused"


TERMINAL = frozenset(
    {
        Reason.DESTINATION_NOT_EMPTY,
        Reason.INVALID_SPEC,
        Reason.MISSING_KEY,
        Reason.NOT_SUPPORTED,
        Reason.PREDICATE_REFUSED,
        Reason.REPLAY_CHANGED,
        Reason.TABLE_REFUSED,
    }
)
"""No other try mends these: somebody has to change something first."""
