"""Figures of the three kinds for Prometheus, from their statuses; one that isn't known has no series."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from math import inf
from typing import NamedTuple, TypeAlias

from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.api.messagestream_status import Lag, MessageStreamStatus
from messagestore_operator.api.replayjob_status import DestinationStatus
from messagestore_operator.api.retentionpolicy_status import PolicyStreamStatus
from messagestore_operator.api.scalars import Time
from messagestore_operator.api.status import Condition, FinishedRun
from messagestore_operator.decide.policy import erasure_due
from messagestore_operator.decide.tables import current_runs
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.reasons import Reason

_EVERY, _STREAM = ("kind", "namespace", "name"), ("namespace", "stream")
_POLICY, _JOB = ("namespace", "policy", "stream"), ("namespace", "job")
_SENT = (*_JOB, "destination")
_WAITS: Mapping[str, str] = {Failure.TABLE_BUSY: "table", Reason.WAITING_FOR_ROOM: "slot"}
"""Why a run that is not launched waits, by the reason of a condition."""


class Figure(NamedTuple):
    """A figure by its name, without ``messagestore_`` before it; a counter's has no ``_total`` here."""

    name: str
    labels: tuple[str, ...]
    words: str
    counts: bool = False

    @property
    def full_name(self) -> str:
        """The name of its series."""
        return f"messagestore_{self.name}{'_total' * self.counts}"

    @property
    def type(self) -> str:
        """Its type for Prometheus."""
        return "counter" if self.counts else "gauge"


