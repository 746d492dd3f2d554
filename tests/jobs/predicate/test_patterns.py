"""LIKE and RLIKE: their meaning, and that no text makes them slow or lets a run fail."""

import re
from time import monotonic

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from messagestore_core.predicate import compile_predicate
from messagestore_core.predicate.conditions import check_regex, escape_like
from messagestore_core.predicate.spark import condition
from support.sparksql import write_string
from support.waiting import scaled

pytestmark = pytest.mark.usefixtures("compiled")

LONG = 100_000

HOSTILE = [
    "type RLIKE '^(?:a|b)*$'",
    "type RLIKE '^(a+)+x$'",
    "type RLIKE '(a*)*x'",
    "type RLIKE '(a|aa)+$x'",
    "type RLIKE '(.*)(.*)(.*)(.*)(.*)x'",
    "type RLIKE '(?:(?:a{20}){10}){3}x'",
    f"type LIKE '{'%a' * 200}%b'",
    f"type LIKE '{'%_' * 200}%b'",
    f"type LIKE '{'%a_' * 100}b'",
    f"type ILIKE '{'%A' * 200}%b'",
    f"type ILIKE '{'_' * 500}%b'",
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


def test_what_the_jdk_overflows_on_is_told(spark: SparkSession) -> None:
    assert holds(spark, "type RLIKE '^(?:a|b)*$'", "ab" * LONG, "ab" * LONG + "c") == [True, False]


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
        ("type ILIKE 'A_%É%'", "axyé", "axye"),
        ("type ILIKE 'É%'", "éa", "ea"),
        ("type LIKE '%\n_'", "\n\n", "\n"),
    ],
)
def test_like(spark: SparkSession, text: str, matching: str, other: str | None) -> None:
    assert holds(spark, text, matching, other, None) == [True, None if other is None else False, None]


PARTS = r"""
    a b ab . * + ? {2} {2,} {1,3} *? +? ?? (?: ( ) | ^ $ \d \D \w \W \s \S \b \B \t \n \r \f \. \\ \-
    [ab] [^ab] [a-c] [\d.] [\]] []a] [^]a] [a-] [-a] [.] [*] (?i) (?s) (?m) (?im) é - ] , # / ~ & " '
    \{ \} \# [\w-] [!-~] )* () [é-ü]
"""
PATTERNS = st.lists(st.sampled_from(PARTS.split()), max_size=8).map("".join)


@given(PATTERNS | st.text(max_size=10))
@example("(?:a{1000}){3}")
@example("(" * 100 + "a" + ")" * 100)
@example("^*")
@example("a{0}")
@example("[\\f\\n]")
@settings(max_examples=1500, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much])
def test_what_the_check_takes_re2_takes(spark: SparkSession, pattern: str) -> None:
    try:
        check_regex(pattern)
    except ValueError:
        return
    try:
        spark._jvm.com.google.re2j.Pattern.compile(pattern)  # type: ignore[union-attr]
    except Py4JJavaError as error:
        pytest.fail(f"{pattern!r}: {error.java_exception.getMessage()}")


@given(st.text("ab%_\\.\n", max_size=8), st.text("ab%_\\.\n", max_size=10))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_our_like_is_sqls(spark: SparkSession, pattern: str, text: str) -> None:
    try:
        escaped = escape_like(pattern, "\\")
    except ValueError:
        return
    tokens = re.findall(r"\\.|[^\\]", escaped, re.DOTALL)
    meant = "".join({"%": ".*", "_": "."}.get(token) or re.escape(token[-1]) for token in tokens)
    like = F.call_function("messagestore.like", F.lit(text), F.lit(escaped))
    assert spark.range(1).select(like).first()[0] == (re.fullmatch(meant, text, re.DOTALL) is not None)  # type: ignore[index]


def test_a_literal_of_any_pattern_is_what_it_was(spark: SparkSession) -> None:
    pattern = "^\\$\\{spark\\.master\\}$"
    assert holds(spark, f"type RLIKE {write_string(pattern)}", "${spark.master}", "local") == [True, False]
