"""A stream's status and Events about status updates."""

from datetime import UTC, datetime

from messagestore_core.contract.ingest import IngestCounts, IngestOutcome, Lag, LifecycleOutcome, UpdateCounts
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import TableState
from messagestore_operator.api import MessageStreamStatus
from messagestore_operator.api.messagestream_status import LifecycleStatus, SequencesStatus, UnfinishedMessages
from messagestore_operator.decide.events import stream_events
from messagestore_operator.status.runs import counts_of
from messagestore_operator.status.stream import with_progress

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
TOTALS = UpdateCounts(received=9, applied=5, stale=1, dead_lettered=1, exhausted=1, expired=3)


def report(lifecycle: LifecycleOutcome | None) -> RunReport:
    outcome = IngestOutcome(
        counts=IngestCounts(),
        totals=IngestCounts(),
        batches=0,
        table=TableState(version=1, messages=0, dead_letters=0, bytes=0),
        lag=Lag(as_of=NOW),
        lifecycle=lifecycle,
    )
    return RunReport(run="r", sequence=1, state="Succeeded", started_at=NOW, outcome=outcome)


def figures_after(before: LifecycleStatus | None, told: RunReport | None) -> LifecycleStatus | None:
    return with_progress(MessageStreamStatus(lifecycle=before), told, NOW).lifecycle


def test_the_status_has_the_totals_and_what_is_left_to_do() -> None:
    lag = Lag(as_of=NOW, files=1)
    found = LifecycleOutcome(totals=TOTALS, pending=2, lag=lag, unfinished={"RECEIVED": 4, "FAILED": 1})
    assert figures_after(None, report(found)) == LifecycleStatus(
        received=9,
        applied=5,
        stale=1,
        pending=2,
        dead_lettered=1,
        exhausted=1,
        expired=3,
        unfinished=UnfinishedMessages(received=4, failed=1),
        lag_summary="1 file",
    )


def test_a_run_that_changed_nothing_leaves_what_is_unfinished() -> None:
    before = LifecycleStatus(applied=5, unfinished=UnfinishedMessages(processing=7))
    after = figures_after(before, report(LifecycleOutcome(totals=TOTALS)))
    assert after.unfinished == UnfinishedMessages(processing=7)
    assert figures_after(before, report(None)) == before
    assert figures_after(None, None) is None


def test_a_run_is_listed_with_its_updates() -> None:
    counts = counts_of(report(LifecycleOutcome(counts=UpdateCounts(applied=4, expired=2))))
    assert (counts["updates"], counts["expired"]) == (4, 2)


def test_events_tell_of_what_was_set_aside_and_what_failed_for_good() -> None:
    def status(**counts: int) -> MessageStreamStatus:
        return MessageStreamStatus(lifecycle=LifecycleStatus(**counts))

    after = status(dead_lettered=3, exhausted=2)
    told = list(stream_events(status(dead_lettered=2), after))
    assert [(event.type, event.reason, event.message) for event in told] == [
        (
            "Warning",
            "DeadLetters",
            "status updates were set aside as dead letters; status.lifecycle.deadLettered counts them",
        ),
        (
            "Warning",
            "RetriesExhausted",
            "messages failed and have no retry left; status.lifecycle.exhausted counts them",
        ),
    ]
    # The same message with other counts: one Event with a count.
    assert list(stream_events(after, status(dead_lettered=9, exhausted=4))) == told
    assert list(stream_events(after, after)) == []
    assert list(stream_events(after, MessageStreamStatus())) == []


def test_sequences_that_become_overdue_are_told_once() -> None:
    before, after = (MessageStreamStatus(sequences=SequencesStatus(incomplete=3, overdue=n)) for n in (1, 2))
    (event,) = stream_events(before, after)
    assert (event.type, event.reason) == ("Warning", "SequencesOverdue")
    assert list(stream_events(after, after)) == []
    assert list(stream_events(MessageStreamStatus(), before)) == [event]
