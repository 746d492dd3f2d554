"""LIKE: its meaning, and that no text makes it slow."""

import re
from time import monotonic

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from messagestore_core.predicate import compile_predicate
from messagestore_core.predicate.literals import escape_like
from messagestore_core.predicate.spark import condition
from support.waiting import scaled

pytestmark = pytest.mark.usefixtures("compiled")

LONG = 100_000

HOSTILE = [
    f"type LIKE '{'%a' * 200}%b'",
    f"type LIKE '{'%_' * 200}%b'",
    f"type LIKE '{'%a_' * 100}b'",
    f"lower(type) LIKE '{'_' * 500}%b'",
]


def holds(spark: SparkSession, text: str, *values: str | None) -> list[bool | None]:
    rows = spark.createDataFrame([(value,) for value in values], "type string")
    return [row[0] for row in rows.select(condition(compile_predicate(text))).collect()]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_long_text_is_judged_in_time(spark: SparkSession, text: str) -> None:
    holds(spark, text, "a")
    start = monotonic()
    holds(spark, text, "a" * LONG)
    assert monotonic() - start < scaled(30)


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("type LIKE 'a%'", "abc", "ba"),
        ("type LIKE '%a'", "ba", "ab"),
        ("type LIKE '%a%'", "bab", "b"),
        ("type LIKE 'a%b'", "ab", "a"),
        ("type LIKE 'ab'", "ab", "abc"),
        ("type LIKE '%'", "", None),
        ("type LIKE ''", "", "a"),
        ("type LIKE '_'", "\U0001f600", "ab"),
        ("type LIKE 'a_%_b'", "axyb", "axb"),
        ("type LIKE '%ab%ab'", "abab", "aba"),
        ("type LIKE '%a%b%c%'", "xaxbxcx", "xaxcxbx"),
        ("type LIKE 'a\\\\%b%'", "a%bc", "axbc"),
        ("type LIKE 'a!_!!%b%' ESCAPE '!'", "a_!xb", "ax!b"),
        ("lower(type) LIKE 'é%'", "Éa", "Ea"),
        ("type LIKE 'a%'", "ab", "Ab"),
        ("type LIKE '%\n_'", "\n\n", "\n"),
    ],
)
def test_a_like_pattern_matches_as_in_sql(spark: SparkSession, text: str, matching: str, other: str | None) -> None:
    assert holds(spark, text, matching, other, None) == [True, None if other is None else False, None]


@given(st.text("ab%_\\.\n", max_size=8), st.text("ab%_\\.\n", max_size=10))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_like_patterns_match_as_in_sql(spark: SparkSession, pattern: str, text: str) -> None:
    try:
        escaped = escape_like(pattern, "\\")
    except ValueError:
        return
    tokens = re.findall(r"\\.|[^\\]", escaped, re.DOTALL)
    meant = "".join({"%": ".*", "_": "."}.get(token) or re.escape(token[-1]) for token in tokens)
    like = F.call_function("messagestore.like", F.lit(text), F.lit(escaped))
    assert spark.range(1).select(like).first()[0] == (re.fullmatch(meant, text, re.DOTALL) is not None)
