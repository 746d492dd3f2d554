"""Status updates from files: what they change, what waits, and what is set aside."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import Retry, UpdateCounts
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_jobs.index.store_index import StoreIndex
from support.external_writes import observing
from support.ingests import START, adds_up, lines, record
from support.lifecycles import Updated, update

HOUR = timedelta(hours=1)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Updated:
    stream = Updated(spark, tmp_path)
    stream.arrive("a.jsonl", lines(*(record(f"m{n}", streamName=f"order-{n % 2}") for n in range(1, 7))))
    return stream


def test_updates_of_a_run_s_own_messages_are_applied_in_it(stream: Updated) -> None:
    stream.tell(
        update("m1", "PROCESSING"),
        update("m1", "COMPLETED", result={"total": 1.10}),
        update("m2", "FAILED", error="no such customer", time="2026-01-05T11:00:00Z"),
        update("m3", "PROCESSING"),
    )
    outcome = stream.run()
    assert adds_up(outcome.counts)
    assert outcome.counts.received == outcome.counts.stored == 6
    assert outcome.lifecycle.counts == outcome.lifecycle.totals == UpdateCounts(received=4, applied=4)
    assert outcome.lifecycle.unfinished == {"FAILED": 1, "PROCESSING": 1, "RECEIVED": 3}
    done, failed, untouched = stream.message("m1"), stream.message("m2"), stream.message("m4")
    assert (done["status"], done["result"], done["error"], done["updated_at"]) == (
        "COMPLETED",
        b'{"total": 1.1}',
        None,
        START,
    )
    assert (failed["status"], failed["error"], failed["retries"]) == ("FAILED", "no such customer", 1)
    assert failed["next_retry_at"] == START + timedelta(minutes=2)
    assert (untouched["status"], untouched["updated_at"]) == ("RECEIVED", None)


def test_updates_change_nothing_else(stream: Updated) -> None:
    stream.run()
    before = stream.messages()
    stream.tell(update("m1", "COMPLETED"), update("m6", "FAILED"))
    stream.run(START + HOUR)
    lifecycle = {"status", "result", "error", "retries", "next_retry_at", "updated_at"}
    for earlier, later in zip(before, stream.messages(), strict=True):
        assert {name for name in earlier if earlier[name] != later[name]} <= lifecycle


def test_only_files_that_hold_an_updated_message_are_written_anew(stream: Updated) -> None:
    stream.run()
    stream.arrive("b.jsonl", lines(record("m7"), record("m8")))
    stream.run(START + HOUR)
    before = set(Store(stream.table.uri).table("messages").file_uris())
    stream.tell(update("m7", "COMPLETED"))
    stream.run(START + 2 * HOUR)
    after = set(Store(stream.table.uri).table("messages").file_uris())
    kept = {row["message_id"] for row in stream.messages()}
    assert (len(before - after), len(after - before)) == (1, 1)
    assert len(kept) == 8


def test_an_update_that_changes_nothing_is_stale_and_no_error(stream: Updated) -> None:
    stream.tell(update("m1", "COMPLETED"), update("m1", "FAILED"), update("m1", "COMPLETED"))
    stream.tell(update("m2", "RECEIVED"))
    assert stream.told().counts == UpdateCounts(received=4, applied=1, stale=3)
    assert stream.states()["m1"] == ("COMPLETED", 0)


def test_a_run_without_anything_new_commits_nothing(stream: Updated) -> None:
    stream.tell(update("m1", "PROCESSING"), update("nobody", "COMPLETED"))
    stream.run()
    writes: list[str] = []
    with observing(lambda name, moment: writes.append(name)):
        report = stream.told(START + HOUR)
    assert set(writes) == {"ended"}
    assert report.counts == UpdateCounts()
    assert report.totals == UpdateCounts(received=2, applied=1)
    assert (report.pending, report.unfinished) == (1, None)


def test_a_message_fails_finally_when_its_retries_run_out(stream: Updated) -> None:
    stream.retry = Retry(max_retries=1)
    stream.tell(update("m1", "FAILED", attempt=1), update("m1", "PROCESSING", attempt=2))
    stream.tell(update("m1", "FAILED", attempt=1), update("m1", "FAILED", attempt=2), update("m1", "COMPLETED"))
    report = stream.told()
    assert report.counts == UpdateCounts(received=5, applied=3, stale=2, exhausted=1)
    assert (stream.states()["m1"], stream.message("m1")["next_retry_at"]) == (("FAILED", 2), None)
    assert report.unfinished == {"RECEIVED": 5}


def test_an_update_waits_for_its_message(stream: Updated) -> None:
    stream.tell(update("late", "FAILED", attempt=1, error="e"), update("other", "COMPLETED"))
    stream.tell(update("late", "PROCESSING"))
    report = stream.told()
    assert (report.counts, report.pending) == (UpdateCounts(received=3), 3)
    assert stream.pending() == [("late", "FAILED"), ("other", "COMPLETED"), ("late", "PROCESSING")]
    stream.arrive("b.jsonl", lines(record("late")))
    report = stream.told(START + HOUR)
    assert (report.counts, report.totals) == (UpdateCounts(applied=2), UpdateCounts(received=3, applied=2))
    assert stream.pending() == [("other", "COMPLETED")]
    assert stream.states()["late"] == ("PROCESSING", 1)
    assert stream.message("late")["error"] == "e"


def test_an_update_waits_for_a_day_and_is_then_a_dead_letter(stream: Updated) -> None:
    raw = update("nobody", "COMPLETED", result={"n": 1})
    file = stream.tell(update("m1", "PROCESSING"), raw)
    stream.run()
    assert stream.told(START + timedelta(hours=23)).pending == 1
    report = stream.told(START + timedelta(days=1))
    assert (report.counts, report.pending) == (UpdateCounts(dead_lettered=1), 0)
    (letter,) = stream.dead_letters()
    assert (letter["reason"], letter["raw"], letter["message_id"]) == ("UnknownMessage", raw, "nobody")
    assert letter["source"] == {"kind": "lifecycle", "uri": f"file://{file}", "partition": None, "offset": 44}
    assert letter["detail"] == "of a status update, no message with this messageId came within 24 hours"


NO_UPDATES: list[tuple[bytes, str, str | None]] = [
    (b"{", "Unparseable", None),
    (b'["m1", "COMPLETED"]', "Unparseable", None),
    (b'{"messageId": "m1", "messageId": "m2", "status": "FAILED"}', "Unparseable", None),
    (b'{"status": "FAILED"}', "MissingField", "of a status update, messageId is absent or null"),
    (b'{"messageId": "m1", "status": null}', "MissingField", "of a status update, status is absent or null"),
    (update("", "FAILED"), "InvalidField", "of a status update, messageId is empty"),
    (
        update("m1", "failed"),
        "InvalidField",
        "of a status update, status is none of RECEIVED, PROCESSING, COMPLETED, FAILED, EXPIRED, RETRY, PAUSE, RESUME",
    ),
    (
        update("m1", "FAILED", time="yesterday"),
        "InvalidField",
        "of a status update, time is no RFC 3339 time in the years 1 to 9999",
    ),
    (
        update("m1", "FAILED", attempt=0),
        "InvalidField",
        "of a status update, attempt is no whole number from 1 to 1000000",
    ),
    (
        update("m1", "FAILED", attempt="1.5"),
        "InvalidField",
        "of a status update, attempt is no whole number from 1 to 1000000",
    ),
    (
        update("m1", "FAILED", error="e" * 32_769),
        "InvalidField",
        "of a status update, error is longer than 32768 characters",
    ),
]


def test_a_record_that_is_no_update_is_a_dead_letter(stream: Updated) -> None:
    stream.tell(*(raw for raw, _, _ in NO_UPDATES), update("m1", "COMPLETED", attempt=None))
    number = len(NO_UPDATES)
    assert stream.told().counts == UpdateCounts(received=number + 1, applied=1, dead_lettered=number)
    letters = sorted(stream.dead_letters(), key=lambda letter: letter["source"]["offset"])
    for letter, (raw, reason, detail) in zip(letters, NO_UPDATES, strict=True):
        assert (letter["reason"], letter["raw"], letter["source"]["kind"]) == (reason, raw, "lifecycle")
        assert detail is None or letter["detail"] == detail


def test_messages_count_apart_from_updates(stream: Updated) -> None:
    stream.tell(b"no update", update("m1", "COMPLETED"), update("nobody", "FAILED"))
    outcome = stream.run()
    assert outcome.totals.dead_lettered == 0
    assert adds_up(outcome.totals)
    assert last_note(Store(stream.table.uri)).totals == outcome.totals


def test_updates_may_be_an_array_within_a_document(stream: Updated) -> None:
    listed = b",".join(update(f"m{n}", "COMPLETED") for n in (1, 2))
    stream.tell(b'{"updates":[' + listed + b']}{"updates":null}{"x":}', name="updates.json")
    documents = {"format": "JSON", "records_path": ("$.updates",)}
    lifecycle = stream.lifecycle()
    read = lifecycle.model_copy(update={"source": lifecycle.source.model_copy(update=documents)})
    assert stream.told(lifecycle=read).counts == UpdateCounts(received=4, applied=2, dead_lettered=2)
    assert [(row["reason"], row["raw"]) for row in stream.dead_letters()] == [
        ("MissingField", b'{"updates":null}'),
        ("Unparseable", b'{"x":}'),
    ]


def test_the_time_of_an_update_may_be_a_number(stream: Updated) -> None:
    due = START + HOUR
    stream.arrive("b.jsonl", lines(*(record(f"e{n}", expiresAt=due.isoformat()) for n in range(2))))
    stream.run()
    before, then = (round(at.timestamp() * 1000) for at in (START, due))
    stream.tell(update("e0", "COMPLETED", time=before), update("e1", "COMPLETED", time=str(then)))
    stream.tell(update("e1", "COMPLETED", time="soon"))
    report = stream.told(due, lifecycle=stream.lifecycle().model_copy(update={"time_unit": "Milliseconds"}))
    assert report.counts == UpdateCounts(received=3, applied=1, stale=1, dead_lettered=1, expired=1)
    assert (stream.states()["e0"][0], stream.states()["e1"][0]) == ("COMPLETED", "EXPIRED")
    (letter,) = stream.dead_letters()
    assert letter["detail"] == "of a status update, time is no number of milliseconds since 1970 in the years 1 to 9999"


def test_a_message_that_is_open_when_its_time_has_passed_expires(stream: Updated) -> None:
    due = (START + HOUR).isoformat()
    stream.arrive("b.jsonl", lines(*(record(f"e{n}", expiresAt=due) for n in range(5))))
    stream.tell(update("e1", "COMPLETED"), update("e2", "FAILED"), update("e3", "PROCESSING"))
    stream.run()
    stream.tell(update("e3", "COMPLETED", time=START.isoformat()))
    stream.tell(update("e4", "COMPLETED", time=due))
    report = stream.told(START + HOUR)
    assert report.counts == UpdateCounts(received=2, applied=1, stale=1, expired=3)
    expected = {"e0": "EXPIRED", "e1": "COMPLETED", "e2": "EXPIRED", "e3": "COMPLETED", "e4": "EXPIRED"}
    assert {name: stream.states()[name][0] for name in expected} == expected
    assert (stream.message("e2")["next_retry_at"], stream.message("e2")["updated_at"]) == (None, START + HOUR)
    assert report.unfinished == {"RECEIVED": 6}


def test_messages_expire_without_a_source_of_updates(stream: Updated) -> None:
    stream.arrive("b.jsonl", lines(record("e1", expiresAt=(START + HOUR).isoformat())))
    assert stream.run(lifecycle=None).lifecycle is None
    outcome = stream.run(START + HOUR, lifecycle=None)
    assert outcome.lifecycle.counts == UpdateCounts(expired=1)
    assert stream.states()["e1"] == ("EXPIRED", 0)


def test_of_messages_with_one_id_the_newest_is_updated(stream: Updated) -> None:
    stream.run(deduplication_window=HOUR)
    stream.arrive("again.jsonl", lines(record("m1")))
    stream.tell(update("m1", "COMPLETED"))
    stream.run(START + 2 * HOUR, deduplication_window=HOUR)
    both = [row["status"] for row in stream.messages() if row["message_id"] == "m1"]
    assert both == ["RECEIVED", "COMPLETED"]


def test_a_file_that_comes_again_is_read_again_and_changes_nothing(stream: Updated) -> None:
    content = [update("m1", "FAILED", attempt=1), b"garbage", update("m2", "COMPLETED")]
    stream.tell(*content, name="one.jsonl")
    stream.run()
    stream.tell(*content, name="one.jsonl")
    report = stream.told(START + HOUR)
    assert report.counts == UpdateCounts(received=3, stale=3)
    assert len(stream.dead_letters()) == 1
    assert stream.states()["m1"] == ("FAILED", 1)


@pytest.mark.long
def test_an_update_reads_only_days_on_which_its_messages_were_inserted(stream: Updated) -> None:
    stream.run()
    stream.tell(*(update(f"m{n}", "COMPLETED") for n in range(1, 7)))
    stream.run()
    next_day = START + timedelta(days=1)
    stream.arrive("b.jsonl", lines(record("m7")))
    stream.run(next_day)
    StoreIndex(stream.spark, HeldStore(stream.table.uri)).save()
    for file in (stream.folder / "store" / "messages" / f"inserted_date={START.date()}").glob("*.parquet"):
        file.write_bytes(b"not Parquet")
    stream.tell(update("m7", "PROCESSING"), update("m8", "PROCESSING"))

    outcome = stream.run(next_day)

    assert (outcome.lifecycle.counts.applied, outcome.lifecycle.pending) == (1, 1)
    assert outcome.lifecycle.unfinished == {"PROCESSING": 1}
