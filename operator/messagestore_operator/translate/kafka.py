"""How a run connects to a Kafka cluster: a part of its document, and the Secrets of its pods.

As with object storage, the document names environment variables and files, never values. What a run needs for both is
put together here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from messagestore_core.contract import records as record_contract
from messagestore_operator.api import MessageStream, ReplayJob, Resource
from messagestore_operator.api.common import CaSecretRef, ClientCertificateSecretRef, KafkaSecurity
from messagestore_operator.api.destinations import KafkaDestination
from messagestore_operator.api.replayjob import Path
from messagestore_operator.api.sources import KafkaSource
from messagestore_operator.translate import storage
from messagestore_operator.translate.common import as_document
from messagestore_operator.translate.http import endpoints_of, http_needs
from messagestore_operator.translate.secrets import SecretVariable, Use, digest
from messagestore_operator.translate.storage import CA_FOLDER, CertificateMount, Needs, StorageAccess, authority_of

USERNAME, PASSWORD = "username", "password"
CLIENT_ID, CLIENT_SECRET = "clientId", "clientSecret"


@dataclass(frozen=True)
class KafkaAccess:
    """A cluster in the run document, and what it needs; Secrets are in the resource's namespace."""

    cluster: record_contract.KafkaCluster
    needs: Needs = ()


def kafka_access(namespace: str, bootstrap_servers: str, security: KafkaSecurity | None) -> KafkaAccess:
    """The access to a source's or destination's cluster.

    Variables and folders are named after the Secret, so that one process can connect to several clusters.
    """
    if security is None:
        return KafkaAccess(record_contract.KafkaCluster(bootstrap_servers=bootstrap_servers))
    oauth = security.oauth
    environment, credentials = _credentials(namespace, security)
    ca_file, authority = _authority(namespace, "caSecretRef", security.ca_secret_ref)
    token_ca_file, token_authority = _authority(namespace, "oauth.caSecretRef", oauth.ca_secret_ref if oauth else None)
    certificate, own = _client_certificate(namespace, security.client_certificate_secret_ref)
    cluster = as_document(
        record_contract.KafkaCluster,
        security,
        bootstrap_servers=bootstrap_servers,
        environment=environment,
        ca_file=ca_file,
        client_certificate=certificate,
        oauth=as_document(record_contract.KafkaOauth, oauth, ca_file=token_ca_file) if oauth else None,
    )
    return KafkaAccess(cluster, (*credentials, *authority, *token_authority, *own))


def _credentials(namespace: str, security: KafkaSecurity) -> tuple[record_contract.KafkaCredentials | None, Needs]:
    if (ref := security.credentials_secret_ref) is None:
        return None, ()
    of_client = security.mechanism == "OAUTHBEARER"
    name, secret = (CLIENT_ID, CLIENT_SECRET) if of_client else (USERNAME, PASSWORD)
    prefix = f"MESSAGESTORE_KAFKA_{digest(namespace, ref.name).upper()}"
    parts = ("CLIENT_ID", "CLIENT_SECRET") if of_client else ("USERNAME", "PASSWORD")
    names = record_contract.KafkaCredentials(username=f"{prefix}_{parts[0]}", password=f"{prefix}_{parts[1]}")
    # Beside a name in the spec the Secret must have none; the run finds out, as the operator reads no values.
    given = security.username is not None
    variables = (
        SecretVariable(names.username, ref.name, name, Use.KAFKA, optional=given),
        SecretVariable(names.password, ref.name, secret, Use.KAFKA),
    )
    return names, tuple(("credentialsSecretRef", variable) for variable in variables)


def _authority(namespace: str, field: str, ref: CaSecretRef | None) -> tuple[str | None, Needs]:
    mount = authority_of(namespace, ref, Use.KAFKA)
    return (mount.path, ((field, mount),)) if mount is not None else (None, ())


def _client_certificate(
    namespace: str, ref: ClientCertificateSecretRef | None
) -> tuple[record_contract.KafkaCertificate | None, Needs]:
    if ref is None:
        return None, ()
    certificate, key = (
        CertificateMount(
            ref.name, key, f"{CA_FOLDER}/kafka-client-{digest(namespace, ref.name, key)}", Use.KAFKA, confidential=True
        )
        for key in (ref.certificate_key, ref.private_key_key)
    )
    files = record_contract.KafkaCertificate(certificate_file=certificate.path, key_file=key.path)
    return files, tuple(("clientCertificateSecretRef", mount) for mount in dict.fromkeys((certificate, key)))


def accesses_of(resource: Resource) -> list[tuple[Path, KafkaAccess]]:
    """The access to each cluster that a resource names, by field."""
    named: list[tuple[Path, KafkaSource | KafkaDestination | None]] = []
    if isinstance(resource, MessageStream):
        named.append((("spec", "source", "kafka"), resource.spec.source.kafka))
        if resource.spec.lifecycle is not None:
            named.append((("spec", "lifecycle", "source", "kafka"), resource.spec.lifecycle.source.kafka))
    elif isinstance(resource, ReplayJob):
        named += [((*path, "kafka"), to.kafka) for path, to in resource.spec.places]
    namespace = resource.metadata.namespace
    return [(path, kafka_access(namespace, kafka.bootstrap_servers, kafka.security)) for path, kafka in named if kafka]


def connections(resource: Resource) -> Iterator[tuple[Path, Needs]]:
    """What a resource needs for each Kafka cluster and HTTP endpoint, by the field that is above their references."""
    for path, access in accesses_of(resource):
        yield (*path, "security"), access.needs
    for path, http in endpoints_of(resource):
        yield path, http_needs(resource.metadata.namespace, http)


def kafka_source(namespace: str, kafka: KafkaSource) -> record_contract.KafkaSource:
    """A source in the run document."""
    access = kafka_access(namespace, kafka.bootstrap_servers, kafka.security)
    return as_document(record_contract.KafkaSource, kafka, cluster=access.cluster, keep_groups=kafka.keep_group_offsets)


def ingest_access(stream: MessageStream) -> StorageAccess:
    """The access that an ingest of the stream needs."""
    return _connected(storage.ingest_access(stream), stream)


def replay_access(job: ReplayJob, stream: MessageStream, target: MessageStream | None) -> StorageAccess:
    """The access that a replay needs; ``target`` is the destination's stream, if it is one."""
    return _connected(storage.replay_access(job, stream, target), job)


def _connected(access: StorageAccess, resource: Resource) -> StorageAccess:
    """With each variable and certificate of the resource's connections once, as two may name the same Secret."""
    needs = dict.fromkeys(need for _, some in connections(resource) for _, need in some)
    return replace(
        access,
        variables=(*access.variables, *(need for need in needs if isinstance(need, SecretVariable))),
        certificates=(*access.certificates, *(need for need in needs if isinstance(need, CertificateMount))),
    )
