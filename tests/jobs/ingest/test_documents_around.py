"""Values of the document around the array that a record is in."""

import gzip
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestCounts, IngestTask, Memory
from messagestore_core.contract.records import Envelope, FieldMapping, Unwrap, ValueMapping
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.progress import Silent
from messagestore_core.store.handle import Store
from messagestore_jobs.context import Run
from messagestore_jobs.replay.job import run_replay
from support.ingests import START, Stream, adds_up
from support.long import few
from support.packing import PACKERS
from support.purges import break_off
from support.replays import replay_document

FEW = Memory(batch_records=3)
"""A batch holds three records."""


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    """A stream of documents, whose counts must add up after each test, and in which nothing is new in what was read."""
    stream = Stream(spark, tmp_path, {"format": "JSON", "records_path": ("$.Records",)})
    yield stream
    again = stream.run(at=START + timedelta(days=1))
    assert again.counts == IngestCounts()
    assert adds_up(again.totals)
    assert again.totals.stored == len(stream.messages())


def around(path: str, **more: Any) -> FieldMapping:
    return FieldMapping(path=path, in_="Document", **more)


def custom(headers: dict[str, ValueMapping] | None = None, **fields: FieldMapping) -> Envelope:
    given = {"messageId": FieldMapping(path="$.id"), "category": FieldMapping(value="c"), **fields}
    return Envelope(format="Custom", fields=given, add_headers=headers or {})


OF_REGION = custom(type=around("$.region"))


def elements(*ids: str) -> bytes:
    return b'"Records":[' + b", ".join(b'{"id":"%s"}' % name.encode() for name in ids) + b"]"


def types(stream: Stream) -> dict[str, str | None]:
    return {row["message_id"]: row["type"] for row in stream.messages()}


def refusals(stream: Stream) -> list[tuple[str, bytes, str]]:
    """Reason, bytes and detail of each dead letter, in the order of their places."""
    return [(row["reason"], row["raw"], row["detail"]) for row in stream.dead_letters()]


@pytest.mark.usefixtures("compiled")
def test_values_are_found_wherever_they_stand(stream: Stream) -> None:
    stream.settings["envelope"] = custom(
        {"account": ValueMapping(path="$.of['the account'].id", in_="Document"), "own": ValueMapping(path="$.id")},
        type=around("$.region", default="none"),
        streamId=around("$.region"),
        time=around("$.at", unit="Seconds"),
        correlationId=FieldMapping(path="$.region"),
    )
    of = b'"of":{"x":[{"id":2}],"the account":{"id":7.50}}'
    documents = [
        b'{"region":"e\\u00fc","at":1,' + of + b"," + elements("before") + b"}",
        b"{" + elements("after", "after too") + b',"at":"2.5","region":"us",' + of + b"}",
        b'{"region":null,"at":3,' + elements("missing") + b"}",
        b'[{"id":"none"}]',
        b'{"region":"' + b"x" * 1022 + b'","at":4,' + elements("long") + b"}",
    ]
    for number, packer in enumerate([None, *PACKERS.values()]):
        content = b"\n".join(documents).replace(b'{"id":"', b'{"id":"%d' % number)
        stream.arrive(str(number), packer(content) if packer else content)
    stream.settings["records_path"] = ("$.Records", "$")
    assert stream.run().counts == IngestCounts(received=24, stored=24)
    told = {
        row["message_id"][1:]: (row["type"], row["stream_name"], row["time"], dict(row["headers"]).get("account"))
        for row in stream.messages()
    }
    at = {float(seconds): datetime.fromtimestamp(seconds, UTC) for seconds in (1, 2.5, 3, 4)}
    assert told == {
        "before": ("eü", "c-eü", at[1], "7.50"),
        "after": ("us", "c-us", at[2.5], "7.50"),
        "after too": ("us", "c-us", at[2.5], "7.50"),
        "missing": ("none", "c", at[3], None),
        "none": ("none", "c", told["none"][2], None),
        "long": ("x" * 1022, "c-" + "x" * 1022, at[4], None),
    }
    assert {row["correlation_id"] for row in stream.messages()} == {None}


