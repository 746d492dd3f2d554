"""Values that a record doesn't have itself: of its file, and of what is around it."""

import base64
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestCounts, IngestTask
from messagestore_core.contract.records import Envelope, FieldMapping, FilesSource, Unwrap, ValueMapping
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.progress import Silent
from messagestore_jobs.context import Run
from messagestore_jobs.replay.job import run_replay
from support.ingests import START, Stream, adds_up, lines, record
from support.long import few
from support.purges import break_off
from support.replays import replay_document


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    """A stream whose counts must add up after each test, and in which nothing is new in what was read."""
    stream = Stream(spark, tmp_path)
    yield stream
    again = stream.run()
    assert again.counts == IngestCounts()
    assert adds_up(again.totals)
    assert again.totals.stored == len(stream.messages())


def custom(headers: dict[str, ValueMapping] | None = None, **fields: FieldMapping) -> Envelope:
    given = {"messageId": FieldMapping(path="$.id"), "category": FieldMapping(value="c"), **fields}
    return Envelope(format="Custom", fields=given, add_headers=headers or {})


def of_file(part: Any, pattern: str | None = None, **more: Any) -> FieldMapping:
    return FieldMapping(file=part, pattern=pattern, **more)


def redrive(stream: Stream, job: str = "job") -> None:
    """Redrive all dead letters by the settings of now."""
    task = stream.document().task
    assert isinstance(task, IngestTask)
    into = StreamDestination(table=stream.table, ingest=task)
    replay = ReplayTask(job_id=job, origin="DeadLetters", destination=into)
    run_replay(Run.of(replay_document(stream.table, replay), stream.spark, Silent()))


@pytest.mark.usefixtures("compiled")
def test_path_name_time_and_partitions_of_a_file_fill_mapped_fields(stream: Stream) -> None:
    stream.settings["envelope"] = custom(
        {"place": of_file("Place"), "none": of_file("Path", "(x)"), "day": of_file("ModifiedAt", "^([0-9-]*)T")},
        streamId=FieldMapping(partition="dt"),
        type=of_file("Name"),
        correlationId=of_file("Path", "tenant=([^/]+)/"),
        causationId=of_file("Path"),
        time=of_file("ModifiedAt"),
        replyTo=FieldMapping(partition="hour", default="?"),
    )
    at = START - timedelta(hours=3, milliseconds=-250)
    path = stream.arrive("dt=2026-01-05 10%3A30/tenant=a%20b/ä.jsonl", lines(b'{"id":"1"}', b'{"id":"2"}'), at)
    stream.run()
    first, second = stream.messages()
    assert {name: second[name] for name in ("stream_name", "type", "correlation_id", "causation_id", "time")} == {
        "stream_name": "c-2026-01-05 10:30",
        "type": "ä.jsonl",
        "correlation_id": "a%20b",
        "causation_id": "dt=2026-01-05 10%3A30/tenant=a%20b/ä.jsonl",
        "time": at,
    }
    assert (first["headers"], second["headers"]) == tuple(
        {"place": f"file://{path}#{offset}", "day": "2026-01-05"} for offset in (0, 11)
    )
    assert first["reply_to"] == "?"


def test_partitions_are_read_as_hive_writes_them(stream: Stream) -> None:
    stream.settings["envelope"] = custom(
        {name: ValueMapping(partition=name) for name in ("a", "b c", "d", "e", "f.jsonl")},
    )
    stream.arrive("a=%/b%20c=%4/d=__HIVE_DEFAULT_PARTITION__/e=/a=second/f.jsonl=1/f.jsonl=2", b'{"id":"1"}\n')
    stream.arrive("a=1%2F2/e=%zz%C3/x=a=b/1.jsonl", b'{"id":"2"}\n')
    stream.run()
    assert [row["headers"] for row in stream.messages()] == [
        {"a": "%", "b c": "%4", "e": "", "f.jsonl": "1"},
        {"a": "1/2", "e": "%zzÃ"},
    ]


