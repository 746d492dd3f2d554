import pytest

from messagestore_core.predicate import DEAD_LETTER_COLUMNS, FILTER_COLUMNS, MESSAGE_COLUMNS, compile_predicate
from messagestore_core.predicate.expression import FALSE
from support.sparksql import own
from support.sparksql import sql as written

NO_JSON = "((`payload` IS NOT NULL) AND (NOT messagestore.is_json(`payload`)))"
JSON_A = r"messagestore.json_text(`payload`, '\u0024.a')"

ACCEPTED = [
    ("payload_size > 2", "(`payload_size` > 2)"),
    ("PAYLOAD_SIZE>2", "(`payload_size` > 2)"),
    ("`type` = 'a'", "(`type` = 'a')"),
    ("type != 'a'", "(`type` <> 'a')"),
    ("sequence_end", "`sequence_end`"),
    ("true", "true"),
    # precedence becomes explicit
    (
        "type = 'a' OR type = 'b' AND NOT retries = 1 + 2 * 3",
        "((`type` = 'a') OR ((`type` = 'b') AND (NOT (`retries` = try_add(1, try_multiply(2, 3))))))",
    ),
    (
        "type = 'a' and (type = 'b' or type = 'c') and sequence_end",
        "((`type` = 'a') AND ((`type` = 'b') OR (`type` = 'c')) AND `sequence_end`)",
    ),
    ("not sequence_end = true", "(NOT (`sequence_end` = true))"),
    ("retries - 1 - 1 = -1", "(try_subtract(try_subtract(`retries`, 1), 1) = -1)"),
    ("reply_to is null", "(`reply_to` IS NULL)"),
    ("reply_to is not null", "(NOT (`reply_to` IS NULL))"),
    ("retries between -1 and 2", "(`retries` BETWEEN -1 AND 2)"),
    ("retries between 1 and 2 and true", "((`retries` BETWEEN 1 AND 2) AND true)"),
    ("retries not between 1 and 2", "(NOT (`retries` BETWEEN 1 AND 2))"),
    ("status not in ('A', 'B')", "(NOT (`status` IN ('A', 'B')))"),
    # maps and structs
    ("headers['X-a'] = 'b'", "(`headers`['X-a'] = 'b')"),
    ('headers [ "X-a" ] is null', "(`headers`['X-a'] IS NULL)"),
    ("Source.URI like '%.json' and source.offset > 1", "((`source`.`uri` LIKE '%.json') AND (`source`.`offset` > 1))"),
    ("source is null", "(`source` IS NULL)"),
    # strings
    ("type = 'it''s'", r"(`type` = 'it\'s')"),
    (r"type = 'it\'s'", r"(`type` = 'it\'s')"),
    (r"type = 'a\\''b'", r"(`type` = 'a\\\'b')"),
    ('type = "say ""a"""', "(`type` = 'say \"a\"')"),
    (r"type = 'a\\b\n\u00e9\U0001f600\101\x'", r"(`type` = 'a\\b\né😀Ax')".replace(r"\n", r"\u000a")),
    ("type = '\u202e\u200b'", r"(`type` = '\u202e\u200b')"),
    (r"type like 'a\%b'", r"messagestore.like(`type`, 'a\\%b')"),
    ("type like 'a!%b' escape '!'", r"messagestore.like(`type`, 'a\\%b')"),
    ("type not like 'a%'", "(NOT (`type` LIKE 'a%'))"),
    ("Lower(type) like 'a%'", "(lower(`type`) LIKE 'a%')"),
    # times
    ("time >= '2026-01-05'", "(`time` >= TIMESTAMP '2026-01-05T00:00:00Z')"),
    ("time < timestamp '2026-01-05T02:00:00.5+02:00'", "(`time` < TIMESTAMP '2026-01-05T00:00:00.500000Z')"),
    ("expires_at - time > interval 2 weeks", "(try_subtract(`expires_at`, `time`) > INTERVAL '14' DAY)"),
    ("time + interval '1' hour > inserted_at", "(try_add(`time`, INTERVAL '1' HOUR) > `inserted_at`)"),
    # values
    ("retries in (-9223372036854775808, 1.50, 1e3)", "(`retries` IN (-9223372036854775808, 1.50, 1e3))"),
    ("coalesce(headers['x'], type, '') = ''", "(coalesce(`headers`['x'], `type`, '') = '')"),
    ("string(retries) = '1'", "(TRY_CAST(`retries` AS STRING) = '1')"),
    ("round(retries) = 0", "(round(`retries`) = 0)"),
    ("substring(type, 2) = 'b'", "(substring(`type`, 2) = 'b')"),
    ("left(type, 1) = right(type, 1)", "(left(`type`, 1) = right(`type`, 1))"),
    ("concat('a', type, 'b') = 'c'", "(concat('a', `type`, 'b') = 'c')"),
    ("startswith(type, 'a') and not contains(type, 'b')", "(startswith(`type`, 'a') AND (NOT contains(`type`, 'b')))"),
]


