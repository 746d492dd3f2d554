"""What a Kafka cluster holds now. The clients run in Spark's JVM, and take credentials from its environment."""

import json
import os
import re
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from messagestore_core.clock import from_microseconds
from messagestore_core.contract.records import KafkaCluster, KafkaSource
from messagestore_core.store.errors import KAFKA_UNREACHABLE, RunFailedError
from messagestore_core.store.offsets import OffsetRange, Partition
from messagestore_jobs.session import extension
from messagestore_jobs.source.plan import Listed

_DENIED = ("SaslAuthenticationException", "there are no credentials for Kafka")
_NOT_ALLOWED = re.compile(r"[^\n]*(?:not authorized to|authorization fail)[^\n]*", re.I)
"""A line of the JVM's about a user whom the brokers know, and who lacks an ACL."""
_LACKS_ACL = {
    r"transactional ?id": "a transactional id",
    r"group": "a consumer group",
    r"topic": "a topic",
    r"": "the cluster",
}
"""Of what kind of resource such a line tells: the first expression that it matches."""
_NO_TOKEN = re.compile(r"The response code (\d+) and error response .* reading the token endpoint response; will not")
_NOT_KNOWN = re.compile(r"Received fatal alert: (\w*certificate\w*|unknown_ca|access_denied)\b")
"""What brokers answer to a client's certificate that they don't know, take or miss (RFC 8446, section 6.2)."""
_CONNECT_SECONDS = 5.0
_ADVICE = {
    "KafkaDenied": "the brokers at {servers} refuse the credentials: check the keys of the Secret, and what the user "
    "may do",
    KAFKA_UNREACHABLE: "the brokers at {servers} can't be reached: check bootstrapServers, security and the network",
}


def access(cluster: KafkaCluster) -> dict[str, Any]:
    """The cluster for the Spark extension, with names of variables and no secret.

    Raises:
        RunFailedError: the user has two names.
    """
    names = cluster.environment
    if cluster.username is not None and names is not None and os.environ.get(names.username):
        raise RunFailedError(
            "KafkaDenied",
            "security.username names Kafka's user, and so does key username of the Secret: leave one of them out",
        )
    return cluster.model_dump(mode="json", by_alias=True)


def check_brokers(cluster: KafkaCluster) -> None:
    """Look whether one of the brokers to ask first takes a connection, which their clients wait for much longer.

    Raises:
        RunFailedError: none does.
    """
    servers = cluster.bootstrap_servers.split(",")
    for server in servers:
        host, _, port = server.rpartition(":")
        with suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
            return
    advice = _ADVICE[KAFKA_UNREACHABLE].format(servers=cluster.bootstrap_servers)
    raise RunFailedError(KAFKA_UNREACHABLE, f"{advice} (no connection)")


def list_partitions(spark: SparkSession, source: KafkaSource) -> list[Listed]:
    """All partitions of the source's topics.

    Raises:
        RunFailedError: a named topic is missing, or the cluster can't be reached.
    """
    return listed_partitions(spark, source.cluster, source.topics, source.topic_pattern, "spec.source.kafka.topics")


def ask(spark: SparkSession, cluster: KafkaCluster, question: Callable[[Any, str], Any]) -> Any:
    """What the Spark extension, the first argument of a question, answers about a cluster, the second.

    Raises:
        RunFailedError: the cluster can't be reached.
    """
    try:
        return question(extension(spark), json.dumps(access(cluster)))
    except Py4JJavaError as error:
        raise kafka_failure(error, cluster) from error


def listed_partitions(
    spark: SparkSession, cluster: KafkaCluster, topics: Sequence[str], pattern: str | None, field: str
) -> list[Listed]:
    """All partitions of some topics, and of those whose names match a pattern.

    Raises:
        RunFailedError: a named topic is missing, and ``field`` is to be corrected; the pattern is no expression;
            or the cluster can't be reached.
    """
    try:
        listing = ask(spark, cluster, lambda of, at: of.KafkaOffsets.list(at, json.dumps(topics), pattern))
    except IllegalArgumentException as error:
        why = str(error).partition("\n")[0][:300]
        raise RunFailedError("InvalidSpec", f"topicPattern is no regular expression: {why}; correct it") from None
    listed = [
        Listed(Partition(p["topic"], p["topicId"], p["partition"]), p["earliest"], p["latest"])
        for p in json.loads(listing)
    ]
    missing = sorted(set(topics) - {one.partition.topic for one in listed})
    if missing:
        raise RunFailedError(
            "TopicMissing",
            f"there is no topic {', '.join(missing)} at {cluster.bootstrap_servers}, or the user may not see it: "
            f"create it, or correct {field}",
        )
    return listed


def oldest_record(spark: SparkSession, source: KafkaSource, waiting: Sequence[OffsetRange]) -> datetime | None:
    """The time of the oldest among the ranges' first records; None if none is found in time.

    Times that are no milliseconds up to the year 9999, as of producers that count microseconds, count as absent.
    """
    starts = [{"topic": r.partition.topic, "partition": r.partition.number, "offset": r.start} for r in waiting]
    milliseconds = extension(spark).KafkaOffsets.oldest(json.dumps(access(source.cluster)), json.dumps(starts))
    return None if milliseconds < 0 else from_microseconds(milliseconds * 1000)


def has_committed(spark: SparkSession, cluster: KafkaCluster, partition: Partition, start: int, end: int) -> bool:
    """Whether a range of offsets has a committed record, as far as its records are still there.

    Raises:
        RunFailedError: the cluster can't be reached.
    """
    range_ = (partition.topic, partition.number, start, end)
    return bool(ask(spark, cluster, lambda of, at: of.KafkaOffsets.hasCommitted(at, *range_)))


def kafka_failure(error: Exception, cluster: KafkaCluster) -> RunFailedError:
    """An error of the JVM about a cluster, as a reason and what to do."""
    text = str(error)
    if cluster.oauth is not None and (refused := _NO_TOKEN.search(text)):
        # Not what else it said: it may be another server than a client may see.
        words = f"token endpoint {cluster.oauth.token_endpoint} refuses the client with code {refused[1]}"
        return RunFailedError("KafkaDenied", f"{words}: check keys clientId and clientSecret of the Secret, and scope")
    if lines := _NOT_ALLOWED.findall(text):
        return _not_allowed(lines, cluster)
    denied = any(sign in text for sign in _DENIED) or _NOT_KNOWN.search(text)
    reason = "KafkaDenied" if denied else KAFKA_UNREACHABLE
    advice = _ADVICE[reason].format(servers=cluster.bootstrap_servers)
    return RunFailedError(reason, f"{advice} ({_said(text)})")


def _not_allowed(lines: list[str], cluster: KafkaCluster) -> RunFailedError:
    # The line that names the resource, if one does.
    line = next((line for line in lines if "Not authorized to access" in line), lines[0])
    kind = next(kind for sign, kind in _LACKS_ACL.items() if re.search(sign, line, re.I))
    words = f"the brokers at {cluster.bootstrap_servers} know the user, but it lacks an ACL on {kind}"
    said = line.strip().removeprefix(": ").removeprefix("Caused by: ")[:300]
    return RunFailedError("KafkaDenied", f"{words}: docs/kafka.md lists those that it needs ({said})")


def _said(text: str) -> str:
    """The first line of Java's message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0] if lines else "")
    return said[:300]
