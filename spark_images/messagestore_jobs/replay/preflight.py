"""What would differ or fail if records were sent to a topic as they came, in words. Nothing is written."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.contract.destinations import KafkaDestination
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.offsets import GENERATION, URI
from messagestore_core.store.tombstones import erased_positions
from messagestore_core.store.topics import noted_topic
from messagestore_jobs.replay.source import Source
from messagestore_jobs.replay.topics import Origin, check_partitions, origin_of, refuse_unnoted
from messagestore_jobs.rows.messages import read_table
from messagestore_jobs.source.kafka_listing import listed_partitions
from messagestore_jobs.source.kafka_topics import allowed, try_to_create

_FIELD = "spec.destination.kafka.topic"
_OVERHEAD = 100
"""Bytes of a batch of one record besides key, value and headers, about."""


def findings(source: Source, to: KafkaDestination, withheld: int) -> tuple[str, ...]:
    """What would differ or fail; empty: the topic would be as it was. ``withheld`` messages lack their record.

    Raises:
        RunFailedError: the cluster can't be reached.
    """
    try:
        origin = origin_of(source)
    except RunFailedError as error:
        return (str(error),)
    return (*_of_topic(source, to, origin), *_of_offsets(source, origin, withheld))


def _of_topic(source: Source, to: KafkaDestination, origin: Origin | None) -> Iterator[str]:
    try:
        listed = listed_partitions(source.spark, to.cluster, [to.topic], None, _FIELD)
    except RunFailedError as error:
        if error.reason != "TopicMissing":
            raise
        yield from _of_missing_topic(source, to, origin, error)
        return
    topic = origin.topic if origin else to.topic
    note = noted_topic(source.store, topic)
    try:
        check_partitions(to, origin, len(listed))
    except RunFailedError as error:
        yield str(error)
    else:
        if note is not None and note.partitions != len(listed):
            yield (
                f"topic {to.topic} has {len(listed)} partitions, and topic {topic} had {note.partitions}: producers "
                "choose other partitions for the same keys"
            )
    if any(one.latest > 0 for one in listed):
        yield (
            f"topic {to.topic} has records, or had some: they stay, and a stream of this store that reads the topic "
            "stores what is sent once more"
        )
    access = allowed(source.spark, to.cluster, to.topic)
    if access.operations is not None:
        for acl in ("Write", "Read"):
            if acl.upper() not in access.operations:
                yield f"the user may not send to topic {to.topic}: it needs the ACL {acl}"
    yield from _of_settings(source, to.topic, access.settings)


def _of_missing_topic(
    source: Source, to: KafkaDestination, origin: Origin | None, error: RunFailedError
) -> Iterator[str]:
    if not to.create:
        yield f"{error}; or set spec.destination.kafka.createTopic"
        return
    try:
        settings = try_to_create(source.spark, to.cluster, to.topic, refuse_unnoted(source, to, origin))
    except RunFailedError as refused:
        yield str(refused)
        return
    yield from _of_settings(source, to.topic, settings)


def _of_settings(source: Source, topic: str, settings: Mapping[str, str] | None) -> Iterator[str]:
    """What the settings of a topic do to the selected records."""
    if settings is None:
        yield f"the settings of topic {topic} are unknown: the user needs the ACL DescribeConfigs to look at them"
        return
    figures = _figures(source.rows(), source.now, settings)
    if "compact" in settings.get("cleanup.policy", ""):
        yield f"topic {topic} is compacted: of records with one key it keeps the last, and drops those without a value"
    if figures["old"]:
        yield (
            f"retention.ms of topic {topic} is {settings['retention.ms']}: {figures['old']} records are older, and may "
            "be removed at once; raise it until they were read"
        )
    if figures["refused"]:
        yield (
            f"message.timestamp.before.max.ms of topic {topic} is {settings['message.timestamp.before.max.ms']}: it "
            f"refuses {figures['refused']} records, which are older"
        )
    if figures["ahead"]:
        yield (
            f"message.timestamp.after.max.ms of topic {topic} is {settings['message.timestamp.after.max.ms']}: it "
            f"refuses {figures['ahead']} records, whose times are further ahead"
        )
    if settings.get("message.timestamp.type") == "LogAppendTime":
        yield f"topic {topic} has message.timestamp.type LogAppendTime: records get times of their own"
    largest = settings.get("max.message.bytes")
    if largest is not None and (figures["largest"] or 0) + _OVERHEAD > int(largest):
        yield (
            f"max.message.bytes of topic {topic} is {largest}, and the largest record has some {figures['largest']} "
            "bytes: it may be refused"
        )
    if figures["registered"]:
        yield (
            f"{figures['registered']} values begin as those of a schema registry do: the ids of schemas in them stay "
            "as they are, so the registry must have the same"
        )


def _figures(rows: DataFrame, now: datetime, settings: Mapping[str, str]) -> dict[str, Any]:
    kept, at = F.col("record"), int(now.timestamp() * 1000)
    value = F.when(kept["value_is_payload"], F.col("payload")).otherwise(kept["value"])
    size = F.when(kept["value_is_payload"], F.col("payload_size")).otherwise(F.octet_length(kept["value"]))

    def bytes_of(one: Column) -> Column:
        return F.coalesce(F.octet_length(one), F.lit(0)).cast("bigint")

    of_headers = F.aggregate(
        kept["headers"],
        F.lit(0).cast("bigint"),
        lambda total, header: total + bytes_of(header["name"]) + bytes_of(header["value"]),
    )
    whole = bytes_of(kept["key"]) + F.coalesce(size.cast("bigint"), F.lit(0)) + F.coalesce(of_headers, F.lit(0))

    def older(setting: str) -> Column:
        span = int(settings.get(setting, "-1"))
        return F.count_if((kept["timestamp"] >= 0) & (kept["timestamp"] < at - span)) if span >= 0 else F.lit(0)

    most_ahead = int(settings.get("message.timestamp.after.max.ms", "-1"))
    first = rows.agg(
        F.max(whole).alias("largest"),
        (older("retention.ms") if "delete" in settings.get("cleanup.policy", "delete") else F.lit(0)).alias("old"),
        older("message.timestamp.before.max.ms").alias("refused"),
        (F.count_if(kept["timestamp"] - at > most_ahead) if most_ahead >= 0 else F.lit(0)).alias("ahead"),
        F.count_if((F.substring(value, 1, 1) == F.lit(b"\x00")) & (F.octet_length(value) > 5)).alias("registered"),
    ).first()
    assert first is not None
    return first.asDict()


def _of_offsets(source: Source, origin: Origin | None, withheld: int) -> Iterator[str]:
    """Which offsets between the first and the last of each partition have no record to send, and why."""
    if origin is None:
        return
    places = source.frozen_table.where(_is_of(origin)).groupBy("source.uri", "source.partition")
    low, high = F.min("source.offset"), F.max("source.offset")
    ranges = places.agg(F.count("*").alias("stored"), (high - low + 1).alias("span")).collect()
    span, stored = sum(row["span"] for row in ranges), sum(row["stored"] for row in ranges)
    if missing := span - stored:
        causes = _causes(source, origin, missing)
        yield f"{missing} of {span} offsets of topic {origin.topic} have no message: {causes}"
    if withheld:
        yield f"{withheld} messages are not sent: their record was not kept, or was scrubbed"
    selected = source.rows().count() + withheld
    if selected < stored:
        yield f"the selection leaves out {stored - selected} messages of topic {origin.topic}"


def _is_of(origin: Origin) -> Column:
    uri = F.col("source.uri")
    return (uri == URI + origin.topic) | uri.startswith(f"{URI}{origin.topic}{GENERATION}")


def _causes(source: Source, origin: Origin, missing: int) -> str:
    """The causes with their counts, which are not all known by topic."""
    dead = read_table(source.spark, source.store, "dead_letters").where(_is_of(origin) & F.col("redriven_at").isNull())
    dead_letters, totals = dead.count(), last_note(source.store).totals
    of_store = {
        "erased": len(erased_positions(source.store)),
        "filtered": totals.filtered,
        "duplicates": totals.duplicates,
        "expired on arrival": totals.discarded,
    }
    parts = [f"{dead_letters} dead letters"] if dead_letters else []
    if any(of_store.values()):
        counts = ", ".join(f"{number} {words}" for words, number in of_store.items() if number)
        parts.append(f"{counts} (in the whole store)")
    if (rest := missing - dead_letters - sum(of_store.values())) > 0:
        parts.append(f"at least {rest} more purged, lost, or no records but markers of transactions")
    return ", ".join(parts)
