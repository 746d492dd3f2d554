"""A store with rows in all tables, and what runs read of it by conditions: for tables that others have rewritten."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from messagestore.reader import Reader
from messagestore_core.contract.purge import Rule
from messagestore_core.reasons import DeadLetterReason
from messagestore_core.store.audit import read_audit, rows_of
from messagestore_core.store.dead_letters import dead_letter_keys, set_aside_before, set_aside_for
from messagestore_core.store.delta_log import count_rows, has_any, is_any_due, next_global_position, table_state
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.files import ReadFiles, planned_batch
from messagestore_core.store.handle import Store
from messagestore_core.store.keyed import message_key
from messagestore_core.store.layout import TOMBSTONE_KEY
from messagestore_core.store.objects import local_path
from messagestore_core.store.offsets import ReadOffsets
from messagestore_core.store.pending_updates import count_pending, read_pending
from messagestore_core.store.schemas import TABLES
from messagestore_core.store.tombstones import erased_positions, open_erased
from messagestore_jobs.purge.dead_letters import count_dead_letters, naming
from messagestore_jobs.purge.whole_days import count_days, streams_of_days
from support.stores import START, Row, add_rows, heads_of, make_store, message

_OTHER = "of nobody"
NAMES = {
    "messages": "message_id",
    "dead_letters": "batch",
    "heads": "stream_name",
    "pending_updates": "message_id",
    "tombstones": "run",
    "audit": "run",
    "files": "source_id",
    "offsets": "source_id",
}
"""The column of each table that marks the rows of nobody."""
_KEY = b"k" * 32
_A, _B = "file:///landing/a", "file:///landing/b"
_WRONG = DeadLetterReason.WRONG_EXPECTED_VERSION


def full_store(folder: Path, *, others: bool = False) -> Store:
    """Rows in two files of each table; with ``others`` one file has a row of nobody among them."""
    store = Store(make_store(folder, []).uri)
    store.objects().create(TOMBSTONE_KEY, _KEY)
    for name, (first, second, *more) in _rows().items():
        batches = [[first, second, *([_nobodys(name, first)] if others else [])], more]
        for rows in batches:
            add_rows(HeldStore(store.uri), name, pa.Table.from_pylist(rows, schema=TABLES[name]))
    return store


def is_nobodys(name: str) -> str:
    """The SQL condition for a table's rows of nobody."""
    return f"{NAMES[name]} = '{_OTHER}'"


def _nobodys(name: str, row: Row) -> Row:
    return {**row, NAMES[name]: _OTHER}


def _rows() -> dict[str, list[Row]]:
    source = {"kind": "files", "uri": _A, "partition": None, "offset": 0}
    letter = {"raw": b"m1 is erased", "source": source, "reason": str(_WRONG), "failed_at": START, "batch": "landing/1"}
    update = {"message_id": "m7", "status": "COMPLETED", "received_at": START, "source_id": "updates", "batch": 1}
    update |= {"row": 0, "after": 2, "source": source}
    done = {"at": START, "action": "Purge", "run": "purge-1", "rules": "{}"}
    planned = {"source_id": "landing", "batch": 1, "at": START, "uri": _A, "size": 9, "modified_at": START}
    planned |= {"start": 0, "end": 9}
    read = {"source_id": "topic", "batch": 1, "at": START, "topic": "orders", "topic_id": "id-1", "partition": 0}
    read |= {"start": 0, "end": 5, "latest": 9}
    buried = {"message_key": message_key(_KEY, "m1"), "erased_at": START, "run": "purge-1", "global_position": 1}
    later = START + timedelta(days=1)
    return {
        "messages": [
            message(2),
            message(3, stream_name="other-1", expires_at=later + timedelta(days=7)),
            message(4, inserted_at=later, sequence_id="s"),
        ],
        "dead_letters": [
            letter,
            {**letter, "source": {**source, "uri": _B}, "raw": b"", "failed_at": later},
            {**letter, "raw": b"m2"},
        ],
        "heads": [
            {"stream_name": "order-1", "next_position": 5},
            {"stream_key": "x", "next_position": 3},
            {"next_global_position": 9},
        ],
        "pending_updates": [update, {**update, "row": 1, "message_id": "m8"}, {**update, "row": 2}],
        "tombstones": [
            buried,
            {**buried, "message_key": message_key(_KEY, "m5"), "global_position": 5},
            {**buried, "global_position": 6},
        ],
        "audit": [done, {**done, "action": "Erase", "refers_to": "purge-1"}, {**done, "run": "purge-2"}],
        "files": [planned, {**planned, "batch": 2, "uri": _B}, {**planned, "batch": 3}],
        "offsets": [read, {**read, "batch": 2, "start": 5, "end": 7}, {**read, "partition": 1}],
    }


