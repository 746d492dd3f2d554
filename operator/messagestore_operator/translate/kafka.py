"""How a run reaches a Kafka cluster: a part of its document, and what its pods need of Secrets.

As with object storage, the document names environment variables and files, never a value.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from messagestore_jobs.contract import run_document as contract
from messagestore_operator.api import MessageStream, ReplayJob
from messagestore_operator.api.common import KafkaSecurity
from messagestore_operator.api.sources import KafkaSource
from messagestore_operator.translate.storage import CA_FOLDER, CertificateMount, SecretVariable

USERNAME, PASSWORD = "username", "password"


@dataclass(frozen=True)
class KafkaAccess:
    """What it takes to reach one cluster; Secrets are of the resource's own namespace."""

    cluster: contract.KafkaCluster
    variables: tuple[SecretVariable, ...] = ()
    certificates: tuple[CertificateMount, ...] = ()


def kafka_access(namespace: str, bootstrap_servers: str, security: KafkaSecurity | None) -> KafkaAccess:
    """A cluster as a source or destination names it.

    Variables and folders are named after the Secret, so that one process can reach several clusters.
    """
    if security is None:
        return KafkaAccess(contract.KafkaCluster(bootstrap_servers=bootstrap_servers))
    variables: tuple[SecretVariable, ...] = ()
    environment, authority = None, None
    if (credentials := security.credentials_secret_ref) is not None:
        prefix = f"MESSAGESTORE_KAFKA_{_digest(namespace, credentials.name).upper()}"
        environment = contract.KafkaCredentials(username=f"{prefix}_USERNAME", password=f"{prefix}_PASSWORD")
        variables = (
            SecretVariable(environment.username, credentials.name, USERNAME),
            SecretVariable(environment.password, credentials.name, PASSWORD),
        )
    if (ref := security.ca_secret_ref) is not None:
        authority = CertificateMount(ref.name, ref.key, f"{CA_FOLDER}/kafka-{_digest(namespace, ref.name, ref.key)}")
    cluster = contract.KafkaCluster(
        bootstrap_servers=bootstrap_servers,
        protocol=security.protocol,
        mechanism=security.mechanism,
        environment=environment,
        ca_file=authority.path if authority else None,
    )
    return KafkaAccess(cluster, variables, (authority,) if authority else ())


def source_accesses(stream: MessageStream) -> tuple[KafkaAccess, ...]:
    """What an ingest of the stream needs, of messages and of status updates, where they come from Kafka."""
    sources = [stream.spec.source, *([stream.spec.lifecycle.source] if stream.spec.lifecycle else [])]
    named = [source.kafka for source in sources if source.kafka is not None]
    return tuple(kafka_access(stream.metadata.namespace, kafka.bootstrap_servers, kafka.security) for kafka in named)


def destination_access(job: ReplayJob) -> KafkaAccess | None:
    """What a replay needs, if it sends to Kafka."""
    kafka = job.spec.destination.kafka
    return None if kafka is None else kafka_access(job.metadata.namespace, kafka.bootstrap_servers, kafka.security)


def kafka_source(namespace: str, kafka: KafkaSource) -> contract.KafkaSource:
    """A source as a job is told of it."""
    return contract.KafkaSource(
        cluster=kafka_access(namespace, kafka.bootstrap_servers, kafka.security).cluster,
        topics=kafka.topics,
        topic_pattern=kafka.topic_pattern,
        starting_offsets=kafka.starting_offsets,
        max_records_per_batch=kafka.max_records_per_batch,
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
