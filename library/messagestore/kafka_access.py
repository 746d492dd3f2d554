"""How a topic's brokers are reached, and what to do when they refuse."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from messagestore.errors import ArgumentError, MessageStoreError
from messagestore_core.contract.records import KafkaCluster

FENCED = "_FENCED"
UNREACHABLE = ("_ALL_BROKERS_DOWN", "_TIMED_OUT", "_TRANSPORT")
_ADVICE = {
    "_AUTHENTICATION": "the brokers at {servers} refuse the credentials: check variables {variables}, and mechanism",
    "_SSL": "the brokers at {servers} are not trusted: check protocol, and ca_file, their authority's certificate",
    "UNKNOWN_TOPIC_OR_PART": "it is not at {servers}, or the user may not see it: create it, or name another",
    "TOPIC_AUTHORIZATION_FAILED": "the user needs Describe and Write on it",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "the user needs Describe and Write on transactional id {id}",
    "INVALID_TRANSACTION_TIMEOUT": "timeout_seconds is more than the brokers' transaction.max.timeout.ms",
    "MSG_SIZE_TOO_LARGE": "it takes no record as large as one of {largest} bytes: raise its max.message.bytes",
    FENCED: "another writer has taken over transactional id {id}, or this one paused for too long",
    **dict.fromkeys(
        UNREACHABLE, "the brokers at {servers} can't be reached: check bootstrap_servers, protocol and the network"
    ),
}


class RefusalError(Exception):
    """The brokers refuse, or can't be reached.

    Attributes:
        code: librdkafka's name of the error.
    """

    def __init__(self, code: str, said: str) -> None:
        super().__init__(f"{code}: {said}")
        self.code, self.said = code, said


def client_settings(cluster: KafkaCluster, environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of librdkafka for a cluster, with secrets.

    Raises:
        ArgumentError: protocol, mechanism and variables don't go together.
        MessageStoreError: a variable is not set, or the certificate authority's file is missing.
    """
    wanted = (cluster.protocol.startswith("SASL_"),) * 2
    if (cluster.mechanism is not None, cluster.environment is not None) != wanted:
        raise ArgumentError("a SASL protocol needs mechanism and environment; other protocols have neither")
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "security.protocol": cluster.protocol}
    if cluster.mechanism is not None and cluster.environment is not None:
        settings["sasl.mechanism"] = cluster.mechanism
        settings["sasl.username"] = _value(cluster.environment.username, environment)
        settings["sasl.password"] = _value(cluster.environment.password, environment)
    if cluster.ca_file is not None:
        if not Path(cluster.ca_file).is_file():
            raise MessageStoreError(f"there is no file {cluster.ca_file}, which ca_file names")
        settings["ssl.ca.location"] = cluster.ca_file
    return settings


def advice(refusal: RefusalError, cluster: KafkaCluster, transactional_id: str, largest: int) -> str:
    """What to do about a refusal where that is known, and librdkafka's message.

    Args:
        largest: bytes of the batch's largest record.
    """
    if refusal.code not in _ADVICE:
        return refusal.said
    names = cluster.environment
    text = _ADVICE[refusal.code].format(
        servers=cluster.bootstrap_servers,
        variables=f"{names.username} and {names.password}" if names else "of the user",
        id=transactional_id,
        largest=largest,
    )
    return f"{text} ({refusal.said})"


def _value(variable: str, environment: Mapping[str, str]) -> str:
    value = environment.get(variable)
    if not value:
        raise MessageStoreError(f"there are no credentials for Kafka: environment variable {variable} is not set")
    return value
