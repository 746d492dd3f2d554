"""What a current run requests tables with."""

from datetime import UTC, datetime
from typing import Any

import pytest

from messagestore_operator.api.status import CurrentRun
from messagestore_operator.decide.snapshot import LeaseRequest
from messagestore_operator.decide.tables import lease_request_of
from messagestore_operator.status.words import clock_time
from support.launches import stream

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)


@pytest.mark.parametrize(("trigger", "continuous"), [({"continuous": {}}, True), ({"interval": "PT5M"}, False)])
def test_a_lease_request_of_a_continuous_stream_says_that_it_does_not_end_by_itself(
    trigger: dict[str, Any], continuous: bool
) -> None:
    run = CurrentRun(name="orders-ingest-1", kind="ingest", number=1, requested_at=clock_time(NOW))
    request = lease_request_of(stream(trigger=trigger), run)
    assert request == LeaseRequest("default/orders-ingest-1", "ingest", "MessageStream default/orders", NOW, continuous)
