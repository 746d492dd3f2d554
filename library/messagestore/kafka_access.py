"""How a topic's brokers are reached, and what to do when they refuse."""

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
        ArgumentError: protocol, mechanism and the other fields don't go together.
        MessageStoreError: a variable is not set, or a file is missing.
    """
    _check(cluster)
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "security.protocol": cluster.protocol}
    if cluster.mechanism is not None:
        settings |= {"sasl.mechanism": cluster.mechanism, **_login(cluster, environment)}
    if cluster.ca_file is not None:
        settings["ssl.ca.location"] = _file(cluster.ca_file, "ca_file")
    if (own := cluster.client_certificate) is not None:
        settings["ssl.certificate.location"] = _file(own.certificate_file, "client_certificate.certificate_file")
        settings["ssl.key.location"] = _file(own.key_file, "client_certificate.key_file")
    return settings


def _check(cluster: KafkaCluster) -> None:
    wanted = (cluster.protocol.startswith("SASL_"),) * 2
    if (cluster.mechanism is not None, cluster.environment is not None) != wanted:
        raise ArgumentError("a SASL protocol needs mechanism and environment; other protocols have neither")
    if (cluster.mechanism == "OAUTHBEARER") != (cluster.oauth is not None):
        raise ArgumentError("mechanism OAUTHBEARER needs oauth; other mechanisms don't have it")
    if cluster.username is not None and cluster.mechanism in (None, "OAUTHBEARER"):
        raise ArgumentError("username goes with mechanism PLAIN or SCRAM")
    if cluster.client_certificate is not None and not cluster.protocol.endswith("SSL"):
        raise ArgumentError("client_certificate goes with protocol SSL or SASL_SSL")


def _login(cluster: KafkaCluster, environment: Mapping[str, str]) -> dict[str, str]:
    names, oauth = cluster.environment, cluster.oauth
    assert names is not None
    secret = _value(names.password, environment)
    if oauth is None:
        if cluster.username is not None and environment.get(names.username):
            raise ArgumentError(f"username and environment variable {names.username} both name the user: leave one out")
        user = _value(names.username, environment) if cluster.username is None else cluster.username
        return {"sasl.username": user, "sasl.password": secret}
    settings = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": _value(names.username, environment),
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.token.endpoint.url": oauth.token_endpoint,
    }
    if oauth.scope is not None:
        settings["sasl.oauthbearer.scope"] = oauth.scope
    if oauth.ca_file is not None:
        settings["https.ca.location"] = _file(oauth.ca_file, "oauth.ca_file")
    return settings


def _file(name: str, field: str) -> str:
    if not Path(name).is_file():
        raise MessageStoreError(f"there is no file {name}, which {field} names")
    return name


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
