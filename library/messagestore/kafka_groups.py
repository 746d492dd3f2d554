"""Committed offsets of a consumer group. Needs extra "kafka"."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from messagestore.errors import ArgumentError, MessageStoreError
from messagestore.restored import Moved

_SECONDS = 60.0
_ALPHABET = str.maketrans("+/", "-_")


def settings_of(file: Path) -> dict[str, str]:
    """The settings of librdkafka in a file, one a line as ``name=value``; lines that begin with # are comments.

    Raises:
        ArgumentError: a line is none, or no brokers are named.
        MessageStoreError: the file can't be read.
    """
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise MessageStoreError(f"{file} can't be read: {error}") from None
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    settings = {name.strip(): value.strip() for name, _, value in pairs}
    if "bootstrap.servers" not in settings or not all(separator for _, separator, _ in pairs):
        raise ArgumentError(f"{file} must have librdkafka's settings, one a line as name=value, with bootstrap.servers")
    return settings


def commit(settings: Mapping[str, str], group: str, moved: Sequence[Moved]) -> None:
    """Commit a group's offsets.

    Raises:
        MessageStoreError: the group has members, a topic was made again since, or the brokers refuse.
    """
    try:
        admin = AdminClient({"log_level": 0, **settings})
        _refuse_others(admin, group, moved)
        places = [TopicPartition(one.topic, one.partition, one.offset) for one in moved]
        committed = admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, places)], request_timeout=_SECONDS
        )
        refused = next((one for one in committed[group].result().topic_partitions if one.error is not None), None)
    except KafkaException as error:
        raise MessageStoreError(f"the offsets of group {group} can't be committed: {error.args[0].str()}") from None
    if refused is not None:
        raise MessageStoreError(f"the brokers refuse {refused.topic}/{refused.partition}: {refused.error.str()}")


def _members(admin: AdminClient, group: str) -> int:
    try:
        return len(admin.describe_consumer_groups([group], request_timeout=_SECONDS)[group].result().members)
    except KafkaException as error:
        # Brokers forget a group whose topics are gone.
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return 0
        raise


def _refuse_others(admin: AdminClient, group: str, moved: Sequence[Moved]) -> None:
    if members := _members(admin, group):
        raise MessageStoreError(
            f"group {group} has {members} members, which would commit over it: stop its consumers first"
        )
    ids = {one.topic: one.topic_id for one in moved}
    for topic, described in admin.describe_topics(TopicCollection(list(ids)), request_timeout=_SECONDS).items():
        # librdkafka writes ids in the alphabet of base64, Kafka in that of URLs.
        if str(described.result().topic_id).translate(_ALPHABET) != ids[topic]:
            raise MessageStoreError(f"topic {topic} is another one than the one that was put back")
