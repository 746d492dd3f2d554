"""Topics of a Kafka cluster: what is noted of those whose records are kept, or put back, and how one is made again.

Of consumer groups it is noted what they have committed, as brokers drop that with a topic that is deleted.
"""

import json
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from messagestore_core.contract.records import KafkaCluster, KafkaSource
from messagestore_core.progress import ProgressListener
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.offsets import Partition, ReadUpTo
from messagestore_core.store.topics import GroupsNote, RestoredNote, TopicNote, note_groups, note_topic, read_restored
from messagestore_jobs.session import extension
from messagestore_jobs.source.kafka_listing import access, ask, kafka_failure
from messagestore_jobs.source.plan import Listed

_LOOK_AGAIN_SECONDS, _LOOK_AT_GROUPS_SECONDS = 60, 5
"""A run that goes on looks so often whether a topic's configuration has changed, and what groups have committed."""

_REFUSED = {
    "InvalidReplicationFactorException": "the cluster has fewer brokers",
    "InvalidConfigurationException": "this cluster doesn't take that configuration",
    "PolicyViolationException": "a policy of the cluster forbids it",
}
_DENIED = ("TopicAuthorizationException", "ClusterAuthorizationException")


class TopicNotes:
    """Keeps the notes of a source's topics up to date, for one run."""

    def __init__(self, spark: SparkSession, held: HeldStore, cluster: KafkaCluster) -> None:
        self._spark, self._held, self._cluster = spark, held, cluster
        self._seen: set[tuple[str, int]] = set()
        self._looked = 0.0

    def take(self, listed: Sequence[Listed], at: datetime) -> None:
        """Note the topics of a listing, where they may have changed.

        Raises:
            RunFailedError: the cluster can't be reached.
        """
        seen = {(one.partition.topic_id, one.partition.number) for one in listed}
        if seen == self._seen and time.monotonic() - self._looked < _LOOK_AGAIN_SECONDS:
            return
        for note in described(self._spark, self._cluster, sorted({one.partition.topic for one in listed}), at):
            note_topic(self._held, note)
        self._seen, self._looked = seen, time.monotonic()


class RestoredTopics:
    """Of a source's topics those that a replay out of the store puts back: their records are in the store already."""

    def __init__(self, store: Store, progress: ProgressListener) -> None:
        self._store, self._progress = store, progress
        self._known: dict[str, RestoredNote | None] = {}

    def under_way(self, listed: Sequence[Listed], read: Mapping[Partition, ReadUpTo]) -> set[str]:
        """The ids of topics whose replay has not ended, and which are to be read once it has.

        Call it after the listing: the note of a topic is there before its first record.
        """
        ids = {one.partition.topic_id for one in listed if one.partition not in read and one.latest > 0}
        for topic_id in ids:
            known = self._known.get(topic_id)
            if topic_id not in self._known or (known is not None and known.ends is None):
                self._known[topic_id] = note = read_restored(self._store, topic_id)
                if known is None and note is not None and note.ends is None:
                    self._progress.say(f"topic {note.topic} is put back by a replay; it is read once that has ended")
        return {topic_id for topic_id in ids if (note := self._known[topic_id]) is not None and note.ends is None}

    def ends(self, listed: Sequence[Listed]) -> dict[Partition, ReadUpTo]:
        """Where reading begins in partitions that were put back, as far as ``under_way`` has seen them."""
        by_partition = {}
        for partition in (one.partition for one in listed):
            note = self._known.get(partition.topic_id)
            if note is not None and note.ends is not None and (end := note.ends.get(partition.number)) is not None:
                by_partition[partition] = ReadUpTo(end, end)
        return by_partition


def described(spark: SparkSession, cluster: KafkaCluster, topics: Sequence[str], at: datetime) -> list[TopicNote]:
    """The named topics that exist.

    Raises:
        RunFailedError: the cluster can't be reached.
    """
    described = ask(spark, cluster, lambda of, at: of.KafkaTopics.describe(at, json.dumps(topics)))
    return [TopicNote.model_validate({**one, "notedAt": at}) for one in json.loads(described)]


class Allowed(NamedTuple):
    """A topic's settings, with defaults, and what the user may do to it; None where it is not told."""

    settings: dict[str, str] | None
    operations: tuple[str, ...] | None


