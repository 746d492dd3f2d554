"""A forged log with code that Delta would execute: no run of ours writes to such a table, and none of its code runs."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.handle import Store
from messagestore_jobs.rows.messages import read_messages, refuse_foreign_to_spark, table_to_change
from support import forgeries
from support.ingests import Stream, at_the_messages_commit, lines, record

PROPERTY = "messagestore.test.hostile"
EXPRESSION = f"reflect('java.lang.System', 'setProperty', '{PROPERTY}', 'ran')"


def ran(spark: SparkSession) -> bool:
    """Whether the JVM, both driver and executor, has evaluated the expression."""
    return spark._jvm.java.lang.System.clearProperty(PROPERTY) is not None


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    stream = Stream(spark, tmp_path)
    stream.arrive("a.jsonl", lines(record("m1")))
    # A run that may have more batches writes checksum files.
    stream.run(batch_interval=timedelta(seconds=1))
    stream.arrive("b.jsonl", lines(record("m2")))
    return stream


@pytest.fixture
def messages(stream: Stream) -> Path:
    return stream.folder / "store" / "messages"


def test_the_forged_expression_runs_where_spark_evaluates_it(spark: SparkSession) -> None:
    spark.sql(f"select {EXPRESSION}").collect()

    assert ran(spark)


def test_an_expression_in_the_log_is_not_evaluated(spark: SparkSession, stream: Stream, messages: Path) -> None:
    forgeries.commit(messages, forgeries.generated(messages, "error", EXPRESSION), forgeries.protocol(1, 4))

    with pytest.raises(TableRefusedError, match="store/messages has at version"):
        stream.run()

    assert not ran(spark)


def test_an_expression_that_comes_while_a_batch_is_under_way_is_not_evaluated(
    spark: SparkSession, stream: Stream, messages: Path
) -> None:
    forged = [forgeries.generated(messages, "error", EXPRESSION), forgeries.protocol(1, 4)]

    with (
        at_the_messages_commit(lambda: forgeries.commit(messages, *forged)),
        pytest.raises(TableRefusedError, match="store/messages has at version"),
    ):
        stream.run()

    assert not ran(spark)


def test_spark_is_asked_too_where_it_reads_another_log_than_delta_rs(
    spark: SparkSession, stream: Stream, messages: Path
) -> None:
    """Spark reads metadata from the checksum files beside the log; delta-rs does not."""
    sums = max((messages / "_delta_log").glob("*.crc"))
    action = forgeries.generated(messages, "error", EXPRESSION)["metaData"]
    forgeries.in_sums(sums, metadata=action, protocol=forgeries.protocol(1, 4)["protocol"])
    forgeries.forget_logs(spark)

    for use in (
        lambda: refuse_foreign_to_spark(spark, Store(stream.table.uri), "messages"),
        lambda: read_messages(spark, Store(stream.table.uri)),
        lambda: table_to_change(spark, Store(stream.table.uri), "messages"),
        stream.run,
    ):
        with pytest.raises(TableRefusedError, match="writers of version 4"):
            use()

    assert not ran(spark)