@pytest.mark.parametrize(("text", "sql"), ACCEPTED)
def test_sql_is_written_anew(text: str, sql: str) -> None:
    predicate = compile_predicate(text)
    assert predicate.text == text
    assert written(predicate.condition) == sql
    assert compile_predicate(own(predicate.condition)).condition == predicate.condition


def test_json_becomes_a_function_of_the_store() -> None:
    predicate = compile_predicate("json(payload, '$.a[0][\\'b c\\']') = 'x' AND JSON(metadata, '$') IS NOT NULL")
    assert written(predicate.condition) == (
        r"((messagestore.json_text(`payload`, '\u0024.a[0][\'b c\']') = 'x')"
        r" AND (NOT (messagestore.json_text(`metadata`, '\u0024') IS NULL)))"
    )
    assert predicate.columns == {"payload", "metadata"}


FALLIBLE = [
    ("int(metadata) = 1", "((`metadata` IS NOT NULL) AND (TRY_CAST(`metadata` AS BIGINT) IS NULL))"),
    ("metadata = 1", "((`metadata` IS NOT NULL) AND (TRY_CAST(`metadata` AS DECIMAL(38, 18)) IS NULL))"),
    ("metadata < time", "((`metadata` IS NOT NULL) AND (TRY_CAST(`metadata` AS TIMESTAMP) IS NULL))"),
    (
        "payload_size / retries > 1",
        "((`payload_size` IS NOT NULL) AND (`retries` IS NOT NULL)"
        " AND (try_divide(`payload_size`, `retries`) IS NULL))",
    ),
    ("retries % 0 = 1", "((`retries` IS NOT NULL) AND (try_mod(`retries`, 0) IS NULL))"),
    ("-retries > 1", "((`retries` IS NOT NULL) AND (try_subtract(0, `retries`) IS NULL))"),
    ("json(payload, '$.a') = 'x'", NO_JSON),
    (
        "bool(json(payload, '$.a'))",
        f"({NO_JSON} OR (({JSON_A} IS NOT NULL) AND (TRY_CAST({JSON_A} AS BOOLEAN) IS NULL)))",
    ),
]


@pytest.mark.parametrize(("text", "failures"), FALLIBLE)
def test_failure_is_a_null_with_a_cause(text: str, failures: str) -> None:
    predicate = compile_predicate(text)
    assert written(predicate.failure) == f"(({written(predicate.condition)} IS NULL) AND {failures})"


@pytest.mark.parametrize(
    "text", ["type = 'a'", "headers['x'] = 'a'", "string(retries) = '1'", "string(payload) LIKE 'a%'"]
)
def test_a_predicate_that_cannot_fail_has_no_failure_condition(text: str) -> None:
    assert written(compile_predicate(text).failure) == "false"


@pytest.mark.parametrize(
    ("path", "literal"),
    [
        ("$", r"'\u0024'"),
        ("$.a-b._c[0]", r"'\u0024.a-b._c[0]'"),
        (r"$[\'é x\']", r"'\u0024[\'é x\']'"),
        (r"$[\'it\\\'s\']", r"'\u0024[\'it\\\'s\']'"),
    ],
)
def test_a_json_path_becomes_a_list_of_steps(path: str, literal: str) -> None:
    sql = written(compile_predicate(f"json(payload, '{path}') IS NULL").condition)
    assert sql == f"(messagestore.json_text(`payload`, {literal}) IS NULL)"


def test_a_failure_is_named_once() -> None:
    predicate = compile_predicate("json(payload, '$.a') = 'x' OR json(payload, '$.b') = 'y'")
    assert written(predicate.failure).count("is_json") == 1


def test_columns_are_canonical() -> None:
    predicate = compile_predicate("TYPE = 'a' AND headers['x'] = source.uri AND retries > 1")
    assert written(predicate.condition) == (
        "((`type` = 'a') AND (`headers`['x'] = `source`.`uri`) AND (`retries` > 1))"
    )
    assert predicate.failure == FALSE
    assert predicate.columns == {"type", "headers", "source", "retries"}


def test_every_column_can_be_read() -> None:
    for columns in (MESSAGE_COLUMNS, FILTER_COLUMNS, DEAD_LETTER_COLUMNS):
        for name in columns.kinds:
            assert compile_predicate(f"{name} IS NULL", columns).columns == {name}


def test_dead_letters_have_columns_of_their_own() -> None:
    predicate = compile_predicate("reason = 'Unparseable' AND json(raw, '$.id') = '1'", DEAD_LETTER_COLUMNS)
    assert predicate.columns == {"reason", "raw"}
    assert r"messagestore.json_text(`raw`, '\u0024.id')" in written(predicate.condition)


def test_a_long_chain_is_not_deep() -> None:
    text = " OR ".join(f"type='{number}'" for number in range(300))
    assert written(compile_predicate(text).condition).count(" OR ") == 299
