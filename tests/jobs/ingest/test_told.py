"""A dead letter has the id, stream and correlation id of its message, as far as its record tells them."""

import json
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import Envelope, FieldMapping, FilesSource, Filter, KafkaCluster, KafkaSource
from messagestore_core.store.dead_letters import NAME_COLUMNS
from messagestore_jobs.ingest.columns import columns_of
from messagestore_jobs.ingest.write import dead_letter_columns, set_clock
from messagestore_jobs.source.columns import with_projections
from support.ingests import START, record

SCHEMA = (
    "part int, row int, kind string, uri string, partition int, offset long, value binary, fault string, size long, "
    "key binary, record_headers map<string, string>, record_time timestamp, cut boolean, "
    "fault_reason string"
)
FILES = FilesSource(uri="file:///landing")
KAFKA = KafkaSource(cluster=KafkaCluster(bootstrap_servers="none:9092"), topics=("orders",))
LONG = 9_000


class Case(NamedTuple):
    """A record, its reason, and what its dead letter tells: id, stream and correlation id."""

    value: bytes | None
    reason: str
    told: tuple[str | None, str | None, str | None]
    key: bytes | None = None
    headers: dict[str, str] | None = None
    cut: bool = False

    @property
    def fault(self) -> tuple[str | None, int | None]:
        return ("it is too large", 99) if self.cut else (None, None)


def event(**given: Any) -> bytes:
    full = {"specversion": "1.0", "id": "7#a%", "source": "/my-shop", "type": "t", "correlationid": "c", **given}
    return json.dumps({name: value for name, value in full.items() if value is not ...}).encode()


def custom(**fields: dict[str, str]) -> Envelope:
    return Envelope(format="Custom", fields={name: FieldMapping(**given) for name, given in fields.items()})


def text(**fields: dict[str, str]) -> dict[str, Any]:
    source = FilesSource(uri=FILES.uri, format="Text")
    return {"source": source, "envelope": custom(streamName={"value": "log"}, **fields)}


FULL = ("m1", "order-1", "c")
NOTHING = (None, None, None)
EVENT = ("/my-shop#7%23a%25", "/my_shop-9", "c")
BINARY = {"ce_specversion": "1.0", "ce_id": "7", "ce_source": "/s", "ce_type": "t", "ce_correlationid": "c"}
RECORD = {"messageId": {"record": "Key"}, "streamName": {"header": "stream"}, "correlationId": {"path": "$.c"}}
PLACE = {"messageId": {"record": "Place"}, "category": {"record": "Topic"}}

