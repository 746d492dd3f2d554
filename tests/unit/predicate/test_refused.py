import pytest

from messagestore_jobs.predicate import (
    DEAD_LETTER_COLUMNS,
    FILTER_COLUMNS,
    PredicateError,
    compile_predicate,
)

SUBQUERIES = [
    "type IN (SELECT type FROM messages)",
    "type NOT IN (SELECT 1)",
    "EXISTS (SELECT 1)",
    "NOT EXISTS (SELECT 1 FROM x)",
    "(SELECT true)",
    "(SELECT max(retries) FROM x) > 1",
    "retries > (SELECT 1)",
    "retries > ALL (SELECT 1)",
    "retries = ANY (SELECT 1)",
    "CASE WHEN (SELECT true) THEN true END",
    "type IN ('a', (SELECT 'b'))",
    "coalesce((SELECT 1), 2) = 1",
    "lower((SELECT 'a')) = 'a'",
    "retries BETWEEN (SELECT 1) AND 2",
    "type LIKE (SELECT 'a')",
    "headers[(SELECT 'a')] = 'a'",
    "CAST((SELECT 1) AS INT) = 1",
    "(WITH x AS (SELECT 1) SELECT * FROM x) = 1",
    "(SELECT 1 UNION SELECT 2) = 1",
    "type IN (TABLE x)",
    "type IN (VALUES ('a'))",
    "(VALUES (1)) = 1",
    "(FROM x) = 1",
    "SELECT 1",
    "true UNION SELECT true",
    "LATERAL VIEW explode(headers)",
    "type IN (SELECT * FROM json.`s3a://bucket/key`)",
]

ESCAPES = [
    "reflect('java.lang.Runtime', 'getRuntime') = 'a'",
    "`reflect`('java.lang.Runtime', 'getRuntime') = 'a'",
    "ReFleCt('a', 'b') = 'c'",
    "Java_Method('a', 'b') IS NULL",
    "try_reflect('a', 'b') IS NULL",
    "CASE WHEN reflect('a', 'b') = 'c' THEN true ELSE true END",
    "type IN (reflect('a', 'b'))",
    "type IN ('a', `java_method`('a', 'b'))",
    "headers[reflect('a', 'b')] = 'a'",
    "false AND reflect('a', 'b') = 'c'",
    "spark_catalog.default.f(1) = 1",
    "messagestore.json_text(payload, '$') = 'a'",
    "system.builtin.reflect('a', 'b') = 'a'",
    "`json`.`s3a://bucket/key` = 1",
    "json.`s3a://bucket/key`.a = 1",
    "a.b.c = 1",
    "a.b.c.d = 1",
    "messages.type = 'a'",
    "source.uri.x = 'a'",
    "headers['a'].b = 'c'",
    "json(payload, '$.a').b = 'c'",
    "TABLE(type) = 1",
    "TABLE type",
    "transform(map_keys(headers), x -> x) IS NULL",
    "exists(map_keys(headers), x -> true)",
    "count(*) > 1",
    "count(DISTINCT type) > 1",
    "count(type) FILTER (WHERE true) > 1",
    "row_number() OVER (ORDER BY time) = 1",
    "lower(type) OVER () = 'a'",
    "* IS NULL",
    "type.* IS NULL",
    "payload_size > :size",
    "payload_size > ?",
    "payload_size > @size",
    "payload_size > @@size",
    "payload_size > ${size}",
    "payload_size > {size}",
    "true; DROP TABLE messages",
    "true;",
    ";",
    "true -- all",
    "true /* all */",
    "true /*",
    "/*+ BROADCAST(x) */ true",
    "ref/**/lect('a', 'b') = 'a'",
    "type = 'a'/**/'b'",
    "type = \u2018a\u2019",
    "type = \u201ca\u201d",
    "\uff52eflect('a') = 'a'",
    "type AS x",
    "type = 'a' COLLATE UTF8_LCASE",
    "time AT TIME ZONE 'x' = time",
    "retries & 1 = 1",
    "retries | 1 = 1",
    "~retries = 1",
    "metadata -> 'a' = 'b'",
    "metadata:a = 'b'",
    "from_json(metadata, 'a INT') IS NULL",
    "named_struct('a', 1) IS NULL",
    "explode(headers) IS NULL",
    "if(true, reflect('a', 'b'), 'c') = 'c'",
    "INTERVAL reflect('a', 'b') DAY > INTERVAL 1 DAY",
    "DATE reflect('a', 'b') = time",
    "CAST(type AS struct<a: int>) IS NULL",
    "CAST(type AS map<string, string>) IS NULL",
    "CAST(type AS array<int>) IS NULL",
    "CAST(type AS variant) IS NULL",
    "CAST(type AS timestamp_ntz) IS NULL",
    "CAST(type AS interval) IS NULL",
    "CAST(type AS `evil`) IS NULL",
    "CAST(type AS decimal(39, 1)) IS NULL",
    "CAST(type AS decimal(3, 4)) IS NULL",
    "CAST(type AS date FORMAT 'yyyy') IS NULL",
    "type::json IS NULL",
    "type LIKE ANY ('a', 'b')",
    "type LIKE ALL ('a', 'b')",
    "type LIKE category",
    "type RLIKE category",
    "type RLIKE lower('a')",
]


