"""Kafka records, as they arrive in topics."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from typing_extensions import override

from messagestore_core.clock import now
from messagestore_core.contract.ingest import IngestTask, Lag, Loss
from messagestore_core.contract.records import KafkaSource
from messagestore_core.store.batches import batch_id
from messagestore_core.store.dead_letters import SourcePosition, withdraw
from messagestore_core.store.errors import RunFailedError, TableRefusedError
from messagestore_core.store.offsets import OffsetBatch, OffsetRange, ReadOffsets
from messagestore_jobs.context import Run
from messagestore_jobs.session import heap_bytes, jvm_of, python_bytes
from messagestore_jobs.source.arrivals import Arrivals, Due
from messagestore_jobs.source.kafka_listing import kafka_failure, list_partitions, oldest_record
from messagestore_jobs.source.kafka_topics import GroupNotes, RestoredTopics, TopicNotes
from messagestore_jobs.source.plan import (
    RETENTION,
    TOPIC_DELETED,
    held_at_once,
    most_records,
    next_offsets,
    pending_offsets,
    rest_of_offsets,
    still_stored,
)
from messagestore_jobs.source.records import verdict_digest

_WHY = {
    RETENTION: "the broker had removed them before they were read",
    TOPIC_DELETED: "the topic was deleted before they were read",
}
_OF_KAFKA = ("org.apache.kafka", "Kafka:", "Kafka gave nothing", "KafkaAccess$RefusalException")


class KafkaArrivals(Arrivals[OffsetBatch]):
    """The ``Arrivals`` of Kafka; sizes are in records, counted by offsets."""

    def __init__(self, run: Run, task: IngestTask, source: KafkaSource) -> None:
        super().__init__(run, task)
        self._source = source
        self._read: ReadOffsets = ReadOffsets(run.store, task.source_id)
        self._waiting: list[OffsetRange] = []
        self._notes = TopicNotes(run.spark, run.store, source.cluster) if source.keep_record else None
        self._groups = GroupNotes(run.spark, run.store, source)
        self._restored = RestoredTopics(run.store, run.progress)

    def list_source(self) -> None:
        """List the partitions and their offsets."""
        listed = list_partitions(self._spark, self._source)
        if self._notes is not None:
            self._notes.take(listed, now(self._document))
        self._groups.take(listed, now(self._document))
        from_latest, read = self._source.starting_offsets == "Latest", self._read.read_up_to()
        under_way = self._restored.under_way(listed, read)
        listed = [one for one in listed if one.partition.topic_id not in under_way]
        read = {**self._restored.ends(listed), **read}
        self._waiting = pending_offsets(listed, read, from_latest=from_latest)

    @override
    def waits(self) -> bool:
        """Whether records wait, or only a first offset or lost records must be noted."""
        return bool(self._waiting)

    @override
    def size(self) -> int:
        return sum(r.end - r.start for r in self._waiting if r.lost is None)

    @override
    def uncommitted(self) -> Due | None:
        batch = self._read.uncommitted()
        if batch is None:
            return None
        # Topics that the source no longer has are taken out when the batch is judged anew.
        if batch.verdict_digest is None or not self.spec_changed(batch):
            self._refuse_other_topics(batch)
        return Due(batch, self._read.read_before(batch), repeated=True)

    @override
    def is_made_again(self, batch: OffsetBatch) -> bool:
        """A topic that was made again has other records at the same offsets."""
        there = {one.partition for one in list_partitions(self._spark, self._source)}
        return any(r.partition not in there for r in batch.ranges if not r.lost)

    @override
    def reset_verdicts(self, batch: OffsetBatch) -> Due | None:
        """Topics that the source no longer has are taken out of the plan."""
        own = [r for r in batch.ranges if self._has(r.partition.topic)]
        ranges = still_stored(own, list_partitions(self._spark, self._source))
        withdraw(self._store, batch_id(self.task.source_id, batch.number), lambda at: _is_lost(at, batch, ranges))
        self._read.plan_anew(replace(batch, ranges=ranges, verdict_digest=verdict_digest(self._spark, self.task)))
        self._tell_losses([r for r in ranges if r not in batch.ranges])
        return self.uncommitted()

    def _refuse_other_topics(self, batch: OffsetBatch) -> None:
        """Refuse a plan with topics that the source does not have: no run with this source wrote it."""
        for topic in {r.partition.topic for r in batch.ranges}:
            if not self._has(topic):
                raise TableRefusedError(
                    f"{self._store.uri}/offsets says that batch {batch.number} reads topic {topic[:200]}, "
                    "which this source does not have; find out who wrote it"
                )

    def _has(self, topic: str) -> bool:
        """Whether a topic is one of the source's."""
        pattern, jvm = self._source.topic_pattern, jvm_of(self._spark)
        return topic in self._source.topics or (
            pattern is not None and jvm.java.util.regex.Pattern.matches(pattern, topic)
        )

    @override
    def next(self) -> Due:
        """Each partition gets its fair share of the batch."""
        ranges = next_offsets(self._waiting, self._limit())
        by, generations = verdict_digest(self._spark, self.task), self._read.generations(ranges)
        batch = OffsetBatch(self._read.next_number(), now(self._document), ranges, by, generations)
        due = Due(batch, self._read.read_before(batch))
        self._read.write_down(batch)
        self._tell_losses(ranges)
        self._waiting = rest_of_offsets(self._waiting, ranges)
        return due

    @override
    def replan(self, batch: OffsetBatch, error: Exception | None = None) -> bool:
        """Note records of the batch that are lost since it was planned."""
        ranges = still_stored(batch.ranges, list_partitions(self._spark, self._source))
        if ranges == batch.ranges:
            return False
        self._read.plan_anew(replace(batch, ranges=ranges))
        self._tell_losses([r for r in ranges if r not in batch.ranges])
        return True

    @override
    def explained(self, error: Exception) -> RunFailedError | None:
        """Explain errors of the cluster."""
        if any(sign in str(error) for sign in _OF_KAFKA):
            return kafka_failure(error, self._source.cluster)
        return None

    @override
    def arrived_at(self, batch: OffsetBatch) -> datetime | None:
        """By the times of the first records of its partitions."""
        return self._oldest(batch.ranges)

    @override
    def lag(self) -> Lag:
        oldest = self._oldest(self._waiting)
        return Lag(as_of=now(self._document), records=self.size(), oldest_pending_time=oldest)

    def _oldest(self, ranges: Iterable[OffsetRange]) -> datetime | None:
        readable = [r for r in ranges if r.lost is None and r.start < r.end]
        return oldest_record(self._spark, self._source, readable) if readable else None

    @override
    def loss(self) -> Loss | None:
        lost = self._read.lost()
        if lost is None:
            return None
        records, batch = lost
        last = batch.ranges[-1]
        return Loss(
            records=records,
            at=batch.at,
            topic=last.partition.topic,
            partition=last.partition.number,
            start=last.start,
            end=last.end,
            reason=TOPIC_DELETED if last.lost == TOPIC_DELETED else RETENTION,
        )

    def _limit(self) -> int:
        wanted, setting = self._source.max_records_per_batch, self.task.memory.batch_records
        held = held_at_once(python_bytes(self._spark))
        return most_records(wanted, setting, self.task.messages_per_second, heap_bytes(self._spark), held)

    def _tell_losses(self, ranges: Iterable[OffsetRange]) -> None:
        for r in ranges:
            if r.lost:
                self._progress.say(
                    f"topic {r.partition.topic}, partition {r.partition.number}: offsets {r.start} to {r.end - 1} are "
                    f"lost: {_WHY[r.lost]}"
                )


def _is_lost(at: SourcePosition, batch: OffsetBatch, ranges: Iterable[OffsetRange]) -> bool:
    """Whether a record lies in a range that can't be read any more."""
    return any(
        r.lost and at[:2] == (batch.uri(r.partition), r.partition.number) and r.start <= at.offset < r.end
        for r in ranges
    )