READINGS: dict[str, dict[str, Callable[[Store], Any]]] = {
    "messages": {
        "days that leave": lambda store: [
            {**day, "xor": None, "sum": None}
            for day in count_days(store, _version(store), [START.date()], [Rule(name="r", max_age=timedelta(1))], START)
        ],
        "streams of days": lambda store: sorted(
            streams_of_days(store, _version(store), [START.date()]).to_pylist(), key=str
        ),
        "a stream": lambda store: [m.message_id for m in Reader(store.uri).get_stream_messages("order-1")],
        "one message": lambda store: Reader(store.uri).get_message("m3"),
        "categories": lambda store: Reader(store.uri).statistics().categories,
        "rows": lambda store: count_rows(store, "messages"),
        "the next position": next_global_position,
        "sequences": lambda store: has_any(store, "sequence_id"),
        "replies": lambda store: has_any(store, "correlation_id"),
        "what expires": lambda store: is_any_due(store, START),
        "what expires later": lambda store: is_any_due(store, START + timedelta(days=9)),
        "state": lambda store: table_state(store, count_reasons=True).model_dump(
            include={
                "messages",
                "dead_letters",
                "dead_letters_by_reason",
                "oldest_message_time",
                "newest_message_time",
                "last_global_position",
            }
        ),
    },
    "dead_letters": {
        "by file": lambda store: set_aside_before(store, {_A}),
        "by file and reason": lambda store: sorted(dead_letter_keys(set_aside_for(store, {_A, _B}, [_WRONG]))),
        "of other files": lambda store: set_aside_before(store, {"file:///landing/aa"}),
        "by age": lambda store: count_dead_letters(store, START + timedelta(hours=1)),
        "by reason": lambda store: len(list(Reader(store.uri).dead_letters([str(_WRONG)], redriven=False))),
        "by what they name": lambda store: list(naming(store, open_erased(store))),
    },
    "heads": {"all": heads_of},
    "pending_updates": {"all": lambda store: read_pending(store).to_pylist(), "count": count_pending},
    "tombstones": {
        "rows": lambda store: count_rows(store, "tombstones"),
        "positions": lambda store: sorted(erased_positions(store).tolist()),
        "all": lambda store: open_erased(store).hashes(8),
        "before a position": lambda store: open_erased(store, before=3).hashes(8),
    },
    "audit": {
        "by action": lambda store: rows_of(store, "Erase"),
        "all": lambda store: sorted(map(str, read_audit(store))),
    },
    "files": {
        "a batch": lambda store: planned_batch(store, "landing", 2),
        "since a batch": lambda store: ReadFiles(store, "landing").planned_since(1),
        "the last batch": lambda store: ReadFiles(store, "landing").last_batch,
    },
    "offsets": {"ends": lambda store: ReadOffsets(store, "topic").read_up_to()},
}
"""What is read of each table."""


def readings(store: Store) -> dict[tuple[str, str], Any]:
    """All that is read of a store's tables."""
    return {(name, what): read(store) for name, reads in READINGS.items() for what, read in reads.items()}


def _version(store: Store) -> int:
    return store.table("messages").version()


def merge(table: DeltaTable, name: str) -> None:
    """Remove the rows of nobody by a MERGE."""
    names = pa.table({"name": [_OTHER]})
    condition = f"d.{NAMES[name]} = s.name"
    table.merge(names, condition, source_alias="s", target_alias="d").when_matched_delete().execute()


def update(table: DeltaTable, name: str) -> None:
    """Remove the rows of nobody, and write all others anew."""
    table.delete(is_nobodys(name))
    table.update(updates={NAMES[name]: NAMES[name]})


BY_DELTA_RS: dict[str, Callable[[DeltaTable, str], Any]] = {
    "merge": merge,
    "update": update,
    "delete": lambda table, name: table.delete(is_nobodys(name)),
    "delete and compact": lambda table, name: (table.delete(is_nobodys(name)), table.optimize.compact()),
}
"""How delta-rs can take the rows of nobody out of a table."""


def _fewer(said: dict[str, Any], *kinds: str) -> None:
    """Tell nothing of the columns that runs ask for, or only not these kinds of figures."""
    for kind in kinds or ("minValues", "maxValues", "nullCount"):
        for column in ("global_position", "time", "inserted_at", "expires_at", "status", "redriven_at", "sequence_id"):
            said.get(kind, {}).pop(column, None)


TOLD: dict[str, Callable[[dict[str, Any]], object]] = {
    "nothing": lambda said: said.clear(),
    "only the number of rows": lambda said: [said.pop(kind, None) for kind in ("minValues", "maxValues", "nullCount")],
    "fewer columns": _fewer,
    "no number of rows": lambda said: said.pop("numRecords"),
    "no nulls": lambda said: said.pop("nullCount", None),
    "no least values": lambda said: _fewer(said, "minValues"),
    "no greatest values": lambda said: _fewer(said, "maxValues"),
}
"""What statistics of another writer tell, by how they come from all of them."""


def tell(store: Store, name: str, told: Callable[[dict[str, Any]], object], files: int | None = None) -> None:
    """Change the statistics in a table's log, of its first files or of all."""
    left = files
    for commit in sorted((Path(local_path(store.path(name))) / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for add in (action["add"] for action in actions if "add" in action):
            if left != 0:
                said = json.loads(add["stats"])
                told(said)
                add["stats"] = json.dumps(said)
                left = None if left is None else left - 1
        commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
