"""What Spark makes of predicates, by one message."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from messagestore_core.predicate import compile_predicate
from messagestore_core.predicate.functions import NAMES
from messagestore_core.predicate.spark import condition, failure

pytestmark = pytest.mark.usefixtures("compiled")

COLUMNS = (
    "type string, reply_to string, retries bigint, payload_size bigint, sequence_end boolean, time timestamp, "
    "inserted_at timestamp, headers map<string,string>, metadata string, payload binary, "
    "source struct<kind: string, uri: string, partition: bigint, offset: bigint>"
)
MESSAGE = (
    "OrderPlaced",
    None,
    3,
    1500,
    True,
    datetime(2026, 1, 5, 8, tzinfo=UTC),
    datetime(2026, 1, 5, 10, tzinfo=UTC),
    {"n": " 7 ", "v": "2", "at": "2026-01-05T08:00:00Z", "yes": "true"},
    "{not JSON",
    '{"a": {"b": [1, "ü"]}, "paid": true, "price": -19.6, "n": null}'.encode(),
    ("file", "s3a://in/a.jsonl", None, 7),
)

HOLD = """
    lower(type) = 'orderplaced'
    upper(type) = 'ORDERPLACED'
    trim(headers['n']) = '7'
    length(type) = 11 AND length(json(payload, '$.a.b[1]')) = 1
    length(payload) = 64
    concat(type, '-', headers['v']) = 'OrderPlaced-2'
    substring(type, 6) = 'Placed' AND substring(type, 1, 5) = 'Order'
    left(type, 5) = 'Order' AND right(type, 6) = 'Placed'
    startswith(type, 'Order') AND endswith(type, 'Placed') AND contains(type, 'rPl')
    abs(json(payload, '$.price')) = 19.6
    ceil(payload_size / 1000) = 2 AND floor(payload_size / 1000) = 1 AND round(2.5) = 3
    coalesce(reply_to, headers['v']) = '2'
    int(headers['v']) + retries = 5
    bool(headers['yes']) AND bool(json(payload, '$.paid'))
    string(retries) = '3' AND string(time) LIKE '2026-01-05 08:%'
    string(payload) LIKE '%"paid": true%'
    json(payload, '$.a.b[0]') = 1 AND json(payload, '$') IS NOT NULL
    time = headers['at'] AND time < '2026-01-05T10:00:01+01:00'
    time BETWEEN '2026-01-05' AND TIMESTAMP '2026-01-06'
    inserted_at - time > INTERVAL '119' MINUTES AND time + INTERVAL 2 HOURS = inserted_at
    inserted_at - time - INTERVAL 1 HOUR = INTERVAL 60 MINUTE
    retries IN (1, 3) AND type NOT IN ('a', 'b') AND retries NOT BETWEEN 4 AND 5
    retries * 2 - 1 = 5 AND retries % 2 = 1 AND -retries < 0
    sequence_end AND NOT (type = 'a') AND sequence_end = true
    source.offset = 7 AND source.uri LIKE 's3a://%' AND source.partition IS NULL
    headers['none'] IS NULL AND json(payload, '$.n') IS NULL AND json(payload, '$.none') IS NULL
    reply_to = 'a' OR true
""".strip().splitlines()
HOLD_NOT = ["type = 'orderplaced'", "reply_to = 'a' AND false", "headers['n'] = '7'", "type LIKE 'order%'"]
# Of these no one knows: an absent value selects nothing, what fails is told.
UNKNOWN = ["reply_to = 'a'", "NOT reply_to = 'a'", "reply_to IN ('a')", "int(headers['none']) = 1", "reply_to LIKE '%'"]
FAIL = [
    "int(type) = 1",
    "bool(type)",
    "headers['n'] > time",
    "type > 5",
    "retries / 0 = 1",
    "json(metadata, '$.a') = 'a'",
    "retries * 9223372036854775807 = 1",
]


def test_a_predicate_means_what_it_says(spark: SparkSession) -> None:
    rows = spark.createDataFrame([MESSAGE], COLUMNS)
    expected = {
        **{text.strip(): (True, False) for text in HOLD},
        **dict.fromkeys(HOLD_NOT, (False, False)),
        **dict.fromkeys(UNKNOWN, (None, False)),
        **dict.fromkeys(FAIL, (None, True)),
    }
    predicates = [compile_predicate(text) for text in expected]
    (row,) = rows.select(*(column(one) for one in predicates for column in (condition, failure))).collect()
    found = {one.text: (row[2 * at], bool(row[2 * at + 1])) for at, one in enumerate(predicates)}
    assert {text: result for text, result in found.items() if result != expected[text]} == {}


def test_each_function_is_tried() -> None:
    assert {name for name in NAMES if not any(f"{name}(" in text for text in (*HOLD, *FAIL))} == set()
