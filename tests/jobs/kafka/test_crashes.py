"""SIGKILL of an ingest from Kafka and its JVM; after the next run the store is that of an uninterrupted run."""

from collections.abc import Callable

from support.crash import crash_run
from support.ingests import positions_have_no_gap, record
from support.kafkastreams import KafkaStream
from support.kafkatopics import Record, Topics

KILLS = [("plan", "after", 2), ("messages", "within", 1)]


def test_each_record_ends_in_one_place_wherever_a_run_is_killed(
    topics: Topics, stream_of: Callable[..., KafkaStream]
) -> None:
    name = topics.make(partitions=2)
    for n in range(6):
        topics.send(name, Record(record(f"m{n}"), partition=n % 2), Record(f"bad {n}".encode(), partition=n % 2))
    stream = stream_of(name, max_records_per_batch=4)
    for write, moment, nth in KILLS:
        crash_run(stream.spark, stream.document(), write, moment, nth)
    totals = stream.run().totals
    assert (totals.received, totals.stored, totals.dead_lettered, totals.duplicates) == (12, 6, 6, 0)
    assert sorted(stream.ids()) == [f"m{n}" for n in range(6)]
    assert sorted(raw for _, raw in stream.set_aside()) == sorted(f"bad {n}".encode() for n in range(6))
    assert positions_have_no_gap(stream.messages())
