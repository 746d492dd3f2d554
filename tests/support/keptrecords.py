"""Streams that keep records of topics as they came, and replays that send them so."""

from typing import Any

from messagestore_core.contract.destinations import KafkaDestination
from messagestore_core.contract.records import Envelope, FieldMapping
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from support.kafkabroker import Broker
from support.replays import replay_document

AS_IT_IS = Envelope(
    format="Custom",
    fields={
        "messageId": FieldMapping(record="Place"),
        "streamName": FieldMapping(record="Topic"),
        "payload": FieldMapping(record="Value"),
    },
)
"""Takes any record, whatever its value."""
FOR_EVER = {"retention_ms": "-1"}
"""By default a broker removes old records at once."""


def as_they_came(table: Table, broker: Broker, topic: str, *, create: bool = False, **task: Any) -> RunDocument:
    """A replay of records as they came to a topic; other arguments are fields of its task."""
    to = KafkaDestination(cluster=broker.cluster(), topic=topic, envelope="Original", create=create)
    return replay_document(table, ReplayTask(**{"job_id": f"to-{topic}", **task, "destination": to}))
