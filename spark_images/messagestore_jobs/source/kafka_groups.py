"""What is noted of consumer groups of a source's topics, as brokers drop their offsets with a topic that is deleted."""

import json
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from messagestore_core.contract.records import KafkaSource
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.topics import GroupsNote, note_groups
from messagestore_jobs.source.kafka_listing import access, kafka_failure
from messagestore_jobs.source.plan import Listed

_LOOK_AGAIN_SECONDS = 5
"""A run that goes on looks so often."""


class GroupNotes:
    """Keeps the notes of consumer groups up to date, for one run."""

    def __init__(self, spark: SparkSession, held: HeldStore, source: KafkaSource) -> None:
        self._spark, self._held, self._source = spark, held, source
        self._looked = -float(_LOOK_AGAIN_SECONDS)

    def take(self, listed: Sequence[Listed], at: datetime) -> None:
        """Note what the groups have committed of the listed topics, where that is anything new.

        Raises:
            RunFailedError: the cluster can't be reached.
        """
        if not self._source.keep_groups or time.monotonic() - self._looked < _LOOK_AGAIN_SECONDS:
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
        of_java = self._spark._jvm.dev.messagestore.spark.KafkaTopics  # type: ignore[union-attr]
        cluster = json.dumps(access(self._source.cluster))
        try:
            names = [name for name in json.loads(of_java.groups(cluster)) if is_kept(name, self._source.keep_groups)]
            committed = json.loads(of_java.committed(cluster, json.dumps(names))) if names else []
        except Py4JJavaError as error:
            raise kafka_failure(error, self._source.cluster) from error
        offsets: dict[str, dict[str, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
        for one in committed:
            offsets[one["topic"]][one["group"]][one["partition"]] = one["offset"]
        return offsets


def is_kept(name: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches the whole name; ``*`` stands for any text."""
    return any(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) for pattern in patterns)
