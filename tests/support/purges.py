"""Purge runs for tests, and the rules in plain Python to compare them with."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import EraseOutcome, EraseTask, Hold, Match, PurgeOutcome, PurgeTask, Rule
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.objects import Objects, local_path
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.purge.erase import run_erase
from messagestore_jobs.purge.job import run_purge
from support.external_writes import observing
from support.stores import Row

POLICY = Resource(kind="RetentionPolicy", namespace="default", name="policy", generation=3)


class Said(Silent):
    """Keeps a run's messages."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.steps: list[str] = []

    def step(self, name: str, total: int | None = None) -> None:
        self.steps.append(name)

    def say(self, text: str) -> None:
        self.lines.append(text)


def purge(
    spark: SparkSession, table: Table, at: datetime, *, run: str = "purge-1", said: Said | None = None, **task: Any
) -> PurgeOutcome:
    """One purge run; by default Enforce."""
    return run_purge(Run.of(purge_document(table, at, run=run, **task), spark, said or Said()))


def purge_document(table: Table, at: datetime, *, run: str = "purge-1", **task: Any) -> RunDocument:
    """The document of a purge run."""
    given = PurgeTask(**{"mode": "Enforce", **task})
    return RunDocument(run=run, resource=POLICY, table=table, at=at, task=given)


def erase(spark: SparkSession, table: Table, at: datetime, *, run: str = "erase-1") -> EraseOutcome:
    """One run that erases what is due."""
    return run_erase(Run.of(erase_document(table, at, run=run), spark, Said()))


def erase_document(table: Table, at: datetime, *, run: str = "erase-1") -> RunDocument:
    """The document of a run that erases what is due."""
    return RunDocument(run=run, resource=POLICY, table=table, at=at, task=EraseTask())


class CrashError(Exception):
    """Simulates a kill."""


def crash_before_any_but(crashed: list[str]) -> Callable[[str, str], None]:
    """An observer that raises before an external write at which no run was killed yet, and records it."""

    def observer(name: str, moment: str) -> None:
        if moment == "before" and name not in crashed:
            crashed.append(name)
            raise CrashError(name)

    return observer


def crash_at(number: int) -> Callable[[str, str], None]:
    """An observer that raises before the external write with this number, from 0 on."""
    seen = iter(range(1_000_000))

    def observer(name: str, moment: str) -> None:
        if moment == "before" and next(seen) == number:
            raise CrashError(name)

    return observer


def break_off(run: Callable[[], object], name: str, moment: str, nth: int = 1) -> None:
    """Let a run fail at the n-th external write of a name, before or after it; it fails the test not to get there."""
    seen = 0

    def observer(at: str, when: str) -> None:
        nonlocal seen
        seen += (at, when) == (name, moment)
        if seen == nth:
            raise CrashError(name)

    with pytest.raises(CrashError), observing(observer):
        run()


def archived(uri: str) -> pa.Table | None:
    """All rows of complete Parquet archives under a URI."""
    objects = Objects(uri, Storage())
    folders = [name for name in objects.names() if objects.exists(f"{name}_manifest.json")]
    tables = [
        pq.read_table(f"{local_path(uri)}/{name}", partitioning=None)
        for folder in folders
        for name in objects.names(folder)
        if name.endswith(".parquet")
    ]
    # Nullability of columns differs if a plan was frozen again.
    return pa.concat_tables(tables, promote_options="default") if tables else None


def archived_positions(uri: str) -> list[int]:
    """The global positions in the complete archives under a URI."""
    table = archived(uri)
    return [] if table is None else sorted(table["global_position"].to_pylist())


def files_below(folder: str) -> dict[str, bytes]:
    """All files below a folder, with their contents."""
    objects = Objects(folder, Storage())
    return {name: objects.read(name) or b"" for name in objects.names(recursive=True) if not name.endswith("/")}


def files_with(table: Table, content: bytes) -> list[str]:
    """The files below a store's folder that contain some bytes, with Parquet decoded."""
    return [name for name, found in files_below(table.uri).items() if content in found or content in decoded(found)]