FIGURES = (
    Figure("condition", (*_EVERY, "type", "status", "reason"), "1 for each condition of a resource as it is now."),
    Figure(
        "last_success_timestamp_seconds",
        _EVERY,
        "When a run last succeeded, of the runs that the status has. A policy over several streams: the earliest. Of a "
        "MessageStream however long ago; if none has, and the last failed, when it was created.",
    ),
    Figure("last_run_failed", _EVERY, "Whether the last run that ended failed; of a policy, on any of its streams."),
    Figure("last_run_seconds", _EVERY, "How long the last run took that ended, from its start."),
    Figure("last_run_cpu_seconds", _EVERY, "CPU time of the last run that ended, its executors' too."),
    Figure("last_run_written_bytes", _EVERY, "Bytes that the last run's Spark tasks wrote."),
    Figure(
        "waiting_since_timestamp_seconds",
        (*_EVERY, "waiting_for"),
        "Since when a run waits, of several the first: for its table, which another run has (table), for its turn "
        "among all runs (slot), or, launched, for its driver (driver). No series while none does.",
    ),
    Figure("messages", _STREAM, "Messages in the store."),
    Figure("unfinished_messages", (*_STREAM, "status"), "Messages whose lifecycle status may still change."),
    Figure("dead_letters", _STREAM, "Dead letters in the store that are open: not redriven."),
    Figure("dead_letters_by_reason", (*_STREAM, "reason"), "The same by reason, of the ten reasons with the most."),
    Figure("table_bytes", _STREAM, "Size of the files of table messages."),
    Figure("table_small_files", _STREAM, "Files of table messages that maintenance would merge."),
    Figure(
        "records",
        (*_STREAM, "outcome"),
        "Records received by what became of them: stored, duplicate, dead_lettered, filtered or discarded.",
        counts=True,
    ),
    Figure(
        "status_updates",
        (*_STREAM, "outcome"),
        "Status updates received by what became of them: applied, stale or dead_lettered.",
        counts=True,
    ),
    Figure("records_lost", _STREAM, "Kafka records that were gone before they were read.", counts=True),
    Figure("lag_files", _STREAM, "Files that have not been read yet. No series while that is unknown."),
    Figure("lag_records", _STREAM, "Records that have not been read yet. No series while that is unknown."),
    Figure(
        "lag_seconds", _STREAM, "Age of the oldest record that has not been read yet. No series while that is unknown."
    ),
    Figure("last_batch_timestamp_seconds", _STREAM, "When the last batch was committed."),
    Figure(
        "last_batch_stage_seconds",
        (*_STREAM, "stage"),
        "How long the stages of the last batch took: read, decide, set_aside (claim checks and dead letters), commit.",
    ),
    Figure(
        "last_batch_waited_seconds",
        _STREAM,
        "From the arrival of the last batch's oldest file until its messages could be read; for a topic, from the "
        "oldest timestamp of its partitions' first records.",
    ),
    Figure("last_maintenance_timestamp_seconds", _STREAM, "When the tables' last maintenance ended."),
    Figure("pending_updates", _STREAM, "Status updates whose message has not arrived yet."),
    Figure("incomplete_sequences", _STREAM, "Message sequences that are not complete."),
    Figure("overdue_sequences", _STREAM, "Of those: the ones that wait for longer than sequences.timeout."),
    Figure("preview_messages", _POLICY, "Messages that the last preview would remove or scrub."),
    Figure("preview_held_messages", _POLICY, "Messages that a rule selects and a legal hold keeps."),
    Figure("awaiting_approval", _POLICY, "Whether a preview waits for approval."),
    Figure("last_purge_timestamp_seconds", _POLICY, "When the last purge ended."),
    Figure("last_purge_messages", _POLICY, "Messages that the last purge removed."),
    Figure("erasure_due_timestamp_seconds", _POLICY, "By when erased bytes must be gone. No series once they are."),
    Figure(
        "unsent_messages",
        (*_POLICY, "subscription"),
        "Messages that the last preview keeps until a subscription or a consumer has passed them.",
    ),
    Figure("replay_selected_messages", _JOB, "Messages that a replay has selected."),
    Figure("replay_sent_messages", _JOB, "Messages of the selection that it has sent."),
    Figure(
        "replay_broken_messages",
        _JOB,
        "Messages of the selection that no longer match their digest or seal, or whose payload is gone.",
    ),
    Figure("replay_percent", _JOB, "Percentage of the selection that it has handled."),
    Figure("subscription_position", _SENT, "The last global position that a destination was sent, or that it passed."),
    Figure("subscription_lag_records", _SENT, "Selected messages that a destination was not sent yet."),
    Figure("subscription_lag_seconds", _SENT, "How long the oldest of them has been in the store."),
    Figure(
        "subscription_missed", _SENT, "Messages that a purge removed before a destination was sent them.", counts=True
    ),
    Figure(
        "subscription_set_aside", _SENT, "Messages that an endpoint has refused, and that were set aside.", counts=True
    ),
    Figure(
        "destination_condition",
        (*_SENT, "type", "status", "reason"),
        "1 for each condition of a destination, as it is.",
    ),
)
"""All figures."""


class Since(NamedTuple):
    """A value that grows: the seconds since a time."""

    at: float


class Sample(NamedTuple):
    """A value of a figure; None: it isn't known."""

    figure: str
    labels: tuple[str, ...]
    value: float | Since | None


Samples: TypeAlias = Iterator[Sample]


def samples(resource: Resource) -> Samples:
    """The figures of a resource."""
    where = resource.metadata.namespace, resource.metadata.name
    match resource:
        case MessageStream(status=status) if status is not None:
            runs = [[*_one(status.last_run), *status.recent_runs]]
            yield from _of_every(resource, status.conditions, runs, _last_success(resource, status))
            yield from _of_stream(resource, where)
        case RetentionPolicy(status=status) if status is not None:
            runs = [_one(stream.last_run) for stream in status.streams]
            yield from _of_every(resource, status.conditions, runs, _earliest(runs))
            for stream in status.streams:
                yield from _of_policy((*where, stream.name), stream)
        case ReplayJob(status=status) if status is not None:
            runs = [[*_one(status.last_run), *status.recent_runs]]
            yield from _of_every(resource, status.conditions, runs, _earliest(runs))
            yield from _of_job(resource, where)
            for destination in status.destinations:
                yield from _of_destination((*where, destination.name), destination)
        case _:
            return


