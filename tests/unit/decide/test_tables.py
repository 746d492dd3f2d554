"""What a current run requests tables with."""

from datetime import UTC, datetime

from messagestore_operator.api.status import CurrentRun
from messagestore_operator.decide.snapshot import LeaseRequest
from messagestore_operator.decide.tables import lease_request_of
from messagestore_operator.status.words import clock_time
from support.launches import stream

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)


def test_a_lease_request_says_which_run_of_which_resource_waits_since_when() -> None:
    run = CurrentRun(name="orders-ingest-1", kind="ingest", number=1, requested_at=clock_time(NOW))
    request = lease_request_of(stream(), run)
    assert request == LeaseRequest("default/orders-ingest-1", "ingest", "MessageStream default/orders", NOW)
