"""Topics that were lost, and are put back by a replay of the records that a stream kept."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore.restored import Moved, moved_offsets
from messagestore_core.contract.purge import Match, Rule
from messagestore_core.contract.replay import ReplayOutcome, Selection
from messagestore_core.progress import Silent
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.handle import Store
from messagestore_core.store.topics import noted_topic
from messagestore_jobs.context import Run
from messagestore_jobs.replay import kafka
from messagestore_jobs.replay.job import run_replay
from messagestore_jobs.source.kafka_topics import described
from support.external_writes import observing, unheard
from support.ingests import START
from support.kafkabroker import Broker
from support.kafkastreams import KafkaStream
from support.kafkatopics import Record, Topics
from support.kept import Kept
from support.keptrecords import AS_IT_IS, FOR_EVER, as_they_came
from support.long import few
from support.purges import CrashError, erase, files_with, purge
from support.replays import AT

StreamOf = Callable[..., KafkaStream]
LATER = AT + timedelta(days=1)


def put_back(spark: SparkSession, broker: Broker, stream: KafkaStream, topic: str) -> ReplayOutcome:
    return run_replay(Run.of(as_they_came(stream.table, broker, topic, create=True), spark, Silent()))


def test_a_topic_is_made_with_the_partitions_and_the_configuration_that_it_had_last(
    spark: SparkSession, topics: Topics, broker: Broker, stream_of: StreamOf
) -> None:
    topic = topics.make(partitions=2, **FOR_EVER)
    topics.send(topic, Record(b"a", partition=1, timestamp=5))
    stream = stream_of(topic, keep_record=True)
    stream.run(envelope=AS_IT_IS)
    topics.grow(topic, 4)
    topics.change(topic, "max.message.bytes", "2000000")
    stream.run(envelope=AS_IT_IS)
    (before,) = described(spark, broker.cluster(), [topic], START)
    assert (before.partitions, before.configuration) == (4, {"retention.ms": "-1", "max.message.bytes": "2000000"})
    topics.delete(topic)
    assert put_back(spark, broker, stream, topic).complete
    (after,) = described(spark, broker.cluster(), [topic], START)
    assert after.model_copy(update={"topic_id": before.topic_id}) == before
    assert [(one.partition, one.value) for one in topics.read(topic)] == [(1, b"a")]


def test_a_topic_that_brokers_made_by_themselves_hides_nothing_that_was_noted(
    spark: SparkSession, topics: Topics, broker: Broker, stream_of: StreamOf
) -> None:
    topic = topics.make(partitions=3, **FOR_EVER)
    stream = stream_of(topic, keep_record=True)
    stream.run(envelope=AS_IT_IS)
    topics.delete(topic)
    topics.make(topic)
    stream.run(envelope=AS_IT_IS)
    noted = noted_topic(Store(stream.table.uri), topic)
    assert (noted.partitions, noted.configuration) == (3, {"retention.ms": "-1"})
    topics.delete(topic)
    assert put_back(spark, broker, stream, topic).complete
    assert described(spark, broker.cluster(), [topic], START)[0].partitions == 3


def test_a_topic_of_which_nothing_was_noted_is_not_made(
    spark: SparkSession, topics: Topics, broker: Broker, stream_of: StreamOf
) -> None:
    topic, other = topics.make(**FOR_EVER), topics.name()
    stream = stream_of(topic)
    topics.send(topic, Record(b"a"))
    stream.run(envelope=AS_IT_IS)
    with pytest.raises(RunFailedError, match=r"the partitions of topic .* were not noted .*keepRecord") as refused:
        put_back(spark, broker, stream, other)
    assert refused.value.reason == "TopicUnfit"
    assert described(spark, broker.cluster(), [other], START) == []


LOST = [
    Record(b"plain", key=b"k1", partition=0, timestamp=1_700_000_000_000),
    Record(None, key=b"k1", partition=0, timestamp=0),
    Record(b"an erased secret", key=b"k2", partition=0, timestamp=7),
    Record(b"", key=None, partition=1, timestamp=1_600_000_000_000),
    Record(b"\x00\xff", key=b"", partition=1, every_header=(("a", b"1"), ("b", None), ("a", b"\xff")), timestamp=1),
    Record(None, key=b"erased too", partition=3, timestamp=8, every_header=(("b", b"an erased secret"),)),
    *(Record(f"{n}".encode(), partition=n % 2, timestamp=100 + n) for n in range(20)),
]
"""Of a topic of five partitions, of which one has nothing, and one has nothing that stays."""
KEPT = [one for one in LOST if b"secret" not in (one.value or b"") and not (one.value is None and one.partition == 3)]
KILLED = {
    "some": (("topic-restored", "before"), ("replay-transaction", "after"), ("replay-ended", "before")),
    "all": (
        ("topic-restored", "before"),
        ("replay-frozen", "before"),
        ("replay-transaction", "before"),
        ("replay-transaction", "after"),
        ("topic-restored", "before"),
        ("replay-ended", "before"),
    ),
}
"""The moments at which one run after the other is killed."""


@dataclass
class Lost:
    """A topic that is gone, the stream that kept its records, some of which were erased, and groups that read it."""

    topic: str
    stream: KafkaStream
    records: list[Record]
    groups: dict[str, dict[int, int]]

    def go_on(self, topics: Topics) -> None:
        """Check that each group goes on with what it would have read next."""
        now = topics.read(self.topic)
        for group, offsets in self.groups.items():
            moved = self.moved(group)
            assert {n: one.before for n, one in moved.items()} == offsets
            for partition, before in offsets.items():
                left = from_offset(before, partition, filter(is_kept, self.records))
                assert from_offset(moved[partition].offset, partition, now) == left

    def moved(self, group: str) -> dict[int, Moved]:
        return {one.partition: one for one in moved_offsets(self.stream.table.uri, group)}


def from_offset(offset: int, partition: int, records: Iterable[Record]) -> list[tuple[object, ...]]:
    """What a group reads of a partition from an offset on."""
    return [one.as_it_is() for one in records if one.partition == partition and (one.offset or 0) >= offset]


def is_kept(record: Record) -> bool:
    """Whether it was not erased."""
    return b"secret" not in (record.value or b"") and b"secret" not in record.headers.get("b", b"")


@pytest.fixture(scope="module")
def once(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Lost, Kept[KafkaStream]]:
    """A topic that was lost, and its stream as it was then."""
    folder, topic = tmp_path_factory.mktemp("lost"), topics.make(partitions=5, **FOR_EVER)
    topics.send(topic, *LOST[:9], commit=True)
    topics.send(topic, *LOST[9:])
    records, groups = topics.read(topic), {}
    for name in ("first", "second", "third"):
        groups[f"{topic}-{name}"] = {0: 2 * len(groups), 1: 5 * len(groups), 3: 1}
    groups[f"{topic}-end"] = {one.partition or 0: (one.offset or 0) + 1 for one in records}
    source = {"cluster": broker.cluster(), "topics": (topic,), "keep_record": True, "keep_groups": (f"{topic}-*",)}
    stream = KafkaStream(spark, folder / "now", source=source)
    stream.settings = {"envelope": AS_IT_IS, "claim_check_bytes": 1000}
    stream.run()
    for group, offsets in {**groups, "another": {0: 1}}.items():
        topics.commit(group, topic, offsets)
    stream.run()
    assert (len(stream.messages()), stream.dead_letters()) == (len(LOST), [])
    erased = tuple(
        row["message_id"]
        for row in stream.messages()
        if row["payload"] == LOST[2].value
        or (row["record"]["headers"] and b"secret" in (row["record"]["headers"][0]["value"] or b""))
    )
    rule = Rule(name="erased", match=Match(message_ids=erased), erase=True)
    purge(spark, stream.table, AT, rules=(rule,), erase_within=timedelta(0))
    erase(spark, stream.table, AT)
    assert files_with(stream.table, b"secret") == []
    topics.delete(topic)
    return Lost(topic, stream, records, groups), Kept.of(stream, folder / "kept")


@pytest.fixture
def lost(topics: Topics, once: tuple[Lost, Kept[KafkaStream]]) -> Lost:
    found, kept = once
    if topics.exists(found.topic):
        topics.delete(found.topic)
    return replace(found, stream=kept.again())


@pytest.mark.usefixtures("compiled")
def test_a_lost_topic_comes_back_as_it_was_without_what_was_erased_and_its_stream_goes_on_behind_it(
    spark: SparkSession, topics: Topics, broker: Broker, lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 3)
    topic, stream = lost.topic, lost.stream
    with pytest.raises(RunFailedError, match="there is no topic"):
        stream.run()
    before = stream.places()
    outcome = put_back(spark, broker, stream, topic)
    assert (outcome.complete, outcome.progress.replayed, outcome.progress.erased) == (True, len(KEPT), 2)
    assert [one.as_it_is() for one in topics.read(topic)] == by_partition(KEPT)
    assert described(spark, broker.cluster(), [topic], START)[0].partitions == 5
    lost.go_on(topics)
    for _ in range(2):
        assert (stream.run().counts.received, stream.places()) == (0, before)
    new = [Record(b"new", partition=0, timestamp=1), Record(None, key=b"new", partition=3), Record(b"", partition=4)]
    topics.send(topic, *new)
    assert stream.run().counts.stored == len(new)
    added = stream.places()[len(before) :]
    assert [(uri, partition) for _, uri, partition, _ in added] == [(f"kafka:{topic}@2", n) for n in (0, 3, 4)]
    # Lost once more, it comes back with all that it had, and groups skip nothing.
    was = topics.read(topic)
    among, behind = 3, max(one.offset or 0 for one in was if one.partition == 0)
    topics.commit(f"{topic}-first", topic, {0: among})
    topics.commit(f"{topic}-second", topic, {0: behind})
    stream.run(at=LATER)
    topics.delete(topic)
    document = as_they_came(stream.table, broker, topic, create=True, job_id="again")
    again = Run.of(document.model_copy(update={"at": LATER}), spark, Silent())
    assert run_replay(again).progress.replayed == len(KEPT) + len(new)
    now = topics.read(topic)
    assert [one.as_it_is()[2:] for one in now] == [one[2:] for one in by_partition([*KEPT, *new])]
    assert stream.run(at=LATER).counts.received == 0
    assert from_offset(lost.moved(f"{topic}-second")[0].offset, 0, now) == from_offset(behind, 0, was)
    left = from_offset(among, 0, was)
    assert from_offset(lost.moved(f"{topic}-first")[0].offset, 0, now)[-len(left) :] == left


@pytest.mark.parametrize("killed", few(KILLED))
def test_a_stream_does_not_read_a_topic_before_it_is_back_even_if_the_replay_is_killed(
    spark: SparkSession, topics: Topics, broker: Broker, lost: Lost, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 3)
    topic, stream = lost.topic, lost.stream
    before, moments = stream.places(), [*KILLED[killed]]

    def observer(name: str, moment: str) -> None:
        if moments and (name, moment) == moments[0]:
            raise CrashError(moments.pop(0))

    with observing(observer):
        for _ in KILLED[killed]:
            with pytest.raises(CrashError):
                put_back(spark, broker, stream, topic)
            assert stream.run().counts.received == 0
        put_back(spark, broker, stream, topic)
    assert [one.as_it_is() for one in topics.read(topic)] == by_partition(KEPT)
    lost.go_on(topics)
    topics.send(topic, Record(b"new", partition=0))
    assert stream.run().counts.received == 1
    assert [place[1:3] for place in stream.places()[len(before) :]] == [(f"kafka:{topic}@2", 0)]


@pytest.mark.long
def test_a_topic_is_put_back_as_it_was_whichever_answer_is_lost(
    spark: SparkSession, topics: Topics, broker: Broker, stream_of: StreamOf
) -> None:
    topic = topics.make(partitions=2, **FOR_EVER)
    topics.send(topic, Record(b"a", partition=1, timestamp=5), Record(b"b", partition=1, timestamp=6))
    topics.commit(f"{topic}-group", topic, {1: 1})
    stream = stream_of(topic, keep_record=True, keep_groups=(f"{topic}-*",))
    _, lost = unheard(lambda: stream.run(envelope=AS_IT_IS))
    assert lost >= {"topic-noted", "groups-noted"}
    was = topics.read(topic)
    topics.delete(topic)
    outcome, lost = unheard(lambda: put_back(spark, broker, stream, topic))
    assert (outcome.complete, lost >= {"topic-restored", "replay-transaction"}) == (True, True)
    assert [one.as_it_is() for one in topics.read(topic)] == [one.as_it_is() for one in was]
    (moved,) = moved_offsets(stream.table.uri, f"{topic}-group")
    assert (moved.partition, moved.before, moved.offset) == (1, 1, 1)
    assert stream.run(envelope=AS_IT_IS).counts.received == 0


def test_records_that_others_write_while_a_topic_is_put_back_are_not_lost(
    spark: SparkSession, topics: Topics, broker: Broker, lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 3)
    topic, stream = lost.topic, lost.stream
    before, seen = stream.places(), count()

    def observer(name: str, moment: str) -> None:
        if (name, moment) == ("replay-transaction", "after") and next(seen) == 2:
            topics.send(topic, Record(b"aborted", partition=1), commit=False)
            topics.send(topic, Record(b"foreign", partition=0))

    with observing(observer):
        assert put_back(spark, broker, stream, topic).complete
    stream.run()
    added = stream.messages()[len(before) :]
    # Partition 1 has all that came from the store, and somebody's aborted transaction; partition 0 is read from there.
    assert {row["source"]["partition"] for row in added} == {0}
    assert added[0]["payload"] == b"foreign"
    assert len(added) < len(before)


def test_a_dry_run_says_what_would_differ_or_fail(
    spark: SparkSession, topics: Topics, broker: Broker, lost: Lost
) -> None:
    def findings(topic: str, *, create: bool = False, **task: Any) -> list[str]:
        document = as_they_came(lost.stream.table, broker, topic, create=create, mode="DryRun", **task)
        return list(run_replay(Run.of(document, spark, Silent())).findings)

    missing = f"3 of 27 offsets of topic {lost.topic} have no message: 2 erased (in the whole store), at least 1 more"
    found = findings(lost.topic, create=True)
    assert (len(found), missing in found[0]) == (1, True), found
    assert described(spark, broker.cluster(), [lost.topic], START) == []
    assert "there is no topic" in findings(lost.topic)[0]
    assert "were not noted" not in " ".join(findings("other", create=True))
    settings = {"cleanup_policy": "compact,delete", "retention_ms": "1000", "message_timestamp_type": "LogAppendTime"}
    other = topics.make(partitions=6, max_message_bytes="100", **settings)
    topics.send(other, Record(b"a", key=b"k"))
    words = findings(other, select=Selection(limit=5))
    for word in (
        "has 6 partitions, and topic",
        "has records",
        "compacted",
        "retention.ms",
        "LogAppendTime",
        "max.message.bytes",
    ):
        assert [one for one in words if word in one], (word, words)
    assert [one for one in findings(topics.make()) if "as many partitions" in one]


def by_partition(records: list[Record]) -> list[tuple[object, ...]]:
    return [one.as_it_is() for one in sorted(records, key=lambda one: one.partition or 0)]
