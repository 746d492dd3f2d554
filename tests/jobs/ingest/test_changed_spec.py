"""A batch that was never committed is judged by the spec of now: what an earlier try set aside is withdrawn.

Each dead letter in the table is in exactly one total, wherever runs end and whatever changes between them.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestCounts, Retry, UpdateCounts
from messagestore_core.contract.records import Envelope, Filter
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.handle import Store
from messagestore_core.store.objects import Objects
from messagestore_core.store.schemas import DEAD_LETTERS, FILES, OFFSETS
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.replay.job import run_replay
from messagestore_jobs.source import records
from support.ingests import START, Stream, lines, record
from support.lifecycles import Updated, update
from support.long import few
from support.purges import break_off
from support.replays import replay_document
from support.stores import add_rows, change_rows

PAYLOAD = b'"' + b"x" * 200 + b'"'
EXPIRED = (START - timedelta(days=1)).isoformat()
SPECS: list[dict[str, Any]] = [
    {"max_payload_bytes": 100},
    {"filter": Filter(types=("wanted",), unmatched="DeadLetter"), "claim_check_bytes": 50},
    {"envelope": Envelope(required=("correlationId",)), "claim_check_bytes": 50},
    {"filter": Filter(where="int(type) > 0")},
    {"default_ttl": timedelta(hours=1)},
    {"format": "Text", "envelope": Envelope(format="Custom")},
]
"""Each sets other records aside; the last ones of all that arrive below."""


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    stream = Stream(spark, tmp_path)
    stream.arrive(
        "a.jsonl",
        lines(
            b"garbage",
            record("large", payload=PAYLOAD, type="wanted", correlationId="c"),
            record("other", type="unwanted", correlationId="c", time=EXPIRED),
            record("expired", type="wanted", expiresAt=EXPIRED),
        ),
    )
    return stream


def reasons(stream: Stream) -> list[str]:
    return [row["reason"] for row in stream.dead_letters()]


def claims(stream: Stream) -> set[str]:
    return set(Objects(f"{stream.table.uri}/payloads", Storage()).names())


def every_letter_is_counted(stream: Stream, letters: int) -> bool:
    totals = last_note(Store(stream.table.uri)).totals
    parts = totals.stored + totals.duplicates + totals.dead_lettered + totals.filtered + totals.discarded
    return totals.received == parts and totals.dead_lettered == len(stream.dead_letters()) == letters


def test_each_try_leaves_only_what_its_own_spec_sets_aside(stream: Stream) -> None:
    found = []
    for spec in SPECS:
        break_off(lambda spec=spec: stream.run(**spec), "messages", "before")
        found.append(reasons(stream))
    assert found == [
        ["Unparseable", "PayloadTooLarge", "ExpiredOnArrival"],
        ["Unparseable", "Unselected", "ExpiredOnArrival"],
        ["Unparseable", "MissingField"],
        ["Unparseable", "FilterError", "FilterError", "FilterError"],
        ["Unparseable", "ExpiredOnArrival", "ExpiredOnArrival"],
        ["MissingField"] * 4,
    ]
    outcome = stream.run(on_arrival_expired="Discard", claim_check_bytes=100)
    assert outcome.totals == IngestCounts(received=4, stored=2, dead_lettered=1, discarded=1)
    assert reasons(stream) == ["Unparseable"]
    assert every_letter_is_counted(stream, 1)
    assert claims(stream) == {row["payload_uri"].rpartition("/")[2] for row in stream.messages() if row["payload_uri"]}


@pytest.mark.long
def test_killed_at_each_write_of_the_withdrawal_the_batch_is_judged_once_by_the_new_spec(stream: Stream) -> None:
    break_off(lambda: stream.run(max_payload_bytes=100, claim_check_bytes=1), "messages", "before")
    assert (reasons(stream), len(claims(stream))) == (["Unparseable", "PayloadTooLarge", "ExpiredOnArrival"], 1)
    for name in ("claim-withdrawn", "dead-letters-withdrawn", "plan-anew"):
        for moment in ("before", "after"):
            break_off(lambda: stream.run(on_arrival_expired="Store"), name, moment)
    for name in ("dead-letters", "messages"):
        break_off(lambda: stream.run(on_arrival_expired="Store"), name, "after")
    assert stream.run().totals == IngestCounts(received=4, stored=3, dead_lettered=1)
    assert every_letter_is_counted(stream, 1)
    assert (reasons(stream), claims(stream)) == (["Unparseable"], set())


def test_a_run_with_more_memory_judges_anew_what_was_too_large(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(records, "too_many_bytes", lambda spark: 150)
        break_off(stream.run, "messages", "before")
    assert "RecordTooLarge" in reasons(stream)
    stream.run()
    assert reasons(stream) == ["Unparseable", "ExpiredOnArrival"]
    assert every_letter_is_counted(stream, 2)


def test_a_batch_that_an_earlier_release_planned_is_judged_anew(stream: Stream) -> None:
    break_off(lambda: stream.run(max_payload_bytes=100), "messages", "before")
    change_rows(stream.table.uri, "files", {"judged_by": "null", "cut": "null"}, "true")
    stream.run()
    assert every_letter_is_counted(stream, 2)


RETRIED_BY: dict[str, dict[str, Any]] = {"as it was": {}, "with another spec": {"max_payload_bytes": 100}}


@pytest.mark.parametrize("spec", few(RETRIED_BY, "with another spec"))
def test_dead_letters_of_a_file_that_is_gone_stay_and_are_counted(stream: Stream, spec: str) -> None:
    gone = stream.arrive("gone.jsonl", lines(b"the only trace", record("m1")))
    break_off(stream.run, "messages", "before")
    gone.unlink()
    stream.run(**RETRIED_BY[spec])
    assert b"the only trace" in [row["raw"] for row in stream.dead_letters()]
    assert every_letter_is_counted(stream, 3 + len(RETRIED_BY[spec]))
    stream.arrive("gone.jsonl", lines(b"the only trace", record("m1")))
    assert stream.run(**RETRIED_BY[spec]).counts == IngestCounts(received=2, stored=1, duplicates=1)


def test_a_batch_of_which_all_is_gone_counts_what_it_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    gone = stream.arrive("a.jsonl", lines(b"garbage"))
    break_off(stream.run, "messages", "before")
    gone.unlink()
    assert stream.run().totals == IngestCounts(received=1, dead_lettered=1)
    assert every_letter_is_counted(stream, 1)
    assert stream.run().batches == 0


def redrive(stream: Stream, **spec: Any) -> None:
    document = stream.document(**{"max_payload_bytes": 1_000, "on_arrival_expired": "Store", **spec})
    task = ReplayTask(
        job_id="again",
        origin="DeadLetters",
        destination=StreamDestination(table=stream.table, ingest=document.task),
    )
    open_folder(HeldStore.of(stream.table, Storage()))
    run_replay(Run.of(replay_document(stream.table, task), stream.spark, stream.heard))


@pytest.mark.long
def test_redriven_letters_get_back_their_last_refusal(stream: Stream) -> None:
    stream.run(max_payload_bytes=100)
    before = stream.dead_letters()
    break_off(lambda: redrive(stream, max_payload_bytes=50), "messages", "before")
    assert [row["tries"] for row in stream.dead_letters()] == [2, 2, None]
    break_off(lambda: redrive(stream), "dead-letters-withdrawn", "after")
    assert stream.dead_letters() == before
    redrive(stream)
    assert [(row["tries"], row["redriven_at"] is None) for row in stream.dead_letters()] == [
        (2, True),
        (None, False),
        (None, False),
    ]
    assert sorted(stream.ids()) == ["expired", "large", "other"]


def test_updates_are_judged_anew_too(spark: SparkSession, tmp_path: Path) -> None:
    stream = Updated(spark, tmp_path, retry=Retry(max_retries=0, set_aside=True))
    stream.arrive("a.jsonl", lines(record("m1")))
    stream.run()
    gone = stream.tell(b"garbage")
    stream.tell(update("m1", "FAILED"), update("m2", "COMPLETED"), b"more garbage")
    break_off(stream.run, "lifecycle", "before")
    assert sorted(reasons(stream)) == ["RetriesExhausted", "Unparseable", "Unparseable"]
    gone.unlink()
    stream.retry = Retry()
    break_off(stream.run, "dead-letters-withdrawn", "after")
    assert stream.told().totals == UpdateCounts(received=4, applied=1, dead_lettered=2)
    assert sorted(reasons(stream)) == ["Unparseable", "Unparseable"]
    assert (stream.states(), stream.pending()) == ({"m1": ("FAILED", 1)}, [("m2", "COMPLETED")])


def test_dead_letters_of_an_unfinished_batch_of_a_former_source_are_withdrawn(stream: Stream) -> None:
    break_off(lambda: stream.run(claim_check_bytes=1), "messages", "before")
    store = HeldStore(stream.table.uri)
    for table, schema in (("files", FILES), ("offsets", OFFSETS)):
        for source in ("topics", "replay:again"):
            planned(store, table, schema, source)
    for batch in ("topics/1", "replay:again/1"):
        letter = {"raw": batch.encode(), "reason": "Unparseable", "failed_at": START, "batch": batch}
        letter["source"] = {"kind": "kafka", "uri": "kafka:orders", "partition": 0, "offset": len(batch)}
        add_rows(store, "dead_letters", pa.Table.from_pylist([letter], DEAD_LETTERS))
    for moment in ("before", "after"):
        break_off(lambda: stream.run(source_id="new"), "plan-forgotten", moment)
    stream.run(source_id="new")
    assert [row["batch"] for row in stream.dead_letters()] == ["new/1", "new/1", "replay:again/1"]
    assert claims(stream) == set()
    for table in ("files", "offsets"):
        sources = set(store.table(table).to_pyarrow_table()["source_id"].to_pylist())
        assert sources == {"replay:again", *(["new"] if table == "files" else [])}
    assert stream.run().counts == IngestCounts(received=4, duplicates=4)


def planned(store: HeldStore, table: str, schema: pa.Schema, source: str) -> None:
    row = {"source_id": source, "batch": 1, "at": START, "start": 0, "end": 1, "latest": 1, "partition": 0}
    row |= {"uri": "file:///elsewhere", "size": 1, "modified_at": START, "topic": "orders", "topic_id": "t"}
    add_rows(store, table, pa.Table.from_pylist([row], schema=schema))