def allowed(spark: SparkSession, cluster: KafkaCluster, topic: str) -> Allowed:
    """What a topic takes.

    Raises:
        RunFailedError: the cluster can't be reached.
    """
    answer = json.loads(ask(spark, cluster, lambda of, at: of.KafkaTopics.examine(at, topic)))
    return Allowed(answer["settings"], None if answer["operations"] is None else tuple(answer["operations"]))


def create(spark: SparkSession, cluster: KafkaCluster, topic: str, note: TopicNote) -> None:
    """Make a topic as another one was, unless there is one of its name.

    Raises:
        RunFailedError: the brokers refuse it, or can't be reached.
    """
    try:
        extension(spark).KafkaTopics.create(json.dumps(access(cluster)), _wanted(topic, note))
    except Py4JJavaError as error:
        raise _not_made(error, cluster, topic, note) from error


def try_to_create(spark: SparkSession, cluster: KafkaCluster, topic: str, note: TopicNote) -> dict[str, str] | None:
    """Find out whether ``create`` would make a topic, and make nothing.

    Return the settings that it would have, with defaults; None if the user may not ask for them.

    Raises:
        RunFailedError: the brokers would refuse it, or can't be reached.
    """
    try:
        answer = extension(spark).KafkaTopics.tryToCreate(json.dumps(access(cluster)), _wanted(topic, note))
    except Py4JJavaError as error:
        raise _not_made(error, cluster, topic, note) from error
    settings: dict[str, str] | None = json.loads(answer)
    return settings


def _wanted(topic: str, note: TopicNote) -> str:
    return json.dumps(note.model_copy(update={"topic": topic}).model_dump(mode="json", by_alias=True))


def _not_made(error: Py4JJavaError, cluster: KafkaCluster, topic: str, note: TopicNote) -> RunFailedError:
    text = str(error)
    if any(sign in text for sign in _DENIED):
        return RunFailedError(
            "KafkaDenied", f"the user may not make topic {topic}: it needs the ACL Create on it, or on the cluster"
        )
    why = next((words for sign, words in _REFUSED.items() if sign in text), None)
    if why is None:
        return kafka_failure(error, cluster)
    return RunFailedError(
        "TopicUnfit",
        f"topic {topic} can't be made with {note.partitions} partitions, {note.replicas} replicas and the "
        f"configuration that was noted of topic {note.topic}, as {why}: make it yourself",
    )


class GroupNotes:
    """Keeps the notes of consumer groups up to date, for one run."""

    def __init__(self, spark: SparkSession, held: HeldStore, source: KafkaSource) -> None:
        self._spark, self._held, self._source = spark, held, source
        self._looked = -float(_LOOK_AT_GROUPS_SECONDS)

    def take(self, listed: Sequence[Listed], at: datetime) -> None:
        """Note what the groups have committed of the listed topics, where that is anything new.

        Raises:
            RunFailedError: the cluster can't be reached.
        """
        if not self._source.keep_groups or time.monotonic() - self._looked < _LOOK_AT_GROUPS_SECONDS:
            return
        committed = self._committed()
        for topic, topic_id in sorted({(one.partition.topic, one.partition.topic_id) for one in listed}):
            if topic in committed:
                note_groups(
                    self._held, GroupsNote(topic=topic, topic_id=topic_id, offsets=committed[topic], noted_at=at)
                )
        self._looked = time.monotonic()

    def _committed(self) -> dict[str, dict[str, dict[int, int]]]:
        """The committed offsets by topic, group and partition."""
        spark, cluster = self._spark, self._source.cluster
        groups = json.loads(ask(spark, cluster, lambda of, at: of.KafkaTopics.groups(at)))
        names = json.dumps([name for name in groups if is_kept(name, self._source.keep_groups)])
        none = names == "[]"
        committed = [] if none else json.loads(ask(spark, cluster, lambda of, at: of.KafkaTopics.committed(at, names)))
        offsets: dict[str, dict[str, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
        for one in committed:
            offsets[one["topic"]][one["group"]][one["partition"]] = one["offset"]
        return offsets


def is_kept(name: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches the whole name; ``*`` stands for any text."""
    return any(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) for pattern in patterns)
