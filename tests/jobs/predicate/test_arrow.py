"""Arrow's engine gives Spark's answers: each value of each part, on rows that are hard to read.

MESSAGESTORE_FUZZ and MESSAGESTORE_FUZZ_SEED choose how many random predicates, and which (`make fuzz`).
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from random import Random
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from messagestore_core import envelope
from messagestore_core.predicate import Predicate, PredicateError, compile_predicate
from messagestore_core.predicate.arrow import NotExactError, evaluate
from messagestore_core.predicate.expression import Expression
from messagestore_core.predicate.spark import column_of
from messagestore_core.store.schemas import MESSAGES
from support.predicates import Predicates

COUNT = int(os.environ.get("MESSAGESTORE_FUZZ", "120"))
SEED = int(os.environ.get("MESSAGESTORE_FUZZ_SEED", "44"))
AT_ONCE = 60
_Item = TypeVar("_Item")
SCHEMA = pa.schema([MESSAGES.field(field.column).with_nullable(True) for field in envelope.READ])

NUMBERS = """0 -0 +5 1.5 .5 5. -1e3 1E2 1e-30 12345678901234567890 99999999999999999999 123456789012345678901
0.1234567890123456785 9223372036854775807 9223372036854775808 -9223372036854775809 ٣ 1_000 1e400
0e50 1e-9999 NaN Infinity 0x10 1d 1f 00000000000000000000000000000000000000000000000000007 - + . e5
1e 1e99999999999 0e400 0e-400 0e999999999 1e37 1e20 -1e19 1e19"""
TRUTHS = "t TRUE Yes y 1 f False no N 0 on off truE"
TIMES = """2026 2026-1 2026-01-5 2026-01-05T 2026-01-05T8 2026-01-05T08:15 2026-01-05T08:15Z 2026-01-05T08:15:00Z
2026-01-05T08:15:00.123456789+01:00 2026-01-05T08:15:00.5-1:30 2026-01-05T08:15:00+1 2026-01-05T08:15:00+01:2
2026-01-05T08:15:00UTC+3 2026-01-05T08:15:00Europe/Amsterdam 2026-03-29T02:30:00Europe/Amsterdam
2026-10-25T02:30:00Europe/Amsterdam 2026-01-05T08:15:00PST 2026-01-05T08:15:00EST 2026-01-05T08:15:00Nowhere/Here
2026-01-05T08:15:60Z 2026-02-30 +12026-01-01 -0044-03-15 0000-01-01 999999-12-31 20260105 2026/01/05 1582-10-10
2026-01-05T08:15:00+18:00 2026-01-05T08:15:00+18:01 2026-01-05T08:15:00+010203 2026-01-05T08:15:00.+01:00
2026-01-05T08:15:00z 2026-01-05T08:15:00GMT0 2026-01-05T24:00:00 2026-01-05T08:15:00. 2026-01-05T08:15:00.Z
2026-01-05T08:15: 02026-01-05 0002026-01-05 226-01-05 now today epoch -2026-01-05 2026-01-05-01:00
2026-01-05T08:15:00UT-05 8: 2026-01-05T08:15:00+1:2 2026-01-05T08:15:00GMT+01:2"""
OTHERS = [
    *("", " ", "a", "  a b  ", "\t5\n", " 5 ", "\u00a05", "\u001f7\u007f", "2026-01-05 08:15:00 Europe/Amsterdam"),
    *(
        "2026-01-05 08:15:00 +01:00",
        " 2026-01-05 ",
        " T08:15",
        "ÄÖß İıſΣΑΣ ΟΔΟΣ.",
        "ﬃ",
        "\U0001f600b",
        "e\u0301",
        "a%b_c\\d",
        "\n\n",
    ),
    *("1\u0000", "Ǆ", "\u212a", "x" * 300, "Π-Σ Π.Σ Π'Σ ΠΣ\u0301"),
]
DOCUMENTS = [
    *(b"", b" ", b"5", b" 5 ", b"05", b"-", b"-0.0e+1", b"1.", b".5", b"1e5", b"nul", b"null", b"true", b"tru", b'"a"'),
    *(b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\n"', b'"\\x"', b'"a', b"{}", b'{"a":1,"a":2}', b'{"a":1,}', b"[1,]"),
    *(b"[1 2]", b'{"a" 1}', b"{a:1}", b'{"a":{"b":[1,"\\u00fc",{"c":null}]} , "n" : -19.60}', b'\xef\xbb\xbf{"a":1}'),
    *(b'{"a":"\xff"}', b"{\x00}", b"[" * 600 + b"]" * 600, b"[" * 1000 + b"]" * 1000, b"[" * 1001 + b"]" * 1001),
    *(b'{"a":' * 500 + b"1" + b"}" * 500, b'{"a":[1,[2,3] ]}', b"NaN", b"[NaN]", b"1 2", b'{"a":"5"}', b'{"a":" 7"}'),
    *(
        b'{"a":1e400}',
        b'{"a":123456789012345678901234567890}',
        b'{"a":true}',
        b'{"\\u0061":"x\\ty"}',
        b'{"a b":[0,[]]}',
    ),
    *(
        b"\xff\xfe",
        b"plain \xe2\x82 text",
        b"\xf0\x9f\x98\x80!",
        b"7\n ",
        b"7\r",
        b"7\t",
        b"{} ",
        b"7  ",
        b" 7",
        b'[{"b":2},{"b":"3"}]',
        b"9" * 5000,
        b"[]]",
    ),
    *(
        b'"\\uD83D"',
        b'{"a":[' + b"[" * 450 + b"]" * 450 + b',"x"]}',
        b'{"a":{"a":1,"a":1}}',
        b'{"\\uDFAA":0}',
        b'{"\\ud83d\\ude00":{"a":1},"a":7}',
        b"\x0b1",
        b'\t{"a"\r\n:2}',
    ),
    *(b"\xed\xa0\x80x", b"\xed\xa0x", b"a\xed\xb0\x80b\xe2\x82c", b"\xf4\x90\x80\x80", b"\xef\xbf\xbd!"),
]
PARTS = (
    """
    int(headers['x'])   bool(headers['x'])   headers['x'] + 0   headers['x'] * headers['x']   headers['x'] / 3
    headers['x'] % 7   headers['x'] % retries   payload_size / headers['x']   headers['x'] - 1.25   -headers['x']
    abs(headers['x'])   ceil(headers['x'])   floor(headers['x'])   round(headers['x'])   string(headers['x'] + 0)
    headers['x'] * 1e0   headers['x'] / 1e0   string(headers['x'] * 0.0000001)   headers['x'] * 1.000000000000000001
    int(headers['x'] + 0)   int(headers['x'] * 1e0)   bool(headers['x'] + 0)   bool(headers['x'] * 1e0)
    floor(headers['x'] * 1e0)   ceil(headers['x'] * 1e0)   round(headers['x'] * 1e0)   abs(headers['x'] * 1e0)
    headers['x'] = retries   headers['x'] > payload_size   headers['x'] IN (1, 5.0, 7)
    headers['x'] BETWEEN 0 AND 5e0
    coalesce(headers['x'] + 0, retries)   coalesce(retries, 1e0)   coalesce(source.partition, payload_size, 0.5)
    retries + schema_version   retries * schema_version   retries - payload_size   payload_size * payload_size
    payload_size + 1.5   payload_size * 1.50   payload_size / 0.3   payload_size % 0.7   payload_size / 7
    -payload_size
    retries % schema_version   payload_size % retries   retries / schema_version   -retries   abs(payload_size)
    abs(retries)   ceil(retries)   ceil(payload_size)   round(payload_size / 7)   floor(payload_size / 7)
    round(payload_size * 0.25)   ceil(payload_size * 0.25)   floor(payload_size * 0.25)   payload_size % 3e0
    payload_size * 1e300 * 1e300 - payload_size * 1e300 * 1e300   round(payload_size * 1e300)   retries / 0
    int(payload_size * 1e300)   ceil(payload_size * 1e300)   string(retries)   string(payload_size)
    length('abc') * 1.5
    coalesce(0.00000000000000000001, headers['x'] + 0)   headers['x'] = 0.12345678901234567849999
    lower(headers['x'])   upper(headers['x'])   trim(headers['x'])   length(headers['x'])   left(headers['x'], 2)
    right(headers['x'], 2)   substring(headers['x'], 2)   substring(headers['x'], 2, 3)   substring(headers['x'], -2)
    substring(headers['x'], -9, 8)   substring(headers['x'], 0, 1)   left(headers['x'], -1)   right(headers['x'], 0)
    left(headers['x'], payload_size)   right(headers['x'], retries)   substring(headers['x'], retries, payload_size)
    left(headers['x'], 1.9)   left(headers['x'], 5e9)   substring(headers['x'], 2, -1)   substring('', 1)
    concat(headers['x'], '-', type)   concat(type)   startswith(headers['x'], 'a')   endswith(headers['x'], type)
    contains(headers['x'], '')   contains(headers['x'], ' ')   headers['x'] < type   headers['x'] <> 'a'
    headers['x'] LIKE 'a%'   headers['x'] LIKE '%'   headers['x'] LIKE '_'   headers['x'] LIKE '%\\%b!_%' ESCAPE '!'
    headers['x'] LIKE ''   headers['x'] LIKE '%a%b%'   headers['x'] LIKE '__%_'   headers['x'] LIKE '% %'
    headers['x'] LIKE 'x%x'   string(payload) LIKE '%_t%'   string(payload) LIKE '%"'   string(payload) LIKE '_x'
    string(payload) LIKE '__'   string(payload) LIKE 'a_b_'   string(payload) LIKE '%\ufffd%'
    string(payload) LIKE '\ufffd%'
    time = headers['x']   coalesce(time, headers['x'])   coalesce(headers['none'], time) < '2026-02-01'
    coalesce(expires_at, headers['x'])   string(coalesce(expires_at, headers['x']))   time + INTERVAL 100000000 DAYS
    string(time + INTERVAL 10000000 DAYS)   string(time - INTERVAL 1000000 DAYS)   string(time - INTERVAL 1 SECOND)
    time - INTERVAL 100000000 DAYS - INTERVAL 100000000 DAYS   INTERVAL 1 DAY + time   inserted_at - time
    inserted_at - time > INTERVAL 1 HOUR   inserted_at - time + INTERVAL 100000000 DAYS + INTERVAL 10000000 DAYS
    string(time)   string(inserted_at)   time BETWEEN '2026-01-05' AND inserted_at   time IN ('2026-01-05')
    json(payload, '$')   json(payload, '$.a')   json(payload, '$.a.b')   json(payload, '$.a.b[1]')
    json(payload, '$[0].b')
    json(payload, '$[\\'a b\\'][1]')   json(payload, '$.n')   json(payload, '$.a[0]')   json(metadata, '$.a')
    json(payload, '$.a') * 2   json(payload, '$.a[1]')   json(result, '$')   length(json(payload, '$'))
    length(payload)   string(payload)   length(string(payload))   left(string(payload), 7)   lower(string(payload))
    right(string(payload), 3)   substring(string(payload), -4, 2)   trim(string(payload))   upper(string(payload))
    concat(string(payload), 'x')   contains(string(payload), 'a')   payload = result   payload IS NULL
    headers IS NULL
    source IS NULL   source.uri   source.partition   source.offset + 1   sequence_end = true   sequence_end < true
    headers['none']   headers['twice']   coalesce(sequence_end, false)   string(headers['x']) = headers['x']
    NOT (sequence_end AND type = 'a')   sequence_end OR bool(headers['x'])   type IN ('a', 'it''s')
    status NOT IN ('a')
    retries IN (1, 2147483648)   retries IN (1, 0.5)   retries BETWEEN headers['x'] AND 1e3   payload_size IN (1e3)
    length(concat('a', 'b')) * json(payload, '$.n')   (0 - 5) * headers['x']   2 * headers['x']   headers['x'] = 100