def _last_success(stream: MessageStream, status: MessageStreamStatus) -> float | None:
    """When an ingest last succeeded; if none has and the last failed, since when none has: the stream's creation."""
    # An earlier release noted it only with its run.
    known = _seconds(status.last_success_time) or _earliest([[*_one(status.last_run), *status.recent_runs]])
    created = stream.metadata.creation_timestamp
    if known is None and created and status.last_run is not None and status.last_run.state == "Failed":
        return datetime.fromisoformat(created).timestamp()
    return known


def _earliest(runs: list[list[FinishedRun]]) -> float | None:
    """The earliest of the last successes of some streams; None if one is unknown."""
    succeeded = [next((_seconds(run.finished_at) for run in some if run.state == "Succeeded"), None) for some in runs]
    known = [at for at in succeeded if at is not None]
    return min(known, default=None) if len(known) == len(runs) else None


def _of_every(
    resource: Resource, conditions: tuple[Condition, ...], runs: list[list[FinishedRun]], last_success: float | None
) -> Samples:
    """What all kinds have; ``runs`` are those of each stream of a policy, and otherwise all, the newest first."""
    own = resource.identity
    yield from _conditions("condition", own, conditions)
    yield from _waiting(resource, conditions)
    yield Sample("last_success_timestamp_seconds", own, last_success)
    ended = [run for some in runs for run in some[:1] if run.finished_at is not None]
    last = max(ended, key=lambda run: _seconds(run.finished_at) or 0, default=None)
    if last is not None:
        yield Sample("last_run_failed", own, any(run.state == "Failed" for run in ended))
        yield Sample("last_run_seconds", own, _between(last.started_at, last.finished_at))
        yield Sample("last_run_cpu_seconds", own, last.cpu_seconds)
        yield Sample("last_run_written_bytes", own, last.bytes_written)


def _waiting(resource: Resource, conditions: tuple[Condition, ...]) -> Samples:
    why = next((_WAITS[one.reason] for one in conditions if one.reason in _WAITS), None)
    first: dict[str, float] = {}
    for run, _ in current_runs(resource):
        what, since = ("driver", run.launched_at) if run.launched_at is not None else (why, run.requested_at)
        if run.started_at is None and what is not None and since is not None:
            first[what] = min(first.get(what, inf), since.datetime.timestamp())
    for what, at in first.items():
        yield Sample("waiting_since_timestamp_seconds", (*resource.identity, what), at)


def _of_stream(stream: MessageStream, own: tuple[str, ...]) -> Samples:
    status = stream.status
    assert status is not None
    if status.lag is not None:
        yield from _of_lag(own, status.lag)
    if (totals := status.totals) is not None:
        for outcome, count in (
            ("stored", totals.stored),
            ("duplicate", totals.duplicates),
            ("dead_lettered", totals.dead_lettered),
            ("filtered", totals.filtered),
            ("discarded", totals.discarded),
        ):
            yield Sample("records", (*own, outcome), count)
    if (table := status.table) is not None:
        yield Sample("messages", own, table.messages)
        yield Sample("dead_letters", own, table.dead_letters)
        yield Sample("table_bytes", own, table.bytes)
        yield Sample("table_small_files", own, table.small_files)
        for each in table.dead_letters_by_reason:
            yield Sample("dead_letters_by_reason", (*own, each.reason), each.count)
    yield Sample("records_lost", own, _lost(stream, status))
    if status.sequences is not None:
        yield Sample("incomplete_sequences", own, status.sequences.incomplete)
        yield Sample("overdue_sequences", own, status.sequences.overdue)
    yield Sample("last_batch_timestamp_seconds", own, _seconds(status.last_batch_time))
    if (batch := status.last_batch) is not None:
        for stage in ("read", "decide", "set_aside", "commit"):
            yield Sample("last_batch_stage_seconds", (*own, stage), getattr(batch, f"{stage}_seconds"))
        yield Sample("last_batch_waited_seconds", own, batch.waited_seconds)
    maintained = status.maintenance.at if status.maintenance is not None else None
    yield Sample("last_maintenance_timestamp_seconds", own, _seconds(maintained))
    yield from _of_lifecycle(stream, own)


