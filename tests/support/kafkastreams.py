"""A stream that reads topics of a broker."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import KafkaCluster, KafkaSource
from messagestore_core.contract.run_document import RunDocument
from support.ingests import RESOURCE, START, Stream


@dataclass
class KafkaStream(Stream):
    """As :class:`Stream`, with topics instead of a landing folder."""

    source: dict[str, Any] = field(default_factory=dict)

    def document(self, at: datetime = START, **settings: Any) -> RunDocument:
        chosen = {**self.settings, **settings}
        source = KafkaSource(**{**self.source, **chosen.pop("source", {})})
        self.runs += 1
        task = IngestTask(source_id=chosen.pop("source_id", "topics"), source=source, **chosen)
        return RunDocument(run=f"run-{self.runs}", resource=RESOURCE, table=self.table, at=at, task=task)

    def places(self) -> list[tuple[str, str, int, int]]:
        """Id, URI, partition and offset of each message, by global position."""
        rows = self.messages()
        return [
            (row["message_id"], row["source"]["uri"], row["source"]["partition"], row["source"]["offset"])
            for row in rows
        ]

    @staticmethod
    def cluster_of(document: RunDocument) -> KafkaCluster:
        return document.task.source.cluster