""".replace("\n", "   ")
    .strip()
    .split("   ")
)


def batched(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


def rows() -> pa.Table:
    """Each text beside each kind of payload, and numbers and times at their bounds."""
    chance, texts = Random(44), [*f"{NUMBERS} {TRUTHS} {TIMES}".split(), *OTHERS, None]
    documents = [*DOCUMENTS, None]
    longs = [0, 1, -1, 7, 10**18, 2**63 - 1, -(2**63), 123456789, None]
    ints = [0, 1, -1, 2, 3, 2**31 - 1, -(2**31), None]
    moments = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2026, 1, 5, 8, 15, 0, 120000)]
    times = [*(moment.replace(tzinfo=UTC) for moment in (*moments, datetime(1582, 10, 10))), None]

    def row(at: int) -> dict[str, Any]:
        text = texts[at % len(texts)]
        partition = chance.choice(ints)
        source = {"kind": "files", "uri": text, "partition": partition, "offset": chance.choice(longs)}
        plain = documents[(at * 7) % len(documents)]
        return {
            **{name: chance.choice(("a", "it's", "", "FAILED", None)) for name in ("type", "category", "status")},
            "headers": chance.choice(([("x", text), ("twice", "1"), ("twice", "2")],) * 9 + (None,)),
            "metadata": None if plain is None else plain.decode(errors="replace"),
            "payload": documents[at % len(documents)],
            "result": chance.choice(documents),
            **{name: chance.choice(ints) for name in ("retries", "schema_version")},
            **{name: chance.choice(longs) for name in ("payload_size", "sequence_number", "global_position")},
            **{name: chance.choice(times) for name in ("time", "inserted_at", "expires_at")},
            "sequence_end": chance.choice((True, False, None)),
            "source": chance.choice((source,) * 9 + (None,)),
        }

    return pa.Table.from_pylist([row(at) for at in range(2 * len(texts))], SCHEMA)


def answers(spark: SparkSession, table: pa.Table, expressions: list[Expression]) -> list[list[Any]]:
    """Spark's values."""
    columns = [column_of(expression).alias(f"c{at}") for at, expression in enumerate(expressions)]
    return [plain(column) for column in spark.createDataFrame(table).select(*columns).toArrow().columns]


