"""Records of topics that are kept as they came, and sent as they came."""

import hashlib
import hmac
from collections.abc import Callable
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import Match, Rule, Scrub
from messagestore_core.contract.records import Integrity
from messagestore_core.progress import Silent
from messagestore_core.seals import is_sealed
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.handle import Store
from messagestore_jobs.context import Run
from messagestore_jobs.replay import kafka
from messagestore_jobs.replay.job import run_replay
from support.external_writes import observing
from support.ingests import START
from support.kafkabroker import Broker
from support.kafkastreams import KafkaStream
from support.kafkatopics import Record, Topics
from support.kept import Kept
from support.keptrecords import AS_IT_IS, FOR_EVER, as_they_came
from support.keys import KEY, VARIABLE
from support.long import few
from support.maintenance import maintain
from support.purges import erase, files_with, purge
from support.replays import AT, Crash

RECORDS = [
    Record(b"plain", key=b"k1", partition=0, timestamp=1_700_000_000_000),
    Record(None, key=b"k1", partition=0, timestamp=0),
    Record(b"", key=None, partition=1, timestamp=1_600_000_000_000),
    Record(b"\x00\xff", key=b"", partition=1, timestamp=1_500_000_000_123),
    Record(
        b'{"n": 1.10\n}',
        key=b"\xff\x00",
        partition=2,
        timestamp=1,
        every_header=(("a", b"1"), ("b", None), ("a", b"\x00\xff"), ("", b""), ("\u00e9", b"x"), ("a", b"1")),
    ),
    Record(b"n" * 2000, key=b"large", partition=2, timestamp=2, every_header=(("secret", b"s3cret"),)),
]


