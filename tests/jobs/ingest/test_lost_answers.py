"""A commit went through and its answer got lost: what holds is what the table says."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from messagestore_jobs.store.history import last_note
from support.external_writes import observing
from support.ingests import START, Stream, lines, record


def losing_the_first_answer(write: str, meanwhile: Callable[[], object]) -> Callable[[str, str], None]:
    """Observes a run: its first write of this name happens, then something else does, and then the write fails."""
    answers = iter([True])

    def observer(name: str, moment: str) -> None:
        if (name, moment) == (write, "after") and next(answers, False):
            meanwhile()
            raise PySparkException("connection reset by peer")

    return observer


@pytest.mark.parametrize("gone", [True, False], ids=["and a file of the batch is gone", "and its files are there"])
def test_a_batch_that_is_in_the_table_is_not_taken_in_again(spark: SparkSession, tmp_path: Path, gone: bool) -> None:
    stream = Stream(spark, tmp_path, {"max_files_per_batch": 2})
    first = stream.arrive("a.jsonl", lines(record("m1"), record("m2", streamName="other-1")))
    stream.arrive("b.jsonl", lines(b"garbage"))
    stream.arrive("c.jsonl", lines(record("m1"), record("m3"), record("m4", streamName="other-1")))

    with observing(losing_the_first_answer("messages", first.unlink if gone else lambda: None)):
        outcome = stream.run()

    rows = stream.messages()
    assert [row["message_id"] for row in rows] == ["m1", "m2", "m3", "m4"]
    assert [row["global_position"] for row in rows] == [1, 2, 3, 4]
    assert [(row["stream_name"], row["position"]) for row in rows if row["stream_name"] == "other-1"] == [
        ("other-1", 0),
        ("other-1", 1),
    ]
    assert outcome.counts.model_dump(exclude={"filtered", "discarded", "unknown_fields"}) == {
        "received": 6,
        "stored": 4,
        "duplicates": 1,
        "dead_lettered": 1,
    }
    assert last_note(stream.table.uri).totals == outcome.totals
    assert outcome.batches == 2
    assert stream.run(at=START).batches == 0


def test_a_plan_whose_answer_got_lost_is_carried_out_by_the_next_run(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, {"max_files_per_batch": 1})
    stream.arrive("a.jsonl", lines(record("m1")))
    stream.arrive("b.jsonl", lines(record("m2")))

    with observing(losing_the_first_answer("plan", lambda: None)), pytest.raises(PySparkException):
        stream.run()
    outcome = stream.run()

    assert stream.ids() == ["m1", "m2"]
    assert outcome.counts.received == 2