@pytest.mark.parametrize("text", SUBQUERIES + ESCAPES)
def test_there_is_no_way_out(text: str) -> None:
    with pytest.raises(PredicateError, match="allowed are literals"):
        compile_predicate(text)


REFUSED = [
    ("", ["empty", "payload_size > 2"]),
    ("   ", ["empty"]),
    ("payload_size", ["`payload_size`", "must be a condition", "number"]),
    ("'x'", ["'x'", "must be a condition", "text"]),
    ("json(payload, '$.a')", ["must be a condition"]),
    ("null", ["must be a condition"]),
    ("type = 'a' AND retries", ["`retries`", "character 16", "must be a condition"]),
    ("type = 'a' b", ["`b`", "character 12", "not expected"]),
    ("type =", ["not expected"]),
    ("(type = 'a'", ["not expected"]),
    ("type IN (SELECT 1)", ["subquery", "no table"]),
    ("a.b.c = 1", ["a.b.c", "qualified"]),
    ("messages.type = 'a'", ["messages.type", "table"]),
    ("streamName = 'a'", ["streamName", "did you mean stream_name?"]),
    ("payloadSha256 = 'a'", ["did you mean payload_sha256?"]),
    ("strem_name = 'a'", ["did you mean stream_name?"]),
    ("nonsense_xyz = 'a'", ["no such column", "message_id"]),
    ("source.path = 'a'", ["kind, uri, partition, offset"]),
    ("now() > time", ["`now()`", "character 1", "clock", "maxAge"]),
    ("time < current_timestamp", ["`current_timestamp`", "clock"]),
    ("rand() < 0.5", ["rand()", "not deterministic"]),
    ("uuid() = 'a'", ["not deterministic"]),
    ("current_user() = 'a'", ["session"]),
    ("input_file_name() = 'a'", ["source.uri"]),
    ("Java_Method('a', 'b') = 'c'", ["Java_Method", "Java"]),
    ("get_json_object(metadata, '$.a') = 'b'", ["json(payload, '$.path')"]),
    ("frobnicate(type) = 'a'", ["frobnicate", "no function taken", "date_trunc"]),
    ("int(type) = 1", ["CAST"]),
    ("lower(type, type) = 'a'", ["arguments"]),
    ("concat() = 'a'", ["arguments"]),
    ("json(payload) = 'a'", ["arguments"]),
    ("type = NULL", ["IS NULL"]),
    ("type IN ('a', NULL)", ["NULL"]),
    ("type IN ('a', category)", ["`category`", "no literal"]),
    ("payload = 'a'", ["bytes", "CAST"]),
    ("payload LIKE 'a'", ["bytes", "CAST"]),
    ("lower(retries) = 'a'", ["number", "CAST"]),
    ("retries = '1'", ["without quotes"]),
    ("sequence_end = 1", ["number", "condition"]),
    ("time > 1", ["number"]),
    ("headers = headers", ["map"]),
    ("headers[1] = 'a'", ["headers['x']"]),
    ("type['a'] = 'a'", ["headers['x']"]),
    ("time > '2026-13-01'", ["'2026-13-01'", "month"]),
    ("time > 'yesterday'", ["no time"]),
    ("time > '0001-01-01T00:00:00+01:00'", ["no time"]),
    ("date '2026-1-1' < time", ["no date"]),
    ("time - time > interval 1 month", ["WEEK, DAY, HOUR"]),
    ("time - time > interval 99999999 weeks", ["interval"]),
    ("retries > 9223372036854775808", ["64 bits"]),
    ("retries > 1e999", ["double"]),
    ("retries > 1234567890123456789012345678901234567890.5", ["38 digits"]),
    ("payload = X'0'", ["bytes"]),
    ("payload = 0x1f", ["0x1f", "X'00ff'"]),
    (r"type = '\ud800'", ["surrogate"]),
    (r"type = '\U00110000'", ["Unicode"]),
    ("type = 'a' 'b'", ["join with ||"]),
    ("type = 'a", ["no SQL expression"]),
    ("type = 'a\0'", ["NUL"]),
    ("type = 'a\ud800'", ["surrogate"]),
    ("date_trunc('eon', time) = time", ["one of", "'HOUR'"]),
    ("date_trunc('day', to_timestamp(type)) = time", ["column"]),
    ("date_trunc(type, time) = time", ["literal"]),
    ("round(retries, retries) = 1", ["literal"]),
    (r"type LIKE 'a\\'", ["pattern"]),
    (r"type LIKE 'a\\b'", ["pattern"]),
    ("type LIKE 'a!b' ESCAPE '!'", ["pattern"]),
    ("type LIKE 'a' ESCAPE 'ab'", ["one character"]),
    ("type RLIKE '['", ["not closed"]),
    ("type RLIKE '[[a]'", ["character class"]),
    ("type RLIKE '[a&&b]'", ["character class"]),
    ("type RLIKE 'a{'", ["brace"]),
    ("type RLIKE '(?<n>a)'", ["group"]),
    ("type RLIKE '(a'", ["no regular expression"]),
    ("type RLIKE 'a**'", ["no regular expression"]),
    (r"type RLIKE '\\p{L}'", ["escape"]),
    (f"type RLIKE '{'a' * 600}'", ["512"]),
    ("json(type, '$.a') = 'b'", ["`type`", "metadata, payload, result"]),
    ("json(lower(metadata), '$.a') = 'b'", ["JSON column"]),
    ("json(payload, type) = 'b'", ["path in quotes"]),
    ("json(payload, '$.*') = 'b'", ["path", "wildcards"]),
    ("json(payload, '$..a') = 'b'", ["path"]),
    ("json(payload, '$[?(@.a)]') = 'b'", ["path"]),
    ("json(payload, '$[-1]') = 'b'", ["path"]),
    ("json(payload, 'a') = 'b'", ["path"]),
    ("json(payload, '$.é') = 'b'", ["path"]),
    ("json(payload, '$[\u0663]') = 'b'", ["path"]),
    ("json(payload, '$[9999999999]') = 'b'", ["path"]),
    ("json(payload, '$.a ') = 'b'", ["path"]),
    ("transform(map_keys(headers), x -> x) IS NULL", ["`->`", "lambda"]),
    ("retries DIV 2 = 1", ["floor(a / b)"]),
    ("CAST(headers AS STRING) = 'a'", ["map"]),
    ("CAST(payload AS INT) = 1", ["bytes"]),
    ("true -- x", ["comment"]),
    ("true;", ["`;`", "character 5", "no statement"]),
    ("payload_size > ?", ["parameters"]),
    ("type = '" + "a" * 4096 + "'", ["4096"]),
    ("1=1 " + "OR 1=1 " * 500, ["words and signs"]),
    ("(" * 100 + "true" + ")" * 100, ["too deeply"]),
    ("NOT " * 1000 + "true", ["too deeply"]),
    ("1" + "+1" * 100 + " > 1", ["too deeply"]),
    ("retries > int(" * 30 + "1" + ")" * 30, ["too deeply"]),
]


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_a_refusal_says_what_and_why(text: str, words: list[str]) -> None:
    with pytest.raises(PredicateError) as caught:
        compile_predicate(text)
    message = str(caught.value)
    assert [word for word in words if word not in message] == []
    assert len(message) < 2000


