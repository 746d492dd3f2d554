"""How a run connects to a Kafka cluster: a part of its document, and the Secrets of its pods.

As with object storage, the document names environment variables and files, never values. What a run needs for both is
put together here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from messagestore_core.contract import records as record_contract
from messagestore_operator.api import MessageStream, ReplayJob, Resource
from messagestore_operator.api.common import KafkaSecurity
from messagestore_operator.api.replayjob import KafkaDestination
from messagestore_operator.api.sources import KafkaSource
from messagestore_operator.translate import storage
from messagestore_operator.translate.common import as_document
from messagestore_operator.translate.secrets import SecretVariable, Use, digest
from messagestore_operator.translate.storage import CA_FOLDER, CertificateMount, StorageAccess

USERNAME, PASSWORD = "username", "password"


@dataclass(frozen=True)
class KafkaAccess:
    """The variables and certificates for one cluster; Secrets are in the resource's namespace."""

    cluster: record_contract.KafkaCluster
    variables: tuple[SecretVariable, ...] = ()
    certificates: tuple[CertificateMount, ...] = ()


def kafka_access(namespace: str, bootstrap_servers: str, security: KafkaSecurity | None) -> KafkaAccess:
    """The access to a source's or destination's cluster.

    Variables and folders are named after the Secret, so that one process can connect to several clusters.
    """
    if security is None:
        return KafkaAccess(record_contract.KafkaCluster(bootstrap_servers=bootstrap_servers))
    variables: tuple[SecretVariable, ...] = ()
    environment, authority = None, None
    if (credentials := security.credentials_secret_ref) is not None:
        prefix = f"MESSAGESTORE_KAFKA_{digest(namespace, credentials.name).upper()}"
        environment = record_contract.KafkaCredentials(username=f"{prefix}_USERNAME", password=f"{prefix}_PASSWORD")
        variables = (
            SecretVariable(environment.username, credentials.name, USERNAME, Use.KAFKA),
            SecretVariable(environment.password, credentials.name, PASSWORD, Use.KAFKA),
        )
    if (ref := security.ca_secret_ref) is not None:
        folder = f"{CA_FOLDER}/kafka-{digest(namespace, ref.name, ref.key)}"
        authority = CertificateMount(ref.name, ref.key, folder, Use.KAFKA)
    cluster = as_document(
        record_contract.KafkaCluster,
        security,
        bootstrap_servers=bootstrap_servers,
        environment=environment,
        ca_file=authority.path if authority else None,
    )
    return KafkaAccess(cluster, variables, (authority,) if authority else ())


def accesses_of(resource: Resource) -> list[tuple[tuple[str, ...], KafkaAccess]]:
    """The access to each cluster that a resource names, by field."""
    named: list[tuple[tuple[str, ...], KafkaSource | KafkaDestination | None]] = []
    if isinstance(resource, MessageStream):
        named.append((("spec", "source", "kafka"), resource.spec.source.kafka))
        if resource.spec.lifecycle is not None:
            named.append((("spec", "lifecycle", "source", "kafka"), resource.spec.lifecycle.source.kafka))
    elif isinstance(resource, ReplayJob):
        named.append((("spec", "destination", "kafka"), resource.spec.destination.kafka))
    namespace = resource.metadata.namespace
    return [(path, kafka_access(namespace, kafka.bootstrap_servers, kafka.security)) for path, kafka in named if kafka]


def source_accesses(stream: MessageStream) -> tuple[KafkaAccess, ...]:
    """The access that an ingest of the stream needs for messages and status updates from Kafka."""
    return tuple(access for _, access in accesses_of(stream))


def destination_access(job: ReplayJob) -> KafkaAccess | None:
    """The access that a replay needs, if it sends to Kafka."""
    return next((access for _, access in accesses_of(job)), None)


def kafka_source(namespace: str, kafka: KafkaSource) -> record_contract.KafkaSource:
    """A source in the run document."""
    access = kafka_access(namespace, kafka.bootstrap_servers, kafka.security)
    return as_document(record_contract.KafkaSource, kafka, cluster=access.cluster)


def ingest_access(stream: MessageStream) -> StorageAccess:
    """The access that an ingest of the stream needs.

    Raises:
        NotSupportedError: a folder is not on a supported object store, or storages contradict each other.
    """
    return _with(storage.ingest_access(stream), *source_accesses(stream))


def replay_access(job: ReplayJob, stream: MessageStream, target: MessageStream | None) -> StorageAccess:
    """The access that a replay needs; ``target`` is the destination's stream, if it is one.

    Raises:
        NotSupportedError: a folder is not on a supported object store, or storages contradict each other.
    """
    kafka = destination_access(job)
    return _with(storage.replay_access(job, stream, target), *([kafka] if kafka else []))


def _with(access: StorageAccess, *clusters: KafkaAccess) -> StorageAccess:
    """Each variable and certificate once, as two sources may name the same Secret."""
    variables = [variable for cluster in clusters for variable in cluster.variables]
    certificates = [mount for cluster in clusters for mount in cluster.certificates]
    return replace(
        access,
        variables=(*access.variables, *dict.fromkeys(variables)),
        certificates=(*access.certificates, *dict.fromkeys(certificates)),
    )
