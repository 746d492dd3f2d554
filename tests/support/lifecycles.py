"""A stream with status updates."""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from messagestore_core.contract.ingest import IngestOutcome, Lifecycle, LifecycleOutcome, Retry
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.stores import Table
from messagestore_core.store.handle import Store
from messagestore_core.store.history import history_table
from messagestore_core.store.pending_updates import read_pending
from support.ingests import START, Row, Stream, lines, write_file


@dataclass
class Updated(Stream):
    """A stream with a second landing folder, for status updates."""

    updates: int = 0
    retry: Retry = field(default_factory=Retry)
    processing_timeout: timedelta | None = None
    keeps_history: bool = True

    @property
    def table(self) -> Table:
        return super().table.model_copy(update={"keeps_history": self.keeps_history})

    @property
    def update_landing(self) -> Path:
        return self.folder / "updates"

    def lifecycle(self) -> Lifecycle:
        source = FilesSource(uri=f"file://{self.update_landing}", max_files_per_batch=2)
        return Lifecycle(source_id="updates", source=source, processing_timeout=self.processing_timeout)

    def tell(self, *records: bytes, name: str | None = None) -> Path:
        """Add a file of updates, a second after the one before it."""
        self.updates += 1
        at = START - timedelta(days=1) + timedelta(seconds=self.updates)
        return write_file(self.update_landing / (name or f"{self.updates:04}.jsonl"), lines(*records), at)

    def run(self, at: datetime = START, **settings: Any) -> IngestOutcome:
        return super().run(at, **{"lifecycle": self.lifecycle(), "retry": self.retry, **settings})

    def told(self, at: datetime = START, **settings: Any) -> LifecycleOutcome:
        """A run's report about the lifecycle."""
        report = self.run(at, **settings).lifecycle
        assert report is not None
        return report

    def states(self) -> dict[str, tuple[str, int]]:
        """Status and retries of each message."""
        return {row["message_id"]: (row["status"], row["retries"]) for row in self.messages()}

    def message(self, message_id: str) -> Row:
        return next(row for row in self.messages() if row["message_id"] == message_id)

    def history(self) -> list[Row]:
        """The rows of the table ``history``, in order; also those of a step that is not committed."""
        rows = history_table(Store(self.table.uri))
        order = [(name, "ascending") for name in ("table_version", "row")]
        return rows.to_pyarrow_table().sort_by(order).to_pylist() if rows else []

    def pending(self) -> list[tuple[str, str]]:
        """Id and status of waiting updates, in order of arrival."""
        rows = read_pending(Store(self.table.uri))
        return list(zip(rows["message_id"].to_pylist(), rows["status"].to_pylist(), strict=True))


def update(message_id: str, status: str, **fields: Any) -> bytes:
    """A record for the source of updates."""
    return json.dumps({"messageId": message_id, "status": status, **fields}).encode()