def test_all_refusals_come_at_once() -> None:
    with pytest.raises(PredicateError) as caught:
        compile_predicate("now() > time AND streamName = 'a' OR reflect('a') = 'b'")
    assert [refusal.part for refusal in caught.value.refusals] == ["now()", "streamName", "reflect('a')"]
    assert [refusal.position for refusal in caught.value.refusals] == [1, 18, 38]


def test_nested_type_names_take_no_time() -> None:
    with pytest.raises(PredicateError, match="CAST"):
        compile_predicate("int(" * 20 + "1" + ")" * 20 + " = 1")


@pytest.mark.parametrize("name", ["position", "global_position", "retries", "inserted_at", "globalPosition"])
def test_the_filter_says_what_is_not_known_yet(name: str) -> None:
    with pytest.raises(PredicateError, match="not known yet when a message arrives"):
        compile_predicate(f"{name} IS NULL", FILTER_COLUMNS)


def test_a_redrive_has_no_columns_of_messages() -> None:
    with pytest.raises(PredicateError, match="in dead letters"):
        compile_predicate("payload_size > 1", DEAD_LETTER_COLUMNS)
    with pytest.raises(PredicateError, match="json\\(\\) reads raw"):
        compile_predicate("json(detail, '$.a') = 'b'", DEAD_LETTER_COLUMNS)
