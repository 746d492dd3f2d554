"""Message sequences: contradicting sizes, and what is known of incomplete sequences."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import Memory, SequenceState
from support.ingests import START, Stream, adds_up, lines, record
from support.long import few

MEMORY = {"in memory": Memory(), "looked up": Memory(index_bytes=0)}


@pytest.fixture(params=few(MEMORY, "looked up"))
def stream(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Stream:
    return Stream(spark, tmp_path, {"memory": MEMORY[request.param]})


def member(message_id: str, sequence: str, number: int, **fields: Any) -> bytes:
    return record(message_id, sequenceId=sequence, sequenceNumber=number, **fields)


def test_a_size_that_contradicts_an_earlier_one_is_an_invalid_field_in_any_batch(stream: Stream) -> None:
    stream.arrive("a.jsonl", lines(member("m1", "s", 1, sequenceSize=3), member("m2", "s", 2, sequenceSize=4)))
    outcome = stream.run()
    assert adds_up(outcome.counts)
    stream.arrive("b.jsonl", lines(member("m3", "s", 2, sequenceEnd=True), member("m4", "t", 5), member("m5", "s", 2)))
    stream.arrive("c.jsonl", lines(member("m6", "s", 4), member("m7", "t", 1, sequenceSize=2)))
    outcome = stream.run(max_files_per_batch=1)
    assert adds_up(outcome.counts)
    assert stream.ids() == ["m1", "m4", "m5"]
    assert [row["reason"] for row in stream.dead_letters()] == ["InvalidField"] * 4
    assert [row["detail"] for row in stream.dead_letters()] == [
        "the size of sequence s is 4 by this record and 3 by an earlier one",
        "the size of sequence s is 2 by this record and 3 by an earlier one",
        "sequenceNumber 4 lies past the size of sequence s, 3 by an earlier record",
        "the size of sequence t is 2 by this record, and an earlier one has number 5",
    ]


def test_a_record_that_contradicts_itself_is_an_invalid_field(stream: Stream) -> None:
    stream.arrive(
        "a.jsonl",
        lines(member("m1", "s", 4, sequenceSize=3), member("m2", "s", 2, sequenceSize=3, sequenceEnd=True)),
    )
    stream.run()
    assert [row["detail"] for row in stream.dead_letters()] == [
        "sequenceNumber is larger than sequenceSize",
        "sequenceEnd stands on a record that is not the last of its sequenceSize",
    ]


def test_incomplete_sequences_are_told_with_the_oldest(stream: Stream) -> None:
    stream.arrive("a.jsonl", lines(record("m0")))
    assert stream.run().sequences is None

    def at(minutes: int) -> str:
        return (START - timedelta(minutes=minutes)).isoformat()

    stream.arrive(
        "b.jsonl",
        lines(
            member("m1", "whole", 2, sequenceEnd=True, time=at(50)),
            member("m2", "whole", 1, time=at(60)),
            member("m3", "twice", 1, sequenceSize=2, time=at(30)),
            member("m4", "twice", 1, time=at(20)),
            member("m5", "endless", 1, time=at(40)),
            member("m6", "endless", 2, time=at(10)),
        ),
    )
    outcome = stream.run(sequence_timeout=timedelta(minutes=35))
    assert outcome.sequences == SequenceState(
        incomplete=2, overdue=1, oldest_time=START - timedelta(minutes=40), oldest_id="endless"
    )
    stream.arrive("c.jsonl", lines(member("m7", "twice", 2), member("m8", "endless", 3, sequenceEnd=True)))
    assert stream.run().sequences == SequenceState(incomplete=0)
