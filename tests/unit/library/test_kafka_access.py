"""The Kafka client's configuration, and the messages about its errors."""

from pathlib import Path
from typing import Any

import pytest

from messagestore.errors import ArgumentError, MessageStoreError
from messagestore.kafka_access import RefusalError, advice, client_settings
from messagestore.writer import KafkaCertificate, KafkaCluster, KafkaCredentials, KafkaOauth

VARIABLES = KafkaCredentials(username="ORDERS_USER", password="ORDERS_PASSWORD")
ENVIRONMENT = {"ORDERS_USER": "alice", "ORDERS_PASSWORD": 'pass"word'}
OPEN = KafkaCluster(bootstrap_servers="kafka:9092")


def secured(ca_file: str | None = None) -> KafkaCluster:
    return KafkaCluster(
        bootstrap_servers="kafka:9093",
        protocol="SASL_SSL",
        mechanism="SCRAM-SHA-512",
        environment=VARIABLES,
        ca_file=ca_file,
    )


def test_a_cluster_for_everybody_is_reached_without_a_name() -> None:
    assert client_settings(OPEN, {}) == {"bootstrap.servers": "kafka:9092", "security.protocol": "PLAINTEXT"}


def test_user_and_password_come_from_the_variables_that_are_named(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.touch()

    assert client_settings(secured(str(authority)), ENVIRONMENT) == {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": 'pass"word',
        "ssl.ca.location": str(authority),
    }


@pytest.mark.parametrize("password", [{}, {"ORDERS_PASSWORD": ""}], ids=["absent", "empty"])
def test_a_variable_that_is_not_set_is_named(password: dict[str, str]) -> None:
    with pytest.raises(MessageStoreError, match="environment variable ORDERS_PASSWORD is not set"):
        client_settings(secured(), {"ORDERS_USER": "alice", **password})


def test_a_certificate_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MessageStoreError, match=f"there is no file {tmp_path}/ca.crt"):
        client_settings(secured(f"{tmp_path}/ca.crt"), ENVIRONMENT)


@pytest.mark.parametrize(
    "change",
    [{"mechanism": None}, {"environment": None}, {"protocol": "SSL"}, {"protocol": "SSL", "environment": None}],
)
def test_sasl_needs_mechanism_and_user_and_nothing_else_does(change: dict[str, str | None]) -> None:
    with pytest.raises(ArgumentError, match="a SASL protocol needs mechanism and environment"):
        client_settings(secured().model_copy(update=change), ENVIRONMENT)


def test_a_client_shows_its_certificate(tmp_path: Path) -> None:
    certificate, key = tmp_path / "user.crt", tmp_path / "user.key"
    own = KafkaCertificate(certificate_file=str(certificate), key_file=str(key))
    cluster = KafkaCluster(bootstrap_servers="kafka:9093", protocol="SSL", client_certificate=own)
    certificate.touch()
    with pytest.raises(MessageStoreError, match=f"there is no file {key}, which client_certificate.key_file names"):
        client_settings(cluster, {})
    key.touch()
    settings = client_settings(cluster, {})
    assert (settings["ssl.certificate.location"], settings["ssl.key.location"]) == (str(certificate), str(key))


def test_a_client_asks_for_tokens_with_its_id_and_secret() -> None:
    oauth = KafkaOauth(token_endpoint="https://tokens/token", scope="orders")
    cluster = secured().model_copy(update={"mechanism": "OAUTHBEARER", "oauth": oauth})
    assert client_settings(cluster, ENVIRONMENT) == {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": 'pass"word',
        "sasl.oauthbearer.token.endpoint.url": "https://tokens/token",
        "sasl.oauthbearer.scope": "orders",
    }


def test_a_user_has_one_name() -> None:
    named = secured().model_copy(update={"username": "bob"})
    assert client_settings(named, {"ORDERS_PASSWORD": "x"})["sasl.username"] == "bob"
    with pytest.raises(ArgumentError, match="username and environment variable ORDERS_USER both name the user"):
        client_settings(named, ENVIRONMENT)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs oauth"),
        ({"oauth": KafkaOauth(token_endpoint="https://tokens")}, "OAUTHBEARER needs oauth"),
        ({"protocol": "SSL", "mechanism": None, "environment": None, "username": "bob"}, "username goes with"),
        (
            {
                "protocol": "SASL_PLAINTEXT",
                "client_certificate": KafkaCertificate(certificate_file="a", key_file="b"),
            },
            "client_certificate goes with protocol SSL",
        ),
    ],
)
def test_settings_that_exclude_each_other_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        client_settings(secured().model_copy(update=change), ENVIRONMENT)


def test_a_refusal_says_what_to_do_and_what_was_said() -> None:
    denied = advice(RefusalError("_AUTHENTICATION", "no such user"), secured(), "w-1", 10)
    unknown = advice(RefusalError("POLICY_VIOLATION", "Policy violation"), OPEN, "w-1", 10)
    not_allowed = advice(RefusalError("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "denied"), OPEN, "w-1", 10)

    assert denied == (
        "the brokers at kafka:9093 refuse the credentials: check variables ORDERS_USER and ORDERS_PASSWORD, and "
        "mechanism (no such user)"
    )
    assert unknown == "Policy violation"
    assert not_allowed == "the user needs Describe and Write on transactional id w-1 (denied)"