TOLD_BY: dict[str, tuple[dict[str, Any], list[Case]]] = {
    "Native": (
        {},
        [
            Case(record(correlationId="c", payload="a long one"), "PayloadTooLarge", FULL),
            Case(record(correlationId="c", type="none", ttl="PT0S"), "ExpiredOnArrival", FULL),
            Case(record(correlationId="c", time="yesterday"), "InvalidField", FULL),
            Case(record(correlationId="c", streamName=["order-1"]), "InvalidField", ("m1", None, "c")),
            Case(record(correlationId="c", type={}), "InvalidField", FULL),
            Case(record("m" * 1_025, correlationId="c"), "InvalidField", (None, "order-1", "c")),
            Case(record(messageId=..., correlationId="c"), "MissingField", (None, "order-1", "c")),
            Case(record(streamName=..., category="order", streamId="1"), "Unselected", ("m1", "order-1", None)),
            Case(record(streamName="-1"), "InvalidStreamName", ("m1", "-1", None)),
            Case(record(correlationId="c")[:-1], "Unparseable", FULL),
            Case(record(correlationId="c")[:-2], "Unparseable", ("m1", "order-1", None)),
            Case(record(correlationId="c") + b"]", "Unparseable", NOTHING),
            Case(record(correlationId="c") + record("m2"), "Unparseable", NOTHING),
            Case(record(payload=b'"a\xff"'), "Unparseable", NOTHING),
            Case(record(correlationId="c")[:-1] + b',"x":"\xc3', "RecordTooLarge", FULL, cut=True),
            Case(record(payload=...)[:-2], "RecordTooLarge", ("m1", None, None), cut=True),
            Case(b'{"x":"' + record(), "RecordTooLarge", NOTHING, cut=True),
        ],
    ),
    "CloudEvents": (
        {"envelope": Envelope(format="CloudEvents")},
        [
            Case(event(subject="9", data="a long one"), "PayloadTooLarge", EVENT),
            Case(event(subject="9", time="yesterday"), "InvalidField", EVENT),
            Case(event(id=..., subject="9"), "MissingField", (None, *EVENT[1:])),
            Case(event(source=...), "MissingField", (None, None, "c")),
            Case(event(subject="9")[:-1] + b',"data":"', "RecordTooLarge", EVENT, cut=True),
            Case(event(subject="9")[:-1] + b',"data":"', "Unparseable", EVENT),
        ],
    ),
    "Custom": (
        {"envelope": custom(messageId={"path": "$.a.id"}, category={"value": "x"}, streamId={"path": "$.s[1]"})},
        [
            Case(b'{"a":{"id":7},"s":[0,"b"]}', "Unselected", ("7", "x-b", None)),
            Case(b'{"a":{}}', "MissingField", (None, "x", None)),
            Case(b'{"a":{"id":"7"},"s":[0,', "RecordTooLarge", ("7", "x", None), cut=True),
        ],
    ),
    "lines of text": (
        text(messageId={"path": "$"}),
        [
            Case(b"line", "Unselected", ("line", "log", None)),
            Case(b"\xff", "Unparseable", (None, "log", None)),
            Case(b"l" * LONG, "RecordTooLarge", (None, "log", None), cut=True),
        ],
    ),
    "texts by place": (
        text(),
        [
            Case(b"line", "Unselected", ("file:///landing/a#5", "log", None)),
            Case(b"\xff", "Unparseable", ("file:///landing/a#5", "log", None)),
        ],
    ),
    "key and headers": (
        {"source": KAFKA, "envelope": custom(**RECORD)},
        [
            Case(b'{"c":"d"}', "Unselected", ("k", "s-1", "d"), b"k", {"stream": "s-1"}),
            Case(b"{", "Unparseable", ("k", "s-1", None), b"k", {"stream": "s-1"}),
            Case(None, "Unparseable", ("/w==", None, None), b"\xff"),
            Case(b'{"c":"d","e":[', "RecordTooLarge", (None, None, "d"), cut=True),
        ],
    ),
    "place and topic": (
        {"source": KAFKA, "envelope": custom(**PLACE)},
        [Case(b"{", "Unselected", ("kafka:orders/1#5", "orders", None))],
    ),
    "binary events": (
        {"source": KAFKA, "envelope": Envelope(format="CloudEvents")},
        [
            Case(b"a long one", "PayloadTooLarge", ("/s#7", "/s", "c"), None, BINARY),
            Case(b"", "MissingField", (None, "/s", "c"), None, {n: v for n, v in BINARY.items() if n != "ce_id"}),
        ],
    ),
}


@pytest.mark.parametrize("given", TOLD_BY)
def test_a_dead_letter_tells_what_its_envelope_can_tell(spark: SparkSession, given: str) -> None:
    asked, cases = TOLD_BY[given]
    unselected = Filter(where="type = 'none'", unmatched="DeadLetter")
    task = IngestTask(**{"source_id": "s", "source": FILES, "max_payload_bytes": 8, "filter": unselected, **asked})
    uri = "file:///landing/a" if task.source.kind == "files" else "kafka:orders"
    rows = [
        (0, row, task.source.kind, uri, 1, 5, case.value, *case.fault, case.key, case.headers, None, case.cut, None)
        for row, case in enumerate(cases)
    ]
    set_clock(spark, START)
    columns = columns_of(spark, task, "file:///store", "x", 1 << 20, b"k" * 32, None, earlier_events=False)
    validated = with_projections(spark.createDataFrame(rows, SCHEMA), columns.validated)
    letters = validated.select("row", *dead_letter_columns(says=False)).orderBy("row").collect()
    found = [(letter["reason"], tuple(letter[name] for name in NAME_COLUMNS)) for letter in letters]
    assert found == [(case.reason, case.told) for case in cases]