def test_headers_are_added_in_each_format_and_the_records_own_count_more(stream: Stream) -> None:
    added = {
        "tenant": ValueMapping(partition="tenant"),
        "kind": ValueMapping(path="$.kind", default="none"),
        "by": ValueMapping(value="us"),
    }
    event = {"specversion": "1.0", "source": "s", "type": "t", "kind": "event"}
    given = {
        "Native": [record("1", headers={"tenant": "own"}, kind="native"), record("2", kind=7)],
        "CloudEvents": [json.dumps(event | {"id": name}).encode() for name in "12"],
        "Custom": [b"a line", b"another"],
    }
    found = {}
    for name, records in given.items():
        one = Stream(stream.spark, stream.folder / name)
        fields = {"category": FieldMapping(value="c"), "payload": FieldMapping(path="$")} if name == "Custom" else {}
        one.settings["envelope"] = Envelope(format=name, fields=fields, add_headers=added)
        one.settings["format"] = "Text" if name == "Custom" else "JSONLines"
        one.arrive("tenant=north/a.jsonl", lines(*records))
        one.run()
        found[name] = [row["headers"] for row in one.messages()]
    assert found["Native"] == [
        {"tenant": "own", "kind": "native", "by": "us"},
        {"tenant": "north", "kind": "7", "by": "us"},
    ]
    event_headers = {"tenant": "north", "kind": "event", "by": "us"}
    assert [{name: one[name] for name in event_headers} for one in found["CloudEvents"]] == [event_headers] * 2
    assert found["Custom"] == [{"tenant": "north", "kind": "none", "by": "us"}] * 2
    stream.run()


@pytest.mark.parametrize("file_format", few(["JSONLines", "JSON"], "JSON"))
def test_a_place_identifies_a_record_until_other_bytes_are_there(stream: Stream, file_format: str) -> None:
    stream.settings |= {"format": file_format, "envelope": custom(messageId=of_file("Place"))}
    path = stream.arrive("a.jsonl", lines(b'{"n":1}', b'{"n":2}'))
    assert stream.run().counts == IngestCounts(received=2, stored=2)
    stream.arrive("a.jsonl", lines(b'{"n":1}', b'{"n":2}', b'{"n":3}'))
    assert stream.run().counts.stored == 1
    stream.arrive("a.jsonl", lines(b'{"n":9}'))
    assert stream.run().counts == IngestCounts(received=1, stored=1)
    assert stream.ids() == [f"file://{path}{end}" for end in ("#0", "#8", "#16", "//@2#0")]


@pytest.mark.parametrize(
    ("write", "moment"),
    few([("dead-letters", "after"), ("messages", "before"), ("plan", "after")], ("dead-letters", "after")),
)
def test_a_batch_that_broke_off_says_the_same_of_its_files(stream: Stream, write: str, moment: str) -> None:
    stream.settings["envelope"] = custom(
        {"at": of_file("ModifiedAt")}, messageId=of_file("Place"), type=FieldMapping(partition="dt")
    )
    stream.arrive("dt=1/a.jsonl", lines(b'{"id":1}', b"{"))
    break_off(stream.run, write, moment)
    totals = stream.run(at=START + timedelta(hours=1)).totals
    assert totals == IngestCounts(received=2, stored=1, dead_lettered=1)
    (only,) = stream.messages()
    assert (only["type"], only["headers"]) == ("1", {"at": "2026-01-04T12:00:01.000Z"})
    (letter,) = stream.dead_letters()
    assert dict(letter["headers"]) == {"file-path": "dt=1/a.jsonl", "file-modified-at": "2026-01-04T12:00:01.000Z"}


def test_a_redrive_knows_the_file_though_the_source_is_another_by_now(stream: Stream) -> None:
    stream.settings["envelope"] = custom(type=of_file("Path", "dt=([0-9]+)/"), time=of_file("ModifiedAt"))
    path = stream.arrive("dt=1/a.jsonl", b'{"n":1}\n')
    stream.run()
    (letter,) = stream.dead_letters()
    assert (letter["reason"], letter["raw"], letter["source"]["uri"]) == ("MissingField", b'{"n":1}', f"file://{path}")
    fields = stream.settings["envelope"].fields | {"messageId": of_file("Place")}
    stream.settings["envelope"] = Envelope(format="Custom", fields=fields)
    document = stream.document()
    task = document.task
    moved = task.model_copy(update={"source": FilesSource(uri="file:///elsewhere"), "source_id": "elsewhere"})
    replay = ReplayTask(
        job_id="moved", origin="DeadLetters", destination=StreamDestination(table=stream.table, ingest=moved)
    )
    run_replay(Run.of(replay_document(stream.table, replay), stream.spark, Silent()))
    (message,) = stream.messages()
    assert (message["type"], message["message_id"]) == ("1", f"file://{path}#0")
    assert message["time"] == START - timedelta(days=1, seconds=-1)


