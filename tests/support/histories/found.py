"""The content of a store, read by delta-rs, in the model's classes."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from messagestore_core.contract.ingest import Counts
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.handle import Store
from support.histories.state import Letter, Message, Place
from support.histories.steps import words
from support.ingests import Row
from support.purges import decoded, files_below
from support.replays import records
from support.stores import kept_heads

EXHAUSTED = "RetriesExhausted"


def messages(uri: str) -> list[Message]:
    """All messages, by global position."""
    rows = Store(uri).table("messages").to_pyarrow_table().sort_by("global_position").to_pylist()
    return [_message(row) for row in rows]


def _message(row: Row) -> Message:
    same = {name: row[name] for name in Message.__dataclass_fields__ if name not in ("source", "headers")}
    source = (Path(row["source"]["uri"]).name, row["source"]["offset"])
    return Message(**same, source=source, headers=dict(row["headers"] or []))


def letters(uri: str) -> dict[Place, Letter]:
    """All dead letters; fails if there is one twice."""
    rows = [row for row in _letters(uri) if row["reason"] != EXHAUSTED]
    found = {_place(row): _letter(row) for row in rows}
    assert len(found) == len(rows), "a record was set aside twice"
    return found


def _letter(row: Row) -> Letter:
    earlier = tuple((one["reason"], one["batch"]) for one in row["earlier"] or ())
    redriven = (row["redriven_at"], row["redriven_by"]) if row["redriven_at"] else None
    return Letter(row["reason"], row["raw"], row["batch"], row["failed_at"], row["tries"] or 1, earlier, redriven)


def exhausted(uri: str) -> dict[tuple[str, int], dict[str, Any]]:
    """The records of messages without retries left, by batch and global position; fails if there is one twice."""
    told = [(row["batch"], _record(json.loads(row["raw"]))) for row in _letters(uri) if row["reason"] == EXHAUSTED]
    found = {(batch, record["globalPosition"]): record for batch, record in told}
    assert len(found) == len(told), "a message was set aside twice"
    return found


def _letters(uri: str) -> list[Row]:
    return Store(uri).table("dead_letters").to_pyarrow_table().to_pylist()


def waiting(uri: str) -> list[tuple[Place, Any]]:
    """Place of waiting updates and since when they wait, in order of arrival."""
    table = Store(uri).table("pending_updates").to_pyarrow_table()
    order = ("received_at", "source_id", "batch", "row")
    rows = table.sort_by([(name, "ascending") for name in order]).to_pylist() if table.num_rows else []
    return [(_place(row), row["received_at"]) for row in rows]


def _place(row: Row) -> Place:
    source = row["source"]
    return Place(source["kind"], Path(source["uri"]).name, source["offset"])


def totals(uri: str) -> tuple[dict[str, int], dict[str, int]]:
    """The totals of messages and updates in the newest commit, without zeros."""
    note = last_note(Store(uri))
    return without_zeros(note.totals), without_zeros(note.updates)


def without_zeros(counts: Counts) -> dict[str, int]:
    """The counts that are not 0, by name."""
    return {name: count for name, count in counts.model_dump().items() if count}


def heads(uri: str, names: Iterable[str]) -> tuple[dict[str, int], int]:
    """The next position of each stream, and the next global one: the larger one from heads and messages.

    For some names only hashes may be kept.
    """
    kept = kept_heads(Store(uri))
    streams = kept.by_name | {name: kept.next_position(name) for name in names if kept.next_position(name)}
    next_global = kept.next_global
    for message in messages(uri):
        streams[message.stream_name] = max(streams.get(message.stream_name, 0), message.position + 1)
        next_global = max(next_global, message.global_position + 1)
    return streams, next_global or 1


def naming(folder: Path, ids: Iterable[str]) -> list[str]:
    """The files below a folder, of Parquet or of text, that have one of the ids."""
    texts = {name: decoded(content) or _text(content) for name, content in files_below(f"file://{folder}").items()}
    return [name for name, text in texts.items() if words(ids).search(text)]


def _text(content: bytes) -> bytes:
    """Nothing of what is no text: an id is so short that hashes may have its bytes."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return b""
    return content


def versions(folder: Path) -> dict[str, int]:
    """The newest version of each table."""
    logs = folder.glob("*/_delta_log")
    return {log.parent.name: max(int(path.stem) for path in log.glob("[0-9]*.json")) for log in logs}


def named_version(folder: Path, table: str) -> int:
    """The newest version of a table that the last notes in the logs of others name."""
    named = []
    for log in folder.glob("*/_delta_log"):
        notes = [entry.said for entry in _entries(log) if entry.said]
        if log.parent.name != table and notes:
            named.append(notes[-1]["tables"].get(table, {"version": -1})["version"])
    return max(named, default=-1)


def changed_without_note(folder: Path) -> list[tuple[str, int]]:
    """The commits that change data and don't say which tables the store has: table and version."""
    logs = folder.glob("*/_delta_log")
    return [(log.parent.name, one.version) for log in logs for one in _entries(log) if one.changes and not one.said]


class _Entry(NamedTuple):
    """An entry of a table's log: its note, if it has one, and whether it changes data."""

    version: int
    said: dict[str, Any] | None
    changes: bool


def _entries(log: Path) -> Iterator[_Entry]:
    for path in sorted(log.glob("[0-9]*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        said = [json.loads(one["commitInfo"].get("userMetadata") or "{}") for one in actions if "commitInfo" in one]
        notes = [one for one in said if one.get("tables")]
        changes = [one[kind]["dataChange"] for one in actions for kind in ("add", "remove") if kind in one]
        yield _Entry(int(path.stem), notes[0] if notes else None, any(changes))


def sent_to_files(folder: Path) -> list[dict[str, Any]]:
    """The records that a replay's reader sees."""
    return [_record(record) for record in records(folder)]


def _record(record: dict[str, Any]) -> dict[str, Any]:
    names = ("messageId", "streamName", "position", "globalPosition", "status", "error", "headers")
    payload = json.dumps(record["payload"], separators=(",", ":")).encode()
    return {**{name: record.get(name) for name in names}, "retries": record.get("retries", 0), "payload": payload}


def sent_to_stream(folder: Path) -> list[dict[str, Any]]:
    """The messages of a replay in another stream, in order; empty if its tables don't exist."""
    if not (folder / "messages" / "_delta_log").exists():
        return []
    return [
        {
            "messageId": one.message_id,
            "streamName": one.stream_name,
            "position": one.position,
            # Messages with a time to live expire there, too.
            "status": None if one.expires_at else one.status,
            "payload": one.payload,
            "headers": one.headers,
        }
        for one in messages(f"file://{folder}")
    ]
