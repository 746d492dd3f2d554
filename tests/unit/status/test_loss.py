"""What a stream lost before it was read: its status has the count, and each increase an Event."""

from datetime import UTC, datetime

from messagestore_core.contract.ingest import IngestCounts, IngestOutcome, Lag, Loss
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import TableState
from messagestore_operator.api import MessageStreamStatus
from messagestore_operator.api.messagestream_status import LossStatus
from messagestore_operator.decide.events import stream_events
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.stream import with_progress

AT = datetime(2026, 4, 6, 12, tzinfo=UTC)
LOSS = Loss(records=4, at=AT, topic="orders", partition=2, start=3, end=7, reason="Retention")


def report(loss: Loss | None) -> RunReport:
    table = TableState(version=1, messages=0, dead_letters=0, bytes=0)
    counts = IngestCounts()
    outcome = IngestOutcome(counts=counts, totals=counts, batches=1, table=table, lag=Lag(as_of=AT), loss=loss)
    return RunReport(run="run-1", sequence=1, state="Succeeded", started_at=AT, finished_at=AT, outcome=outcome)


def loss_after(before: LossStatus | None, told: RunReport | None) -> LossStatus | None:
    return with_progress(MessageStreamStatus(loss=before), told, AT).loss


def test_offsets_topic_and_reason_are_in_the_status_and_stay_there() -> None:
    status = loss_after(None, report(LOSS))
    assert status.model_dump(mode="json", by_alias=True) == {
        "records": 4,
        "at": "2026-04-06T12:00:00Z",
        "topic": "orders",
        "partition": 2,
        "start": 3,
        "end": 7,
        "reason": "Retention",
    }
    assert loss_after(status, None) == loss_after(status, report(None)) == status
    assert loss_after(None, report(None)) is None


def test_an_event_tells_of_each_loss_once() -> None:
    before = MessageStreamStatus()
    lost = MessageStreamStatus(loss=loss_after(None, report(LOSS)))
    (event,) = stream_events(before, lost)
    words = "records of topic orders were lost before they were read; status.loss has their offsets"
    assert (event.type, event.reason, event.message) == ("Warning", Reason.RECORDS_LOST, words)
    assert list(stream_events(lost, lost)) == []
    more = MessageStreamStatus(loss=loss_after(None, report(LOSS.model_copy(update={"records": 9}))))
    assert list(stream_events(lost, more)) == [event]
