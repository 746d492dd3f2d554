"""What a rule erases is remembered, never archived, and its bytes are gone when they are due."""

import json
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from messagestore_jobs.contract.run_document import Archive, Match, Rule, Table
from messagestore_jobs.store.audit import read_audit
from messagestore_jobs.store.history import open_table
from messagestore_jobs.store.tombstones import message_key, read_tombstone_keys, tombstone_key
from support.purges import archived_positions, files_below, purge
from support.stores import START, add_dead_letters, make_store, message, positions

DAY = timedelta(days=1)
NOW = START + 3 * DAY
SECRET = b"customer forty-two lives here"


def files_with(table: Table, content: bytes) -> list[str]:
    return [name for name, found in files_below(table.uri).items() if content in found]


def test_erased_for_good(spark: SparkSession, tmp_path: Path) -> None:
    secret = b'{"text":"%s"}' % SECRET
    rows = [message(n, correlation_id="customer-42" if n == 1 else None) for n in range(4)]
    rows[1] |= {"payload": secret, "payload_size": len(secret)}
    table = make_store(tmp_path / "store", rows)
    add_dead_letters(
        table.uri,
        [
            {"raw": b'{"messageId": "m1", "payload": "%s"}' % SECRET, "failed_at": NOW},
            {"raw": b'{"messageId": "m12"}', "failed_at": NOW},
        ],
    )
    assert files_with(table, SECRET)
    task = {
        "rules": (
            Rule(name="erasure", match=Match(correlation_ids=("customer-42",)), erase=True),
            Rule(name="cap", max_messages_per_stream=2),
        ),
        "archive": Archive(uri=f"file://{tmp_path}/archive"),
    }
    first = purge(spark, table, NOW, erase_within=7 * DAY, **task)
    assert first.purge is not None
    assert (first.purge.purged, first.purge.erased, first.purge.archived) == (2, 1, 1)
    assert (first.purge.erased_at, first.purge.erase_due_by) == (None, NOW + 7 * DAY)
    assert positions(table.uri) == [2, 3]
    assert archived_positions(f"file://{tmp_path}/archive") == [0]
    key = tombstone_key(table.uri)
    assert key is not None
    assert read_tombstone_keys(table.uri) == {message_key(key, "m1")}
    assert open_table(table.uri, "dead_letters").to_pyarrow_table()["raw"].to_pylist() == [b'{"messageId": "m12"}']
    assert json.loads(read_audit(table.uri)[0]["rules"])["eraseDueBy"] == (NOW + 7 * DAY).isoformat()
    assert files_with(table, SECRET)

    early = purge(spark, table, NOW + 6 * DAY, run="purge-2", **task)
    assert early.purge is not None
    assert (early.purge.erased_at, early.purge.erase_due_by) == (None, NOW + 7 * DAY)
    assert files_with(table, SECRET)

    due = purge(spark, table, NOW + 7 * DAY, run="purge-3", **task)
    assert due.purge is not None
    assert due.purge.erased_at == NOW + 7 * DAY
    assert files_with(table, SECRET) == []
    assert positions(table.uri) == [2, 3]
    audit = read_audit(table.uri)
    assert [(row["action"], row["run"], row["refers_to"]) for row in audit] == [
        ("Purge", "purge-1", None),
        ("Erase", "purge-3", "purge-1"),
    ]
    assert purge(spark, table, NOW + 8 * DAY, run="purge-4", **task).purge is not None
    assert len(read_audit(table.uri)) == 2


def test_at_once_where_nothing_may_stay(spark: SparkSession, tmp_path: Path) -> None:
    payload = b'{"text":"%s"}' % SECRET
    table = make_store(tmp_path / "store", [message(0, payload=payload), message(1, stream_name="order-2", position=0)])
    rule = Rule(name="erasure", match=Match(stream_names=("order-1",)), erase=True)
    outcome = purge(spark, table, NOW, rules=(rule,), erase_within=timedelta(0))
    assert outcome.purge is not None
    assert outcome.purge.erased_at == NOW
    assert files_with(table, SECRET) == []
