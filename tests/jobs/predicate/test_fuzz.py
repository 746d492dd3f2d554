"""The plan of an accepted predicate has only allowed expressions, both as columns and by Spark's own parser.

MESSAGESTORE_FUZZ and MESSAGESTORE_FUZZ_SEED choose how many predicates, and which (`make fuzz`).
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core.predicate import MESSAGE_COLUMNS, Kind, Predicate, PredicateError, compile_predicate
from messagestore_core.predicate.expression import Call, Expression, Literal
from messagestore_core.predicate.spark import condition, failure
from messagestore_jobs.session import PARSING
from support.predicates import Predicates
from support.sparksql import sql

pytestmark = pytest.mark.usefixtures("compiled")

COUNT = int(os.environ.get("MESSAGESTORE_FUZZ", "800"))
SEED = int(os.environ.get("MESSAGESTORE_FUZZ_SEED", "16"))
AT_ONCE = 40

TYPES = {
    Kind.BOOLEAN: "boolean",
    Kind.NUMBER: "bigint",
    Kind.TEXT: "string",
    Kind.BINARY: "binary",
    Kind.TIMESTAMP: "timestamp",
    Kind.MAP: "map<string,string>",
    Kind.STRUCT: "struct<kind: string, uri: string, partition: bigint, offset: bigint>",
}

CLASSES = """
    Alias AttributeReference Literal Project LogicalRDD GetStructField GetMapValue Cast
    And Or Not IsNull IsNotNull EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual In Between
    Coalesce Like Lower Upper Length StringTrim Concat Substring Left Right Contains StartsWith EndsWith
    TryAdd TrySubtract TryMultiply TryDivide TryMod Add Subtract Multiply Divide Remainder TryEval Abs Round Floor Ceil
    MakeDTInterval TimestampAddInterval DatetimeSub UnaryMinus SubtractTimestamps
    Invoke With CommonExpressionDef CommonExpressionRef
"""
MAY_RUN = frozenset(CLASSES.split())


@dataclass
class Plan:
    """The contents of an analysed plan."""

    classes: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    invoked: set[str] = field(default_factory=set)

    def read(self, node: Any) -> None:
        """Read a plan in Spark's JSON."""
        if isinstance(node, list):
            for item in node:
                self.read(item)
        elif isinstance(node, dict):
            name = str(node.get("class", "")).rpartition(".")[2]
            self.classes |= {name} if name else set()
            if name == "Literal" and node.get("dataType") == "string" and node.get("value") is not None:
                self.texts.add(node["value"])
            if "functionName" in node:
                self.invoked.add(node["functionName"])
            for item in node.values():
                self.read(item)


def literals(expression: Expression, *kinds: Kind) -> Iterator[str]:
    """Every literal of these kinds in a checked predicate, as written."""
    match expression:
        case Literal(str(value), kind) if kind in kinds:
            yield value
        case Call(_, parts):
            for part in parts:
                yield from literals(part, *kinds)


def analysed(rows: DataFrame, columns: list[Column]) -> Plan:
    plan = Plan()
    query = rows.select(*columns)._jdf.queryExecution()
    plan.read(json.loads(query.analyzed().toJSON()))
    return plan


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """An empty table of messages, in a session with Spark's defaults."""
    session = spark.newSession()
    for name in PARSING:
        session.conf.unset(name)
    session.conf.set("spark.sql.variable.substitute", "true")
    # The caches of Spark's parser fill the heap after 20,000 different texts.
    session.conf.set("spark.sql.parser.manageParserCaches", "true")
    session.conf.set("spark.sql.parser.parserDfaCacheFlushThreshold", "20000")
    schema = ", ".join(f"`{name}` {TYPES[kind]}" for name, kind in MESSAGE_COLUMNS.kinds.items())
    return session.createDataFrame([], schema)


def taken(count: int, seed: int) -> list[Predicate]:
    source = Predicates(Random(seed))
    found = []
    for _ in range(count):
        text = source.one()
        try:
            found.append(compile_predicate(text))
        except PredicateError:
            continue
    return found


def test_nothing_but_the_allow_list_is_in_the_plan(
    rows: DataFrame, record_testsuite_property: Callable[[str, object], None]
) -> None:
    record_testsuite_property("seed", SEED)
    found = taken(COUNT, SEED)
    assert len(found) > COUNT / 5, SEED
    for start in range(0, len(found), AT_ONCE):
        check(rows, found[start : start + AT_ONCE])


def check(rows: DataFrame, some: list[Predicate]) -> None:
    expressions = [e for predicate in some for e in (predicate.condition, predicate.failure)]
    written = {text for expression in expressions for text in literals(expression, Kind.TEXT)}
    moments = {text for expression in expressions for text in literals(expression, Kind.TIMESTAMP)}
    columns = [column for predicate in some for column in (condition(predicate), failure(predicate))]
    try:
        for plan in (analysed(rows, columns), analysed(rows, [F.expr(sql(e)) for e in expressions])):
            assert plan.classes - MAY_RUN == set()
            assert plan.invoked - {"invoke"} == set()
            assert written - plan.texts == set()
            assert plan.texts - written - moments == set()
    except Exception as error:
        if len(some) == 1:
            raise AssertionError(f"seed {SEED}: {some[0].text!r}: {error}") from error
        for predicate in some:
            check(rows, [predicate])
        raise
