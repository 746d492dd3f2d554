"""A topic that gets records as they came: whether it takes them, how it is made again, and what of it is theirs."""

from bisect import bisect_right
from collections import defaultdict
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import KafkaDestination
from messagestore_core.progress import ProgressListener
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.offsets import Partition
from messagestore_core.store.topics import Place, RestoredNote, TopicNote, noted_topic
from messagestore_jobs.replay.source import Source
from messagestore_jobs.source.kafka_listing import has_committed

_WANTED = 200
"""Places of a partition that a sender looks for: a transaction's offsets have them as metadata of 4096 bytes."""


class Origin(NamedTuple):
    """The topic that selected records came from, and the highest of their partitions."""

    topic: str
    last_partition: int


def origin_of(source: Source) -> Origin | None:
    """Where the selected records came from; None without any.

    Raises:
        RunFailedError: they came from several topics.
    """
    origins = source.origins()
    if len(origins) > 1:
        topics = ", ".join(topic for topic, _ in origins)
        raise RunFailedError(
            "TopicUnfit",
            f"the selection has records of {len(origins)} topics ({topics[:300]}), whose partitions would mix: "
            f"choose those of one, by select.where: source['uri'] = 'kafka:{origins[0][0]}'",
        )
    return Origin(*origins[0]) if origins else None


def check_partitions(to: KafkaDestination, origin: Origin | None, partitions: int) -> None:
    """Check that a topic has the partitions of the records that it is to get.

    Raises:
        RunFailedError: it has fewer.
    """
    if origin is not None and origin.last_partition >= partitions:
        raise RunFailedError(
            "TopicUnfit",
            f"topic {to.topic} has {partitions} partitions, and the selection has records of partition "
            f"{origin.last_partition} of topic {origin.topic}: a record goes to the partition that it came from; give "
            "the topic as many partitions",
        )


def refuse_unnoted(source: Source, to: KafkaDestination, origin: Origin | None) -> TopicNote:
    """The note of the topic that the records came from, by which another one can be made.

    Raises:
        RunFailedError: nothing was noted.
    """
    topic = origin.topic if origin else to.topic
    note = noted_topic(source.store, topic)
    if note is None or note.configuration is None:
        what, why = "partitions", "its stream notes it with source.kafka.keepRecord"
        if note is not None:
            what, why = "configuration", "the stream's user needs the ACL DescribeConfigs on a topic for that"
        raise RunFailedError(
            "TopicUnfit",
            f"topic {to.topic} can't be made: the {what} of topic {topic} were not noted ({why}); make it yourself",
        )
    return note


def wanted_places(note: RestoredNote) -> dict[int, list[Place]]:
    """The places whose new offsets the sender looks for, by partition: those of groups, in order.

    Of many in a partition it is some: see ``moved_groups``.
    """
    every: dict[int, set[Place]] = defaultdict(set)
    for places in note.groups.values():
        for partition, place in places.items():
            every[partition].add(place)
    return {number: sorted(places)[:: -(-len(places) // _WANTED)] for number, places in every.items()}


def moved_groups(note: RestoredNote, places: dict[str, Any]) -> dict[str, dict[int, int]]:
    """The offsets where groups go on, by partition: of the first record at or behind the one that they were at.

    Where the sender, which tells the places, did not look for one it is that of an earlier one.
    """
    wanted = wanted_places(note)

    def moved(partition: int, place: Place) -> int:
        offsets = places.get(str(partition), {"next": 0, "found": []})
        index = bisect_right(wanted[partition], place) - 1
        if index < 0:
            return 0
        return int(offsets["found"][index] if index < len(offsets["found"]) else offsets["next"])

    return {group: {n: moved(n, place) for n, place in at.items()} for group, at in note.groups.items()}


def restored_ends(
    spark: SparkSession, to: KafkaDestination, topic_id: str, places: dict[str, Any], progress: ProgressListener
) -> dict[int, int]:
    """Up to where each partition has only records that the replay sent; an offset that is not there has none.

    The sender tells the places.

    Raises:
        RunFailedError: the cluster can't be reached.
    """
    ends = {}
    for number, place in places.items():
        partition = Partition(to.topic, topic_id, int(number))
        foreign = (start for start, end in place["gaps"] if has_committed(spark, to.cluster, partition, start, end))
        ends[partition.number] = end = next(foreign, place["next"])
        if end < place["next"]:
            progress.say(
                f"topic {to.topic}, partition {number}: somebody else wrote to it meanwhile, from offset {end} on; a "
                "stream of this store that reads it stores what follows once more"
            )
    return ends