def test_a_redrive_finds_the_path_of_a_record_that_was_set_aside_before_it_was_mapped(stream: Stream) -> None:
    stream.settings["envelope"] = custom()
    stream.arrive("dt=1/a.jsonl", b'{"n":1}\n')
    stream.run()
    assert stream.dead_letters()[0]["headers"] is None
    stream.settings["envelope"] = custom(messageId=FieldMapping(partition="dt"))
    redrive(stream)
    assert stream.ids() == ["1"]


@pytest.mark.usefixtures("compiled")
def test_a_field_may_come_from_what_is_around_an_unwrapped_record(stream: Stream) -> None:
    stream.settings["envelope"] = Envelope(
        format="Custom",
        unwrap=(Unwrap(path="$.Message"), Unwrap(path="$.detail", encoding="Base64")),
        fields={
            "messageId": FieldMapping(path="$.id", in_="Outer", level=2),
            "category": FieldMapping(path="$.category", in_="Record"),
            "type": FieldMapping(path="$.kind", in_="Outer"),
            "correlationId": FieldMapping(path="$.id"),
            "headers": FieldMapping(path="$.attributes", in_="Outer", level=2),
            "metadata": FieldMapping(path="$", in_="Outer"),
            "payload": FieldMapping(path="$.number", in_="Outer", level=2),
            "causationId": FieldMapping(path="$.gone", in_="Outer", default="none"),
        },
        add_headers={"kind": ValueMapping(path="$.kind", in_="Outer"), "a": ValueMapping(path="$.kind")},
    )
    inner = base64.b64encode(b'{"category":"c","id":"inner","kind":"k"}').decode()
    middle = f'{{"detail":"{inner}",  "kind":"mid\\u00e9"}}'
    outer = {"id": "outer", "attributes": {"a": "own", "n": 1}, "Message": middle}
    good = json.dumps(outer).encode()[:-1] + b', "number": 1.10}'
    bad = good.replace(b'"outer"', b"[7]")
    stream.arrive("a.jsonl", lines(good, bad))
    assert stream.run().counts == IngestCounts(received=2, stored=1, dead_lettered=1)
    (message,) = stream.messages()
    assert message["headers"] == {"a": "own", "n": "1", "kind": "midé"}
    assert message["metadata"] == middle
    assert message["payload"] == b"1.10"
    names = ("message_id", "category", "type", "correlation_id", "causation_id")
    assert tuple(message[name] for name in names) == ("outer", "c", "midé", "inner", "none")
    (letter,) = stream.dead_letters()
    assert (letter["raw"], letter["reason"], letter["detail"]) == (bad, "InvalidField", "messageId is an array")
    stream.settings["envelope"] = stream.settings["envelope"].model_copy(
        update={
            "fields": stream.settings["envelope"].fields
            | {"messageId": FieldMapping(path="$.id[0]", in_="Outer", level=2)}
        }
    )
    redrive(stream)
    assert stream.ids() == ["outer", "7"]


def test_headers_come_from_around_native_records_and_events_too(stream: Stream) -> None:
    stream.settings["envelope"] = Envelope(
        unwrap=(Unwrap(path="$.body"),), add_headers={"region": ValueMapping(path="$.region", in_="Outer")}
    )
    stream.arrive("a.jsonl", lines(b'{"region":"eu","body":' + record("a") + b"}", b'{"body":' + record("b") + b"}"))
    stream.run()
    assert [row["headers"] for row in stream.messages()] == [{"region": "eu"}, {}]