def plain(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values that can be compared: text as bytes, times in microseconds, not-a-number as itself."""
    if pa.types.is_string(values.type):
        values = values.cast(pa.binary())
    elif pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        values = values.cast(pa.int64())
    return ["NaN" if value != value else value for value in values.to_pylist()]


def test_each_part_has_sparks_value(spark: SparkSession) -> None:
    table = rows()
    different = list[str]()
    for some in batched(filter(None, PARTS), AT_ONCE):
        expressions = [inside(part) for part in some]
        for part, expression, expected in zip(some, expressions, answers(spark, table, expressions), strict=True):
            different += differences(part, table, plain(evaluate(expression, table)), expected)

    assert different == []


def test_like_takes_a_character_that_is_cut_off_as_spark_does(spark: SparkSession) -> None:
    """Beside LIKE: Spark's functions of a part of a text read past its end then."""
    payloads = (b"\xed\xa0", b"\xed", b"a\xed\xb0\x80b\xe2\x82")
    table = pa.Table.from_pylist([{"payload": payload} for payload in payloads], SCHEMA)
    expressions = [inside(f"string(payload) LIKE '{pattern}'") for pattern in ("_", "__", "a_b_", "%\ufffd%")]
    expected = answers(spark, table, expressions)
    assert [plain(evaluate(expression, table)) for expression in expressions] == expected


def test_random_predicates_have_sparks_answer(
    spark: SparkSession, record_testsuite_property: Callable[[str, object], None]
) -> None:
    record_testsuite_property("arrow seed", SEED)
    table, different, refused = rows(), list[str](), 0
    predicates = taken()
    for some in batched(predicates, AT_ONCE):
        expressions = [expression for one in some for expression in (one.condition, one.failure)]
        texts = [f"{what} {one.text!r}" for one in some for what in ("condition", "failure")]
        for text, expression, expected in zip(texts, expressions, answers(spark, table, expressions), strict=True):
            try:
                different += differences(text, table, plain(evaluate(expression, table)), expected)
            except NotExactError:
                refused += 1

    assert different == [], SEED
    assert refused < len(predicates) / 10


def taken() -> list[Predicate]:
    source, found = Predicates(Random(SEED)), []
    for _ in range(COUNT):
        with suppress(PredicateError):
            found.append(compile_predicate(source.one()))
    return found


def inside(part: str) -> Expression:
    condition = compile_predicate(f"({part}) IS NULL").condition
    return condition.parts[0]


def differences(text: str, table: pa.Table, found: list[Any], expected: list[Any]) -> list[str]:
    """The first rows on which the engines differ."""
    at = [row for row, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1]]
    return [f"{text}: {found[row]!r}, Spark: {expected[row]!r}, of {table.slice(row, 1).to_pylist()}" for row in at[:2]]
