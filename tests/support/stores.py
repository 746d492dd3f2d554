"""Stores for tests, created by writing rows directly to the tables."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import Transaction, write_deltalake

from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.store.delta_log import CommitNote, last_note
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.handle import Store
from messagestore_core.store.heads import HiddenHeads, read_hidden_heads, read_named_heads
from messagestore_core.store.history import history_table, write_history
from messagestore_core.store.schemas import DEAD_LETTERS, HISTORY_ROWS, MESSAGES
from messagestore_core.store.storage import Storage

START = datetime(2026, 1, 5, tzinfo=UTC)
OWNER = Owner(namespace="default", name="orders")

Row = dict[str, Any]


def message(number: int, **given: Any) -> Row:
    """One row of ``messages``; ``number`` is its global position, other columns have defaults."""
    stream = given.get("stream_name", "order-1")
    payload = given.get("payload", b'{"n":%d}' % number)
    inserted_at = given.get("inserted_at", START)
    row: Row = {
        "message_id": f"m{number}",
        "stream_name": stream,
        "category": stream.partition("-")[0],
        "position": number,
        "global_position": number,
        "type": "created",
        "headers": [],
        "payload": payload,
        "content_type": "application/json",
        "payload_size": None if payload is None else len(payload),
        "payload_sha256": None if payload is None else hashlib.sha256(payload).hexdigest(),
        "schema_version": 1,
        "status": "RECEIVED",
        "retries": 0,
        "time": inserted_at,
        "inserted_at": inserted_at,
        "inserted_date": inserted_at.date(),
        "source": {"kind": "files", "uri": "file:///landing/a", "partition": None, "offset": number},
    }
    headers = given.get("headers", {})
    return {**row, **given, "headers": list(headers.items())}


def make_store(
    folder: Path, rows: Iterable[Row], *more: Iterable[Row], remember_purged: timedelta | None = None
) -> Table:
    """A store with these rows; each argument is one commit, as a batch writes it."""
    table = Table(uri=f"file://{folder}", owner=OWNER, remember_purged=remember_purged)
    open_folder(HeldStore.of(table, Storage()))
    for batch in (rows, *more):
        add_messages(table.uri, batch)
    return table


def add_messages(uri: str, rows: Iterable[Row], **noted: Any) -> None:
    """Add rows in one commit, with a note whose totals count them."""
    arrow = pa.Table.from_pylist(list(rows), schema=MESSAGES)
    before = last_note(Store(uri))
    counts = IngestCounts(received=arrow.num_rows, stored=arrow.num_rows)
    note = CommitNote(run="ingest", totals=before.totals + counts, **noted)
    add_rows(HeldStore(uri), "messages", arrow, note)


def add_dead_letters(uri: str, rows: Iterable[Row]) -> None:
    """Add dead letters; each row has at least ``failed_at`` and ``raw``."""
    full = [{"reason": "Unparseable", "source": {"kind": "files", "uri": "file:///landing/a"}, **row} for row in rows]
    add_rows(HeldStore(uri), "dead_letters", pa.Table.from_pylist(full, schema=DEAD_LETTERS))


def add_rows(store: HeldStore, name: str, rows: pa.Table, note: CommitNote | None = None, *batch: Transaction) -> None:
    """Add rows to any table, in a commit with a note, as a run writes it."""
    table = store.open_to_write(name)
    write_deltalake(table, rows, mode="append", commit_properties=store.commit_properties(note, *batch))


def add_history(uri: str, rows: Iterable[Row], step: tuple[str, int] = ("updates", 1), **given: Any) -> None:
    """Add a row for each of some messages to ``history``, and commit its step."""
    store, changed = HeldStore(uri), list(rows)
    kept = ("message_id", "global_position", "inserted_date")
    row = {"at": START, "attempt": 1, "from_status": "RECEIVED", "to_status": "FAILED", "run": "run-1", **given}
    full = [{name: one[name] for name in kept} | row | {"row": number} for number, one in enumerate(changed)]
    schema = pa.schema([field for field in HISTORY_ROWS if field.name not in ("step_id", "step", "table_version")])
    write_history(store, pa.Table.from_pylist(full, schema), step)
    add_rows(store, "messages", MESSAGES.empty_table(), last_note(store), Transaction(*step))


def history_of(uri: str) -> list[tuple[str, str | None]]:
    """Id and error of each row of ``history``, by global position."""
    table = history_table(Store(uri))
    rows = table.to_pyarrow_table().sort_by("global_position").to_pylist() if table else []
    return [(row["message_id"], row["error"]) for row in rows]


def change_rows(uri: str, name: str, changes: dict[str, str], predicate: str) -> None:
    """Change rows of any table, in a commit with a note, as a run does; changes are SQL by column."""
    store = HeldStore(uri)
    note = last_note(store) if name == "messages" else None
    store.open_to_write(name).update(changes, predicate=predicate, commit_properties=store.commit_properties(note))


def remove_rows(uri: str, name: str, predicate: str | None = None) -> None:
    """Remove rows of any table, all without a predicate, in a commit with a note, as a run does."""
    store = HeldStore(uri)
    note = last_note(store) if name == "messages" else None
    store.open_to_write(name).delete(predicate, commit_properties=store.commit_properties(note))


def stored(uri: str) -> list[Row]:
    """All messages by global position, read by delta-rs."""
    table = Store(uri).table("messages").to_pyarrow_table().sort_by("global_position")
    return [{**row, "headers": dict(row["headers"] or [])} for row in table.to_pylist()]


@dataclass(frozen=True)
class KeptHeads:
    """All heads of a store."""

    by_name: dict[str, int]
    hidden: HiddenHeads

    @property
    def next_global(self) -> int:
        """The next global position."""
        return self.hidden.next_global

    def next_position(self, stream: str) -> int:
        """The next position of a stream, by its name or the hash of it."""
        return max(self.by_name.get(stream, 0), self.hidden.next_position(stream))


def kept_heads(store: Store) -> KeptHeads:
    """Read all heads of a store."""
    named = [row for rows in read_named_heads(store) for row in rows.to_pylist()]
    by_name = {row["stream_name"]: row["next_position"] for row in named}
    assert len(by_name) == len(named)
    return KeptHeads(by_name, read_hidden_heads(store))


def heads_of(store: Store) -> tuple[dict[str, int], int]:
    """The next positions by name or its hash, and the next global position."""
    heads = kept_heads(store)
    return heads.by_name | {f"key {i}": position for i, position in enumerate(sorted(heads.hidden.by_key.values()))}, (
        heads.next_global
    )


def positions(uri: str) -> list[int]:
    """The global positions that are in the store."""
    return [row["global_position"] for row in stored(uri)]
