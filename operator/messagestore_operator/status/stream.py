"""The figures in the status of a MessageStream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from messagestore_core.contract import run_report as contract
from messagestore_core.contract.run_report import IngestOutcome, MaintainOutcome, RunReport
from messagestore_operator.api import MessageStreamStatus
from messagestore_operator.api.messagestream_status import (
    Lag,
    LifecycleStatus,
    LossStatus,
    ReasonCount,
    SequencesStatus,
    StreamTotals,
    TableStatus,
    UnfinishedMessages,
)
from messagestore_operator.status.facts import StoreFacts, facts_of
from messagestore_operator.status.times import ago, clock_time, in_status, message_time
from messagestore_operator.status.words import count

UNKNOWN = "unknown"
"""The lag of a stream whose source nobody lists."""

_MOST_REASONS = 10


def with_progress(before: MessageStreamStatus, report: RunReport | None, now: datetime) -> MessageStreamStatus:
    """A status with the figures of a report, of a run in progress or an ended one, and the time of the last batch.

    Times are the operator's, never the report's, which has another clock.
    """
    outcome = report.outcome if report else None
    if isinstance(outcome, IngestOutcome):
        totals = StreamTotals(**outcome.totals.model_dump())
        more = before.totals is None or totals.received > before.totals.received
        batch = clock_time(now) if more and outcome.batches else before.last_batch_time
        changes = {
            "totals": totals,
            "sequences": _sequences(outcome.sequences),
            "lag": _lag(outcome.lag),
            "loss": _loss(before.loss, outcome),
            "lifecycle": _lifecycle(before.lifecycle, outcome),
            "last_batch_time": batch,
        }
        return before.model_copy(update={**changes, "table": table_status(outcome.table, before.table)})
    if isinstance(outcome, MaintainOutcome):
        return before.model_copy(update={"table": table_status(outcome.table, before.table)})
    return before


def with_purges(status: MessageStreamStatus, after: Iterable[TableStatus]) -> MessageStreamStatus:
    """The status with the store's contents after the last purge or erasure, if no other run has written it since.

    Each run that writes has an epoch of its own, larger than those before it.
    """
    known = status.table
    newest = max(after, key=_epoch, default=None)
    if known is None or newest is None or _epoch(newest) <= _epoch(known):
        return status
    return status.model_copy(update={"table": _following(known, newest)})


def with_store(
    before: MessageStreamStatus, report: RunReport | None, store: StoreFacts | None, now: datetime
) -> MessageStreamStatus:
    """A status with the figures of an ended run, and those of the store itself if it could be read."""
    status, store = with_progress(before, report, now), store or facts_of(report)
    if store is None:
        return status
    return status.model_copy(
        update={
            "totals": StreamTotals(**store.totals.model_dump()),
            "table": table_status(store.table, before.table),
            "last_batch_time": clock_time(store.last_batch_at) or before.last_batch_time,
        }
    )


def with_unknown_lag(status: MessageStreamStatus) -> MessageStreamStatus:
    """The status of a stream whose source can't be listed now: what has arrived since the last look is unknown."""
    lag, lifecycle = status.lag, status.lifecycle
    if lag is not None:
        lag = Lag(as_of=lag.as_of, summary=UNKNOWN, source_found=lag.source_found)
    if lifecycle is not None and lifecycle.lag is not None:
        lifecycle = lifecycle.model_copy(update={"lag": UNKNOWN})
    return status.model_copy(update={"lag": lag, "lifecycle": lifecycle})


def stored(status: MessageStreamStatus, now: datetime | None = None) -> str:
    """The store's contents in words that change only with it; with ``now``, with the age of the last batch."""
    messages = count(status.table.messages or 0 if status.table else 0, "message")
    last = status.last_batch_time
    if last is None:
        return f"{messages} stored; no batch yet"
    return f"{messages} stored; last batch {ago(last.datetime, now) if now else f'at {last}'}"


def table_status(state: contract.TableState, before: TableStatus | None = None) -> TableStatus:
    """The contents of the store, in a report that follows earlier ones."""
    after = in_status(
        TableStatus,
        state,
        dead_letters_by_reason=_by_reason(state.dead_letters_by_reason or {}),
        oldest_message_time=message_time(state.oldest_message_time),
        newest_message_time=message_time(state.newest_message_time),
    )
    return _following(before, after) if before is not None else after


def _by_reason(counts: Mapping[str, int]) -> tuple[ReasonCount, ...]:
    most = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:_MOST_REASONS]
    return tuple(ReasonCount(reason=reason, count=number) for reason, number in most)


def _following(before: TableStatus, after: TableStatus) -> TableStatus:
    """The contents, with what only earlier figures tell: the last position given, and dead letters' reasons."""
    positions = (after.last_global_position, before.last_global_position)
    last = max((position for position in positions if position is not None), default=None)
    changes: dict[str, object] = {"last_global_position": last}
    if not after.dead_letters_by_reason and after.dead_letters == before.dead_letters:
        changes["dead_letters_by_reason"] = before.dead_letters_by_reason
    return after.model_copy(update=changes)


def _epoch(table: TableStatus) -> int:
    return -1 if table.epoch is None else table.epoch


def _sequences(sequences: contract.SequenceState | None) -> SequencesStatus | None:
    if sequences is None:
        return None
    return in_status(SequencesStatus, sequences, oldest_time=message_time(sequences.oldest_time))


def _lag(lag: contract.Lag) -> Lag:
    return in_status(Lag, lag, files=lag.files if lag.records is None else None, summary=_waiting(lag))


def _waiting(lag: contract.Lag) -> str:
    return count(lag.files, "file") if lag.records is None else count(lag.records, "record")


def _loss(before: LossStatus | None, outcome: IngestOutcome) -> LossStatus | None:
    """The records of topics that were lost before they were read; the report has the sum over all runs."""
    return before if outcome.loss is None else in_status(LossStatus, outcome.loss)


def _lifecycle(before: LifecycleStatus | None, outcome: IngestOutcome) -> LifecycleStatus | None:
    """The report's figures. A run without changes doesn't count unfinished messages; then the earlier counts stay."""
    lifecycle = outcome.lifecycle
    if lifecycle is None:
        return before
    return in_status(
        LifecycleStatus,
        lifecycle.totals,
        pending=lifecycle.pending,
        unfinished=_unfinished(lifecycle.unfinished) or (before.unfinished if before else None),
        lag=_waiting(lifecycle.lag) if lifecycle.lag else before.lag if before else None,
    )


def _unfinished(by_status: Mapping[str, int] | None) -> UnfinishedMessages | None:
    if by_status is None:
        return None
    return UnfinishedMessages(**{status.lower(): messages for status, messages in by_status.items()})