@pytest.mark.usefixtures("compiled")
def test_values_that_no_field_can_have_cost_the_records_of_their_document(stream: Stream) -> None:
    stream.settings["envelope"] = custom(
        {"in": ValueMapping(path="$.of.region", in_="Document")}, type=around("$.region")
    )
    wrong = {
        b'"' + b"x" * 1023 + b'"': "type has more than 1024 bytes of JSON",
        b'{"a":1}': "type is an object or an array",
        b"[]": "type is an object or an array",
        b"tru": "type is no JSON",
        b'"a" "b"': "type is no JSON",
        b'"\xff"': "type is no JSON",
        b'"\\ud800"': "type is no JSON",
        b'"a","region":"a"': "type is in the document twice",
    }
    documents = [b'{"region":%s,%s}' % (value, elements(str(n))) for n, value in enumerate(wrong)] + [
        b'{"of":{"region":[1]},' + elements("header") + b"}",
        b'{"region":"a","of":{},' + elements("good") + b"}",
    ]
    stream.arrive("a.json", b"".join(documents))
    stream.run()
    assert refusals(stream) == [
        *(("InvalidField", b'{"id":"%d"}' % n, why) for n, why in enumerate(wrong.values())),
        ("InvalidField", b'{"id":"header"}', "addHeaders.in is an object or an array"),
    ]
    assert types(stream) == {"good": "a"}


def test_damage_found_later_spares_the_records_that_have_their_values(stream: Stream) -> None:
    stream.settings["envelope"] = OF_REGION
    known = b'{"region":"eu",'
    stream.arrive("a-twice", known + elements("1") + b',"region":"us","region":"x"}' + known + elements("2") + b"}")
    stream.arrive("b-no-end", known + elements("3"))
    stream.arrive("c-damage", known + elements("4") + b',"x" 1}' + known + elements("5") + b"}")
    stream.arrive("d-unknown", b"{" + elements("6") + b',"region" "us"}' + known + elements("7") + b"}")
    whole = b"{" + elements(*(f"t{n}" for n in range(50))) + b',"n":"' + random.Random(1).randbytes(600).hex().encode()
    stream.arrive("e-torn.gz", gzip.compress(whole + b'","region":"us"}', mtime=0)[:-200])
    stream.run()
    assert types(stream) == dict.fromkeys("123457", "eu")
    assert [(reason, raw) for reason, raw, _ in refusals(stream)] == [
        *[("Unparseable", b"")] * 3,
        ("InvalidField", b'{"id":"6"}'),
        ("Unparseable", b""),
        *(("InvalidField", b'{"id":"t%d"}' % n) for n in range(50)),
        ("Unparseable", b""),
    ]
    told = [detail for _, _, detail in refusals(stream)]
    assert told[0] == "a second value of the document that begins at byte 0, at $.region"
    assert told[3] == "type can't be told: the document is damaged"
    assert "cut short or damaged" in told[-1]


def test_unwrapped_records_have_values_of_the_document_around_the_outer_one(stream: Stream) -> None:
    envelope = custom({"o": ValueMapping(path="$.o", in_="Outer")}, type=around("$.region"))
    stream.settings["envelope"] = envelope.model_copy(update={"unwrap": (Unwrap(path="$.body"),)})
    outer = json.dumps({"o": 1, "region": "outer", "body": json.dumps({"id": "a", "region": "inner"})})
    stream.arrive("a.json", b'{"Records":[' + outer.encode() + b'],"region":"around"}')
    stream.run()
    assert types(stream) == {"a": "around"}
    assert stream.messages()[0]["headers"] == {"o": "1"}


def test_native_records_get_headers_of_their_document(stream: Stream) -> None:
    stream.settings["envelope"] = Envelope(add_headers={"region": ValueMapping(path="$.region", in_="Document")})
    native = b'{"messageId":"%s","streamName":"s-1","payload":1%s}'
    records = native % (b"a", b"") + b"," + native % (b"b", b',"headers":{"region":"own"}')
    stream.arrive("a.json", b'{"Records":[' + records + b'],"region":"eu"}')
    stream.run()
    assert [row["headers"] for row in stream.messages()] == [{"region": "eu"}, {"region": "own"}]


LARGE = (
    b'{"region":"one",' + elements(*(f"a{n}" for n in range(5))) + b"}"
    b"{" + elements("b0", "") + b',"region":"two"}' + b"{" + elements(*(f"c{n}" for n in range(4))) + b"}"
)


