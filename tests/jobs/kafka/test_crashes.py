"""An ingest from Kafka is cut off; after the next run the store is that of an uninterrupted run."""

from collections.abc import Callable

import pytest

from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.contract.records import Filter
from support.crash import crash_run
from support.external_writes import observing
from support.ingests import positions_have_no_gap, record
from support.kafkastreams import KafkaStream
from support.kafkatopics import Record, Topics
from support.long import few
from support.purges import CrashError

KILLS = [("plan", "after", 2), ("messages", "within", 1)]
KILLED = {"once": KILLS[:1], "again and again": KILLS}


@pytest.mark.parametrize("how", few(KILLED, "once"))
def test_each_record_ends_in_one_place_wherever_a_run_is_killed(
    topics: Topics, stream_of: Callable[..., KafkaStream], how: str
) -> None:
    name = topics.make(partitions=2)
    for n in range(6):
        topics.send(name, Record(record(f"m{n}"), partition=n % 2), Record(f"bad {n}".encode(), partition=n % 2))
    stream = stream_of(name, max_records_per_batch=4)
    for write, moment, nth in KILLED[how]:
        crash_run(stream.spark, stream.document(), write, moment, nth)
    totals = stream.run().totals
    assert (totals.received, totals.stored, totals.dead_lettered, totals.duplicates) == (12, 6, 6, 0)
    assert sorted(stream.ids()) == [f"m{n}" for n in range(6)]
    assert sorted(raw for _, raw in stream.set_aside()) == sorted(f"bad {n}".encode() for n in range(6))
    assert positions_have_no_gap(stream.messages())


def test_a_batch_that_was_cut_off_is_judged_by_the_spec_of_now_without_topics_that_it_no_longer_has(
    topics: Topics, stream_of: Callable[..., KafkaStream]
) -> None:
    kept, dropped = topics.make(), topics.make()
    topics.send(kept, b"lost", record("m0"), b"bad")
    topics.send(dropped, b"poison", record("m1"))
    stream = stream_of(kept, dropped)
    with pytest.raises(CrashError), observing(crash_before_the_commit):
        stream.run(filter=Filter(types=("other",), unmatched="DeadLetter"))
    assert len(stream.dead_letters()) == 5
    topics.remove_before(kept, 1)
    outcome = stream.run(source={"topics": (kept,)})
    assert outcome.totals == IngestCounts(received=3, stored=1, dead_lettered=2)
    assert sorted(raw for _, raw in stream.set_aside()) == [b"bad", b"lost"]
    assert outcome.loss.records == 1
    assert stream.run().counts == IngestCounts(received=2, stored=1, dead_lettered=1)


def test_a_batch_that_was_cut_off_reads_no_topic_that_was_made_again(
    topics: Topics, stream_of: Callable[..., KafkaStream]
) -> None:
    name = topics.make()
    topics.send(name, b"bad", record("m0"))
    stream = stream_of(name)
    with pytest.raises(CrashError), observing(crash_before_the_commit):
        stream.run()
    topics.delete(name)
    topics.make(name)
    topics.send(name, *(record(f"m{n}") for n in (1, 2, 3)))
    outcome = stream.run()
    assert [place[:2] for place in stream.places()] == [(f"m{n}", f"kafka:{name}@2") for n in (1, 2, 3)]
    assert (outcome.loss.records, outcome.loss.reason) == (2, "TopicDeleted")
    # What was set aside of the topic that is gone stays.
    assert outcome.totals == IngestCounts(received=4, stored=3, dead_lettered=1)


def crash_before_the_commit(name: str, moment: str) -> None:
    if (name, moment) == ("messages", "before"):
        raise CrashError(name)
