"""Text between quotes reaches Spark unchanged."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from messagestore_core.predicate import compile_predicate
from messagestore_core.predicate.spark import condition
from messagestore_jobs.session import PARSING
from support.sparksql import write_string

pytestmark = pytest.mark.usefixtures("compiled")

TEXTS = [
    "${env:HOME}",
    "${spark.master}",
    "${system:user.dir}",
    "${hiveconf:spark.master}",
    "$${spark.master}}",
    "${spark.master",
    "$(HOME)",
    "$",
    "\\$",
    "\\u0024{spark.master}",
    "\\",
    "'",
    '"',
    "`",
    "it's",
    "a\\%b",
    "\0\b\n\r\t\x1a\x7f",
    "\\n\\101\\x41",
    "-- /* */ /*+ */ ; :x ? @v1 {fn now()}",
    "\u00e9\u202e\u200b\ufeff\U0001f600",
]


@pytest.fixture
def substituting(spark: SparkSession) -> SparkSession:
    """A session with Spark's defaults, which replaces ${…}."""
    session = spark.newSession()
    for name in PARSING:
        session.conf.unset(name)
    session.conf.set("spark.sql.variable.substitute", "true")
    return session


def records(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(text, {text: "there"}) for text in TEXTS], "type string, headers map<string,string>")


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_means_itself_even_where_spark_replaces_variables(substituting: SparkSession, text: str) -> None:
    literal = write_string(text)
    predicate = compile_predicate(f"type = {literal} AND headers[{literal}] = 'there'")
    taken = records(substituting).where(condition(predicate)).select("type").collect()
    assert [row.type for row in taken] == [text]


@pytest.mark.parametrize("pattern", ["${env:HOME}%", "${spark.master}", "%${system:user.dir}%"])
def test_a_pattern_means_itself(substituting: SparkSession, pattern: str) -> None:
    predicate = compile_predicate(f"type LIKE '{pattern}'")
    taken = records(substituting).where(condition(predicate)).select("type").collect()
    assert [row.type for row in taken] == [pattern.replace("%", "")]


def test_a_name_in_json_means_itself(substituting: SparkSession) -> None:
    predicate = compile_predicate("json(payload, '$[\\'${spark.master}\\']') = 'there'")
    row = substituting.createDataFrame([(b'{"${spark.master}": "there"}',)], "payload binary")
    assert row.where(condition(predicate)).count() == 1


def test_sessions_of_runs_replace_no_variables(spark: SparkSession) -> None:
    assert {name: spark.conf.get(name) for name in PARSING} == PARSING
    assert spark.sql("SELECT '${env:HOME}' AS text").first().text == "${env:HOME}"