@pytest.mark.parametrize(
    ("write", "moment", "nth"),
    few([(None, "", 0), ("plan-anew", "after", 1), ("messages", "after", 2)], ("messages", "after", 2)),
)
def test_each_part_of_a_large_file_knows_what_is_around_its_records(
    stream: Stream, write: str | None, moment: str, nth: int
) -> None:
    envelope = custom({"r": ValueMapping(path="$.region", in_="Document")}, type=around("$.region"))
    stream.settings |= {"envelope": envelope.model_copy(update={"required": ("type",)}), "memory": FEW}
    stream.arrive("a.gz", gzip.compress(LARGE))
    if write:
        break_off(stream.run, write, moment, nth)
    totals = stream.run(at=START + timedelta(hours=1)).totals
    assert totals == IngestCounts(received=11, stored=6, dead_lettered=5)
    assert len(Store(stream.table.uri).table("files").to_pyarrow_table()) > 2
    assert types(stream) == {**{f"a{n}": "one" for n in range(5)}, "b0": "two"}
    letters = stream.dead_letters()
    assert [letter["raw"] for letter in letters] == [b'{"id":""}', *(b'{"id":"c%d"}' % n for n in range(4))]
    assert [dict(letter["headers"]) for letter in letters] == [{"document-$.region": '"two"'}, *[{}] * 4]


def test_a_redrive_knows_the_document_though_the_file_is_gone(stream: Stream) -> None:
    stream.settings |= {
        "envelope": custom(type=around("$.region"), correlationId=FieldMapping(value="c")),
        "after_ingest": "Delete",
    }
    document = b'{"Records":[{"id":[1]},{"id":"2"}],"region":"e\\"u"}'
    path = stream.arrive("a.json", document + b'{"region":7,"Records":[{"id":[3]}]}' + b"{" + elements("")[:-1] + b"}]")
    stream.run()
    stream.run()
    assert not path.exists()
    headers = [dict(row["headers"]) for row in stream.dead_letters()]
    assert headers[:2] == [{"document-$.region": '"e\\"u"'}, {"document-$.region": "7"}]
    fields = stream.settings["envelope"].fields | {"messageId": FieldMapping(path="$.id[0]")}
    stream.settings["envelope"] = stream.settings["envelope"].model_copy(update={"fields": fields})
    task = stream.document().task
    assert isinstance(task, IngestTask)
    replay = ReplayTask(
        job_id="job", origin="DeadLetters", destination=StreamDestination(table=stream.table, ingest=task)
    )
    run_replay(Run.of(replay_document(stream.table, replay), stream.spark, Silent()))
    assert types(stream) == {"2": 'e"u', "1": 'e"u', "3": "7"}


def test_values_are_those_that_a_plain_reader_finds(stream: Stream) -> None:
    draw = random.Random(42)
    stream.settings |= {
        "records_path": ("$.Records", "$.of.records"),
        "envelope": custom({"b": around("$.of.b")}, type=around("$.a"), causationId=around("$.of['x y'].c")),
        "memory": Memory(batch_records=400),
    }
    expected: dict[str, tuple[str | None, ...]] = {}
    for name in range(4):
        documents = [drawn_document(draw, f"{name}-{n}", expected) for n in range(50)]
        content = draw.choice(["", "\n", " \x1e"]).join(documents).encode()
        stream.arrive(f"{name}", gzip.compress(content) if draw.random() < 0.5 else content)
    assert stream.run().counts.stored == len(expected)
    assert {
        row["message_id"]: (row["type"], row["headers"].get("b"), row["causation_id"]) for row in stream.messages()
    } == expected


def drawn_document(draw: random.Random, name: str, expected: dict[str, tuple[str | None, ...]]) -> str:
    """A document with members in any order, and what is to be known of each of its records."""
    records = [{"id": f"{name}-{n}", "a": "own", "of": {"b": 1}} for n in range(draw.randrange(5))]
    a, b, c = (draw.choice(["é", 'x"\\', "", "]}", 1, -0.5, True, None, "y" * 900]) for _ in range(3))
    inner: list[tuple[str, Any]] = [("b", b), ("x y", {"c": c, "d": [{"c": 1}]}), ("z", "[{")]
    outer: list[tuple[str, Any]] = [("a", a), ("n", [{"a": 1}, "]"])]
    draw.choice([inner, outer]).append(("Records", records))
    inner = [("records" if key == "Records" else key, value) for key, value in inner]
    inner, outer = draw.sample(inner, len(inner)), draw.sample([*outer, ("of", dict(inner))], len(outer) + 1)
    document = {key: dict(inner) if key == "of" else value for key, value in outer if draw.random() < 0.9 or key != "a"}
    known = tuple(
        None if value is None else value if isinstance(value, str) else json.dumps(value)
        for value in (document.get("a"), b, c)
    )
    expected.update({record["id"]: known for record in records})
    return json.dumps(document, ensure_ascii=draw.random() < 0.5)
