"""Messages without retries left, erased messages, and updates that were set aside."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestTask, Retry, UpdateCounts
from messagestore_core.contract.purge import Match, PurgeTask, Rule
from messagestore_core.contract.replay import ReplayTask, Selection
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store.dead_letters import NAME_COLUMNS
from messagestore_jobs.context import Run
from messagestore_jobs.lifecycle import commit
from messagestore_jobs.purge.job import run_purge
from messagestore_jobs.replay.job import run_replay
from support.external_writes import observing
from support.ingests import START, lines, record
from support.lifecycles import Updated, update
from support.replays import Crash, files_replay, replay_document
from support.stores import change_rows

HOUR = timedelta(hours=1)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Updated:
    stream = Updated(spark, tmp_path)
    stream.arrive("a.jsonl", lines(*(record(f"m{n}", streamName=f"order-{n % 2}") for n in range(1, 5))))
    return stream


def erase(stream: Updated, message_id: str, where: str | None = None) -> None:
    rule = Rule(name="erasure", match=Match(message_ids=(message_id,), where=where), erase=True)
    document = RunDocument(
        run="purge",
        resource=Resource(kind="RetentionPolicy", namespace="default", name="erasure"),
        table=stream.table,
        at=START + HOUR,
        task=PurgeTask(mode="Enforce", rules=(rule,), erase_within=HOUR),
    )
    run_purge(Run.of(document, stream.spark, stream.heard))


def crash_at(count: int, written: list[str]) -> Callable[[str, str], None]:
    """An observer that notes each write of dead letters, and ends the run after one of them; 0: after none."""

    def observer(name: str, moment: str) -> None:
        if (name, moment) == ("dead-letters", "after"):
            written.append(name)
            if len(written) == count:
                raise Crash

    return observer


def test_a_message_without_retries_left_is_a_dead_letter_where_the_stream_sets_aside(stream: Updated) -> None:
    stream.retry = Retry(max_retries=1, set_aside=True)
    stream.tell(update("m1", "FAILED", attempt=1), update("m2", "FAILED", attempt=1))
    assert stream.told().counts.exhausted == 0
    stream.tell(update("m1", "FAILED", attempt=2, error="again"))
    report = stream.told(START + HOUR)
    assert (report.counts.exhausted, report.counts.dead_lettered) == (1, 0)
    (letter,) = stream.dead_letters()
    raw = json.loads(letter["raw"])
    assert (letter["reason"], raw["messageId"], raw["payload"]) == ("RetriesExhausted", "m1", {})
    message = stream.message("m1")
    assert {name: letter[name] for name in ("source", *NAME_COLUMNS)} == {
        name: message[name] for name in ("source", *NAME_COLUMNS)
    }
    assert stream.states()["m1"] == ("FAILED", 2)


def test_many_are_set_aside_a_few_at_a_time_and_once_each(stream: Updated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "portion_bytes", lambda spark: 1)
    stream.retry = Retry(max_retries=0, set_aside=True)
    stream.tell(*(update(f"m{n}", "FAILED") for n in range(1, 5)))
    written: list[str] = []
    with observing(crash_at(2, written)), pytest.raises(Crash):
        stream.run()
    assert len(stream.dead_letters()) == 2
    with observing(crash_at(0, written)):
        assert stream.told().counts.exhausted == 4
    raw = [json.loads(letter["raw"])["messageId"] for letter in stream.dead_letters()]
    assert (sorted(raw), len(written)) == (["m1", "m2", "m3", "m4"], 4)


@pytest.mark.long
@pytest.mark.parametrize("cut_off_at", [0, 1, 2])
def test_messages_of_a_file_and_of_one_that_replaced_it_are_all_set_aside(
    stream: Updated, monkeypatch: pytest.MonkeyPatch, cut_off_at: int
) -> None:
    """They come from the same places, by which it is known what an earlier try has set aside."""
    monkeypatch.setattr(commit, "portion_bytes", lambda spark: 1)
    stream.retry = Retry(max_retries=0, set_aside=True)
    stream.run()
    stream.arrive("a.jsonl", lines(*(record(f"n{n}", streamName=f"order-{n % 2}") for n in range(1, 5))))
    ids = [f"{file}{n}" for file in "mn" for n in (1, 2)]
    stream.run()
    stream.tell(*(update(message_id, "FAILED") for message_id in ids))
    if cut_off_at:
        with observing(crash_at(cut_off_at, [])), pytest.raises(Crash):
            stream.run()
    assert stream.told().counts.exhausted == 4
    assert sorted(json.loads(letter["raw"])["messageId"] for letter in stream.dead_letters()) == sorted(ids)


@pytest.mark.long
def test_a_message_that_is_redelivered_between_two_tries_of_a_batch_is_set_aside_once(
    stream: Updated, tmp_path: Path
) -> None:
    stream.retry = Retry(max_retries=1, set_aside=True)
    stream.tell(update("m1", "FAILED", attempt=1))
    stream.run()
    stream.tell(update("m1", "FAILED", attempt=2))

    def cut_off(name: str, moment: str) -> None:
        if (name, moment) == ("dead-letters", "after"):
            raise Crash

    with observing(cut_off), pytest.raises(Crash):
        stream.run(START + HOUR)
    again = files_replay(stream.table, tmp_path / "again", select=Selection(due_for_retry=True), rounds=True)
    run_replay(Run.of(again.model_copy(update={"at": START + HOUR}), stream.spark, Silent()))
    assert stream.states()["m1"] == ("PROCESSING", 1)
    assert stream.told(START + 2 * HOUR).counts.exhausted == 1
    assert stream.states()["m1"] == ("FAILED", 2)
    assert [letter["reason"] for letter in stream.dead_letters()] == ["RetriesExhausted"]


@pytest.mark.long
def test_waiting_updates_of_an_erased_message_leave_with_it_and_later_ones_do_not_wait(stream: Updated) -> None:
    stream.run(deduplication_window=HOUR)
    stream.tell(update("other", "FAILED", error="kept"))
    stream.run()
    # A message with that id may arrive and be erased before a run reads the updates.
    change_rows(stream.table.uri, "pending_updates", {"message_id": "'m1'"}, "message_id = 'other'")
    stream.tell(update("another", "PROCESSING"))
    stream.run()
    assert stream.pending() == [("m1", "FAILED"), ("another", "PROCESSING")]
    erase(stream, "m1")
    assert stream.pending() == [("another", "PROCESSING")]
    stream.tell(update("m1", "COMPLETED", result="secret"))
    report = stream.told(START + 2 * HOUR)
    assert (report.counts, report.pending) == (UpdateCounts(received=1, stale=1), 1)
    stored = stream.folder / stream.store / "pending_updates"
    assert not any(b"secret" in path.read_bytes() for path in stored.rglob("*") if path.is_file())


@pytest.mark.long
def test_an_update_applies_to_the_message_of_its_id_that_was_not_erased(stream: Updated) -> None:
    """Also while the purge, which was cut off, has not removed the other yet."""
    stream.run(deduplication_window=HOUR / 2)
    stream.arrive("b.jsonl", lines(record("m1")))
    stream.run(START + HOUR, deduplication_window=HOUR / 2)

    def cut_off(name: str, moment: str) -> None:
        if (name, moment) == ("tombstones", "after"):
            raise Crash

    newer = "global_position = 5"
    with observing(cut_off), pytest.raises(Crash):
        erase(stream, "m1", newer)
    stream.tell(update("m1", "PROCESSING"))
    assert stream.told(START + HOUR).counts.applied == 1
    erase(stream, "m1", newer)
    stream.tell(update("m1", "COMPLETED"))
    # A late copy stays out, also while another message has the id.
    stream.arrive("c.jsonl", lines(record("m1")))
    report = stream.run(START + 9 * HOUR, deduplication_window=HOUR / 2)
    assert report.lifecycle.counts.applied == 1
    assert report.counts.duplicates == 1
    found = [(row["global_position"], row["status"]) for row in stream.messages() if row["message_id"] == "m1"]
    assert found == [(1, "COMPLETED")]


@pytest.mark.long
def test_updates_that_were_set_aside_are_no_messages_to_send_again(stream: Updated, tmp_path: Path) -> None:
    stream.arrive("bad.jsonl", lines(b"no message"))
    stream.tell(b"no update")
    stream.run()
    target = Table(uri=f"file://{tmp_path}/target", owner=Owner(namespace="default", name="target"))
    task = stream.document().task
    assert isinstance(task, IngestTask)
    redrive = ReplayTask(job_id="again", origin="DeadLetters", destination=StreamDestination(table=target, ingest=task))
    outcome = run_replay(Run.of(replay_document(stream.table, redrive), stream.spark, Silent()))
    assert (outcome.complete, outcome.selection.messages) == (True, 1)
    to_files = files_replay(stream.table, tmp_path / "letters", origin="DeadLetters", job_id="files")
    assert run_replay(Run.of(to_files, stream.spark, Silent())).selection.messages == 1
    open_letters = [letter["raw"] for letter in stream.dead_letters() if letter["redriven_at"] is None]
    assert open_letters == [b"no update"]