@pytest.fixture(scope="module")
def once(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Kept[KafkaStream]:
    folder, topic = tmp_path_factory.mktemp("kept"), topics.make(partitions=3, **FOR_EVER)
    topics.send(topic, *RECORDS)
    source = {"cluster": broker.cluster(), "topics": (topic,), "keep_record": True}
    stream = KafkaStream(spark, folder / "now", source=source)
    stream.run(envelope=AS_IT_IS, claim_check_bytes=1000, integrity=Integrity(key_environment=VARIABLE))
    assert (len(stream.messages()), stream.dead_letters()) == (len(RECORDS), [])
    return Kept.of(stream, folder / "kept")


@pytest.fixture
def kept(once: Kept[KafkaStream]) -> KafkaStream:
    """A stream of a topic of three partitions that keeps records."""
    return once.again()


@pytest.mark.usefixtures("compiled")
def test_every_record_is_sent_as_it_came(
    spark: SparkSession, topics: Topics, broker: Broker, kept: KafkaStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 2)
    rows = kept.messages()
    assert [row["record"]["value"] for row in rows] == [None] * len(RECORDS)
    assert [is_sealed([KEY], row) for row in rows] == [True] * len(RECORDS)
    # A day that is over is written anew.
    assert maintain(spark, kept.table, START + timedelta(days=2)).files_after == 1
    topic = topics.make(partitions=4, **FOR_EVER)
    document = as_they_came(kept.table, broker, topic, integrity=Integrity(key_environment=VARIABLE))
    crashes = iter([Crash])

    def observer(name: str, moment: str) -> None:
        if (name, moment) == ("replay-transaction", "after") and (crash := next(crashes, None)):
            raise crash

    with observing(observer), pytest.raises(Crash):
        run_replay(Run.of(document, spark, Silent()))
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert (outcome.complete, outcome.progress.replayed, outcome.progress.withheld) == (True, len(RECORDS), 0)
    assert [one.as_it_is() for one in topics.read(topic)] == [one.as_it_is() for one in RECORDS]


def test_a_value_that_is_not_the_payload_is_kept_too(
    spark: SparkSession, topics: Topics, broker: Broker, stream_of: Callable[..., KafkaStream]
) -> None:
    topic, out = topics.make(**FOR_EVER), topics.make(**FOR_EVER)
    sent = [
        Record(b' {"messageId":"a","streamName":"s-1","payload": {"n": 1.0} } ', partition=0, timestamp=5),
        Record(b"garbage", partition=0, timestamp=6),
        Record(b'{"messageId":"b","streamName":"s-1"}', key=b"b", partition=0, timestamp=7),
    ]
    topics.send(topic, *sent)
    stream = stream_of(topic, keep_record=True)
    stream.run()
    assert [row["record"]["value"] for row in stream.messages()] == [sent[0].value, sent[2].value]
    assert run_replay(Run.of(as_they_came(stream.table, broker, out), spark, Silent())).complete
    assert [one.as_it_is() for one in topics.read(out)] == [sent[0].as_it_is(), sent[2].as_it_is()]


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("method", few(["Redact", "Drop", "Hash"], "Hash"))
def test_a_scrub_takes_the_key_and_the_named_headers_and_what_was_scrubbed_is_not_sent(
    spark: SparkSession, topics: Topics, broker: Broker, kept: KafkaStream, method: str
) -> None:
    integrity = Integrity(key_environment=VARIABLE)
    scrub = Scrub(headers=("SECRET",), payload_paths=("$",), method=method, key_environment=VARIABLE)
    large = kept.messages()[-1]["message_id"]
    rule = Rule(name="scrubbed", match=Match(message_ids=(large,)))
    for run in ("purge-1", "purge-2"):
        purge(spark, kept.table, AT, run=run, action="Scrub", rules=(rule,), scrub=scrub, integrity=integrity)
    erase(spark, kept.table, AT + timedelta(days=8))
    row = kept.messages()[-1]
    masked = {"Redact": b"[redacted]", "Hash": hmac.new(KEY.encode(), b"s3cret", hashlib.sha256).hexdigest().encode()}
    headers = [{"name": "secret", "value": masked[method]}] if method in masked else []
    assert (row["record"]["key"], row["record"]["value"], row["record"]["headers"]) == (None, None, headers)
    assert is_sealed([KEY], row)
    assert files_with(kept.table, b"s3cret") == files_with(kept.table, b"nnnn") == []
    topic = topics.make(partitions=3, **FOR_EVER)
    outcome = run_replay(Run.of(as_they_came(kept.table, broker, topic, integrity=integrity), spark, Silent()))
    assert (outcome.complete, outcome.progress.replayed, outcome.progress.withheld) == (True, len(RECORDS) - 1, 1)
    assert [one.as_it_is() for one in topics.read(topic)] == [one.as_it_is() for one in RECORDS[:-1]]


def test_an_erased_record_is_not_sent_and_leaves_no_byte(
    spark: SparkSession, topics: Topics, broker: Broker, kept: KafkaStream
) -> None:
    large = kept.messages()[-1]["message_id"]
    rule = Rule(name="erased", match=Match(message_ids=(large,)), erase=True)
    purge(spark, kept.table, AT, rules=(rule,), erase_within=timedelta(0))
    erase(spark, kept.table, AT)
    assert files_with(kept.table, b"s3cret") == []
    topic = topics.make(partitions=3, **FOR_EVER)
    outcome = run_replay(Run.of(as_they_came(kept.table, broker, topic), spark, Silent()))
    assert (outcome.complete, outcome.progress.replayed) == (True, len(RECORDS) - 1)
    assert [one.as_it_is() for one in topics.read(topic)] == [one.as_it_is() for one in RECORDS[:-1]]


def test_messages_without_their_record_are_counted_and_a_topic_that_lacks_their_partition_is_refused(
    spark: SparkSession, topics: Topics, broker: Broker, stream_of: Callable[..., KafkaStream]
) -> None:
    topic, small, out = topics.make(partitions=2, **FOR_EVER), topics.make(), topics.make(partitions=2, **FOR_EVER)
    stream = stream_of(topic)
    topics.send(topic, Record(b"before", partition=1))
    stream.run(envelope=AS_IT_IS)
    assert "record" not in {name for file in _files(stream) for name in file}
    topics.send(topic, Record(b"after", partition=1, timestamp=9))
    stream.run(envelope=AS_IT_IS, source={"keep_record": True})
    with pytest.raises(RunFailedError, match=f"topic {small} has 1 partitions") as refused:
        run_replay(Run.of(as_they_came(stream.table, broker, small), spark, Silent()))
    assert refused.value.reason == "TopicUnfit"
    preview = run_replay(Run.of(as_they_came(stream.table, broker, out, mode="DryRun"), spark, Silent()))
    assert (preview.selection.messages, preview.progress.withheld) == (1, 1)
    outcome = run_replay(Run.of(as_they_came(stream.table, broker, out), spark, Silent()))
    assert (outcome.progress.replayed, outcome.progress.withheld) == (1, 1)
    assert [(one.partition, one.timestamp, one.value) for one in topics.read(out)] == [(1, 9, b"after")]


def test_a_topic_that_refuses_old_records_is_named(
    spark: SparkSession, topics: Topics, broker: Broker, kept: KafkaStream
) -> None:
    topic = topics.make(partitions=3, message_timestamp_before_max_ms="1000", **FOR_EVER)
    with pytest.raises(RunFailedError, match=rf"topic {topic} refuses .* message\.timestamp\.before\.max\.ms") as unfit:
        run_replay(Run.of(as_they_came(kept.table, broker, topic), spark, Silent()))
    assert unfit.value.reason == "TopicUnfit"


def test_a_dry_run_tells_of_a_topic_that_refuses_records_of_times_ahead(
    spark: SparkSession, topics: Topics, broker: Broker, stream_of: Callable[..., KafkaStream]
) -> None:
    topic = topics.make(message_timestamp_after_max_ms=str((1 << 63) - 1), **FOR_EVER)
    ahead = int((AT + timedelta(days=1)).timestamp() * 1000)
    topics.send(topic, Record(b"ahead", timestamp=ahead), Record(b"now", timestamp=ahead - 86_400_000))
    stream = stream_of(topic, keep_record=True)
    stream.run(envelope=AS_IT_IS)

    def told(most_ahead: int) -> list[str]:
        out = topics.make(message_timestamp_after_max_ms=str(most_ahead), **FOR_EVER)
        outcome = run_replay(Run.of(as_they_came(stream.table, broker, out, mode="DryRun"), spark, Silent()))
        return [words for words in outcome.findings if "message.timestamp.after.max.ms" in words]

    assert "refuses 1 records" in told(3_600_000)[0]
    assert told(2 * 86_400_000) == []


def _files(stream: KafkaStream) -> list[list[str]]:
    """The columns of each data file."""
    dataset = Store(stream.table.uri).table("messages").to_pyarrow_dataset()
    return [fragment.physical_schema.names for fragment in dataset.get_fragments()]