def decoded(content: bytes) -> bytes:
    if not content.startswith(b"PAR1"):
        return b""
    rows = pq.read_table(pa.BufferReader(content)).to_pylist()
    return b" ".join(value for row in rows for value in _values(row))


def _values(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _values(one)
    else:
        yield value if isinstance(value, bytes) else str(value).encode()


Told = bool | None
"""A predicate's result for a row; None: its evaluation failed."""

PREDICATES: dict[str, Callable[[Row], Told]] = {
    "payload_size > 9": lambda row: (row["payload_size"] or 0) > 9,
    "int(correlation_id) >= 2": lambda row: _number(row["correlation_id"]),
}


def _number(text: str | None) -> Told:
    if text is None:
        return False
    return int(text) >= 2 if text.isdigit() else None


@dataclass(frozen=True)
class Selected:
    """The rules that select each message, by global position, and the held ones among those messages."""

    rules: dict[int, set[str]]
    held: set[int]

    @property
    def going(self) -> list[int]:
        return sorted(set(self.rules) - self.held)


def selected(rows: list[Row], rules: Iterable[Rule], holds: Iterable[Hold], as_of: datetime) -> Selected:
    """What the rules select, evaluated message by message."""
    active = [hold for hold in holds if hold.until is None or hold.until > as_of]
    held = {row["global_position"] for row in rows if any(_matches(hold.match, row) is not False for hold in active)}
    found: dict[int, set[str]] = {}
    for rule in rules:
        for position in _by_rule(rows, rule, held, as_of):
            found.setdefault(position, set()).add(rule.name)
    return Selected(found, held & set(found))


def _by_rule(rows: list[Row], rule: Rule, held: set[int], as_of: datetime) -> list[int]:
    match = None if rule.match == Match() else rule.match
    if rule.model_copy(update={"name": "", "erase": False, "match": match}) == Rule(name=""):
        return []
    chosen = [row for row in rows if _own(rule, row, as_of)]
    if rule.max_messages_per_stream is not None:
        chosen = [row for row in chosen if _newer(rows, row) >= rule.max_messages_per_stream]
    if rule.max_bytes is not None:
        excess = sum(row["payload_size"] or 0 for row in rows) - rule.max_bytes
        past = []
        for row in sorted(chosen, key=lambda row: (_age(row), row["global_position"])):
            if excess <= 0:
                break
            past.append(row)
            excess -= 0 if row["global_position"] in held else row["payload_size"] or 0
        chosen = past
    return [row["global_position"] for row in chosen]


def _newer(rows: list[Row], row: Row) -> int:
    return sum(one["stream_name"] == row["stream_name"] and one["position"] > row["position"] for one in rows)


def _age(row: Row) -> datetime:
    return min(row["time"], row["inserted_at"])


def _own(rule: Rule, row: Row, as_of: datetime) -> bool:
    truncate = rule.truncate_before
    return (
        (not rule.expired or (row.get("expires_at") is not None and row["expires_at"] <= as_of))
        and (not rule.statuses or row["status"] in rule.statuses)
        and (rule.max_age is None or as_of - _age(row) > rule.max_age)
        and (truncate is None or (row["stream_name"] == truncate.stream_name and row["position"] < truncate.position))
        and (rule.match is None or _matches(rule.match, row) is True)
    )


def _matches(match: Match, row: Row) -> Told:
    lists = {
        "stream_name": match.stream_names,
        "category": match.categories,
        "type": match.types,
        "status": match.statuses,
        "correlation_id": match.correlation_ids,
        "sequence_id": match.sequence_ids,
        "message_id": match.message_ids,
    }
    if any(values and row.get(column) not in values for column, values in lists.items()):
        return False
    headers = dict(row["headers"])
    if any(headers.get(name) != value for name, value in match.headers.items()):
        return False
    return True if match.where is None else PREDICATES[match.where](row)
