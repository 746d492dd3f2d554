"""Messages that are sent as CloudEvents in files."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import FilesDestination
from messagestore_core.contract.records import Envelope
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.tombstones import add_tombstones
from messagestore_jobs.context import Run
from messagestore_jobs.replay import chunks
from messagestore_jobs.replay.job import run_replay
from support.events import read_event
from support.external_writes import observing
from support.ingests import Stream, lines
from support.replays import AT, Crash, manifest, replay_document
from support.replays import lines as sent_lines
from support.stores import make_store, message

OWN = "/namespaces/default/messagestreams/orders"
TIME = "2018-04-05T17:31:00Z"
CORE = {"specversion": "1.0", "type": "com.example.someevent", "source": "/mycontext", "time": TIME}
EXTENSIONS = {"comexampleextension1": "value", "comexampleothervalue": 5}
EVENTS: list[dict[str, Any]] = [
    # The examples of the specification's JSON format, section 3.2.
    {
        **CORE, **EXTENSIONS, "id": "A234-1234-1234",
        "datacontenttype": "application/vnd.apache.thrift.binary", "data_base64": "AP/+",
    },
    {
        **CORE, **EXTENSIONS, "id": "B234-1234-1234", "unsetextension": None,
        "datacontenttype": "application/xml", "data": '<much wow="xml"/>',
    },
    {
        **CORE, **EXTENSIONS, "id": "C234-1234-1234", "subject": None,
        "datacontenttype": "application/json", "data": {"appinfoA": "abc", "appinfoB": 123, "appinfoC": True},
    },
    {**CORE, **EXTENSIONS, "id": "D234-1234-1234", "subject": None, "data": "I'm just a string"},
    # Ids and sources with what an id of a message escapes, and attributes that this store knows.
    {**CORE, "id": "50%#1%23#", "source": "urn:x#y#z", "data": {"n": 1}},
    {**CORE, "id": "é€😀 ", "source": "/a?b=c", "subject": "s/é-1", "dataschema": "http://x/y#1", "data": [1.10]},
    {
        **CORE, "id": "none", "correlationid": "c", "causationid": "d", "streamname": "order-7",
        "expirytime": "2099-01-01T00:00:00Z",
    },
    {**CORE, "id": "text", "datacontenttype": "text/plain; charset=utf-8", "data": "line\nline\t\u0000"},
    {**CORE, "id": "bytes", "datacontenttype": "application/json", "data_base64": "eyB9IA=="},
]  # fmt: skip
COMPARED = ("message_id", "stream_name", "type", "time", "expires_at", "correlation_id", "causation_id", "payload")


def as_events(table: Table, folder: Path, **task: Any) -> RunDocument:
    destination = FilesDestination(uri=f"file://{folder}", envelope="CloudEvents")
    return replay_document(table, ReplayTask(**{"job_id": "events", **task, "destination": destination}))


def sent(spark: SparkSession, table: Table, folder: Path, **task: Any) -> list[bytes]:
    outcome = run_replay(Run.of(as_events(table, folder, **task), spark, Silent()))
    assert outcome.complete
    return sent_lines(folder)


def test_an_event_that_came_is_sent_as_it_came_and_comes_in_again_as_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = Stream(spark, tmp_path, {"envelope": Envelope(format="CloudEvents")})
    first.arrive("a.jsonl", lines(*(json.dumps(event).encode() for event in EVENTS)))
    first.run()
    assert first.dead_letters() == []
    again = sent(spark, first.table, tmp_path / "out", order="Global")
    for event, line in zip(EVENTS, again, strict=True):
        given = {name: value for name, value in event.items() if value is not None}
        attributes, _ = read_event(line)
        for name in ("id", "source", "type", "subject", "dataschema", "datacontenttype"):
            default = "application/json" if name == "datacontenttype" and "data" in given else None
            assert attributes.get(name) == given.get(name, default), event
        assert attributes["time"] == datetime.fromisoformat(TIME)
        assert {name: attributes[name] for name in EXTENSIONS if name in given} == {
            name: str(value) for name, value in EXTENSIONS.items() if name in given
        }
        assert json.loads(line).get("data") == given.get("data")
        assert json.loads(line).get("data_base64") == given.get("data_base64")
    second = Stream(spark, tmp_path / "again", first.settings)
    second.arrive("a.jsonl", lines(*again))
    second.run()
    assert second.dead_letters() == []
    for came, sent_again in zip(first.messages(), second.messages(), strict=True):
        assert {name: sent_again[name] for name in COMPARED} == {name: came[name] for name in COMPARED}
        assert came["headers"].items() <= sent_again["headers"].items()


def test_any_message_is_an_event_with_its_stream_as_the_source(spark: SparkSession, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 5, 1, 2, 3, 450_000, tzinfo=UTC)
    full = message(
        7, position=3, payload=b"1.50", type_namespace="n", type_revision="2", correlation_id="c", causation_id="d",
        reply_to="r", sequence_id="s", sequence_number=1, sequence_size=2, sequence_end=False,
        metadata='{"m":\n 1.0}', payload_encoding="identity", status="COMPLETED", result=b"1", error="e", retries=2,
        expires_at=moment, time=moment,
        headers={
            "tenant": "x", "X-Trace": "left out", "type": "left out", "position": "left out", "data": "left out",
            "note": "a\nb", "source": "no URI", "subject": "seven", "kafka-key": "left out",
        },
    )  # fmt: skip
    rows = [
        full,
        message(8, type=None, payload=None, content_type=None, headers={"source": "https://shop.example/#a"}),
        message(9, message_id="bell\a", payload=b"{}", content_type=None),
        message(10, payload=b"\xff", content_type=None),
        message(11, message_id="/shop#", headers={"source": "/shop"}, payload=b"null"),
    ]
    found = sent(spark, make_store(tmp_path / "store", rows), tmp_path / "out", order="Global")
    events = [json.loads(line) for line in found]
    for line in found:
        read_event(line)
    assert found[0].startswith(b'{"specversion":"1.0","id":"m7","source":')
    assert events[0] == {
        "specversion": "1.0", "id": "m7", "source": OWN, "type": "created", "subject": "seven",
        "time": "2026-01-05T01:02:03.45Z", "datacontenttype": "application/json", "data": 1.5,
        "expirytime": "2026-01-05T01:02:03.45Z", "metadata": '{"m":  1.0}', "streamname": "order-1", "position": "3",
        "globalposition": "7", "typenamespace": "n", "typerevision": "2", "correlationid": "c", "causationid": "d",
        "replyto": "r", "sequenceid": "s", "sequencenumber": "1", "sequencesize": "2", "sequenceend": "false",
        "payloadencoding": "identity", "schemaversion": "1", "tenant": "x",
    }  # fmt: skip
    assert b'"data":1.50}' in found[0]
    assert {name: events[1].get(name) for name in ("id", "source", "type", "data", "datacontenttype")} == {
        "id": "m8", "source": "https://shop.example/#a", "type": "dev.messagestore.message",
        "data": None, "datacontenttype": None,
    }  # fmt: skip
    assert (events[2]["id"], events[2]["datacontenttype"]) == ("bell%07", "application/json")
    assert (events[3]["data_base64"], events[3]["datacontenttype"]) == ("/w==", "application/json")
    assert (events[4]["id"], events[4]["source"], events[4]["data_base64"]) == ("/shop#", "/shop", "bnVsbA==")
    assert manifest(tmp_path / "out")["envelope"] == "CloudEvents"


def test_marks_are_attributes(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(1, headers={"replayed": "before"})])
    (line,) = sent(spark, table, tmp_path / "out", mark_headers={"replayed": "{job}@{globalPosition}"})
    assert json.loads(line)["replayed"] == "events@1"


def test_events_have_nothing_that_was_erased_before_their_manifest(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 2)
    of_event = {"message_id": "/shop#50%25", "headers": {"source": "/shop", "specversion": "1.0"}}
    rows = [message(1), message(2, **of_event), message(3, message_id="a bell\a"), message(4, message_id="m1")]
    rows.append(message(5))
    table = make_store(tmp_path / "store", rows)
    moments = [("replay-staging", "after"), ("replay-seal", "after"), ("replay-object", "after")]
    gone = [[("m1", 1)], [("/shop#50%25", 2), ("a bell\a", 3)], [("m5", 5)]]

    def erased(name: str, moment: str) -> None:
        if moments and (name, moment) == moments[0]:
            moments.pop(0)
            add_tombstones(HeldStore(table.uri), gone.pop(0), AT, "purge")

    with observing(erased):
        left = sent(spark, table, tmp_path / "out", order="Global")
    assert moments == []
    assert [json.loads(line)["globalposition"] for line in left] == ["4"]
    assert manifest(tmp_path / "out")["outcome"]["progress"]["erased"] == 4


def test_expiry_of_an_event_is_judged_when_its_chunk_is_sent(spark: SparkSession, tmp_path: Path) -> None:
    rows = [message(1), message(2, expires_at=AT), message(3, expires_at=AT + timedelta(hours=1))]
    document = as_events(make_store(tmp_path / "store", rows), tmp_path / "out", skip_expired=True)

    def observer(name: str, moment: str) -> None:
        if (name, moment) == ("replay-seal", "after"):
            raise Crash

    with observing(observer), pytest.raises(Crash):
        run_replay(Run.of(document, spark, Silent()))
    outcome = run_replay(Run.of(document.model_copy(update={"at": AT + timedelta(hours=1)}), spark, Silent()))
    assert (outcome.progress.replayed, outcome.progress.expired) == (1, 2)
    assert [json.loads(line)["globalposition"] for line in sent_lines(tmp_path / "out")] == ["1"]