def _lost(stream: MessageStream, status: MessageStreamStatus) -> float | None:
    if status.loss is not None:
        return status.loss.records
    # A topic that lost nothing says so: Prometheus sees no increase in a series that begins with the first loss.
    return 0 if status.totals is not None and stream.spec.source.kafka is not None else None


def _of_lag(own: tuple[str, ...], lag: Lag) -> Samples:
    yield Sample("lag_files", own, lag.files)
    yield Sample("lag_records", own, lag.records)
    none = 0 in (lag.files, lag.records)
    yield Sample("lag_seconds", own, _age(lag.oldest_pending_time, none=none))


def _of_lifecycle(stream: MessageStream, own: tuple[str, ...]) -> Samples:
    lifecycle = stream.status.lifecycle if stream.status is not None else None
    if lifecycle is None:
        return
    yield Sample("pending_updates", own, lifecycle.pending)
    yield Sample("status_updates", (*own, "applied"), lifecycle.applied)
    yield Sample("status_updates", (*own, "stale"), lifecycle.stale)
    yield Sample("status_updates", (*own, "dead_lettered"), lifecycle.dead_lettered)
    if (unfinished := lifecycle.unfinished) is not None:
        yield Sample("unfinished_messages", (*own, "RECEIVED"), unfinished.received)
        yield Sample("unfinished_messages", (*own, "PROCESSING"), unfinished.processing)
        yield Sample("unfinished_messages", (*own, "FAILED"), unfinished.failed)


def _of_policy(own: tuple[str, ...], stream: PolicyStreamStatus) -> Samples:
    yield Sample("awaiting_approval", own, stream.awaiting_approval)
    if (preview := stream.preview) is not None:
        yield Sample("preview_messages", own, preview.messages)
        yield Sample("preview_held_messages", own, preview.held)
        for unsent in preview.subscriptions:
            yield Sample("unsent_messages", (*own, unsent.name), unsent.waiting)
    if (purge := stream.last_purge) is not None:
        yield Sample("last_purge_timestamp_seconds", own, _seconds(purge.at))
        yield Sample("last_purge_messages", own, purge.purged)
        due = erasure_due(stream)
        yield Sample("erasure_due_timestamp_seconds", own, due.timestamp() if due else None)


def _of_job(job: ReplayJob, own: tuple[str, ...]) -> Samples:
    status = job.status
    assert status is not None
    if status.selection is not None:
        yield Sample("replay_selected_messages", own, status.selection.messages)
    if status.progress is not None:
        yield Sample("replay_sent_messages", own, status.progress.replayed)
        yield Sample("replay_broken_messages", own, status.progress.failed)
        yield Sample("replay_percent", own, status.progress.percent)


def _of_destination(own: tuple[str, ...], destination: DestinationStatus) -> Samples:
    yield from _conditions("destination_condition", own, destination.conditions)
    if (cursor := destination.cursor) is not None:
        yield Sample("subscription_position", own, cursor.global_position)
        yield Sample("subscription_missed", own, cursor.missed)
        yield Sample("subscription_set_aside", own, cursor.set_aside)
    if (lag := destination.lag) is not None:
        yield Sample("subscription_lag_records", own, lag.records)
        yield Sample("subscription_lag_seconds", own, _age(lag.oldest_pending_time, none=lag.records == 0))


def _conditions(figure: str, own: tuple[str, ...], conditions: tuple[Condition, ...]) -> Samples:
    for one in conditions:
        yield Sample(figure, (*own, one.type, one.status, one.reason), 1)


def _one(run: FinishedRun | None) -> list[FinishedRun]:
    return [] if run is None else [run]


def _seconds(at: Time | None) -> float | None:
    return None if at is None else at.datetime.timestamp()


def _between(start: Time | None, end: Time | None) -> float | None:
    return None if start is None or end is None else (end.datetime - start.datetime).total_seconds()


def _age(oldest: Time | None, *, none: bool) -> float | Since | None:
    """How long the oldest waits; 0 if none does, None if that isn't known."""
    if oldest is not None:
        return Since(oldest.datetime.timestamp())
    return 0 if none else None
