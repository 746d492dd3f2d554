"""Parts that more than one kind has: references, storage, schedules, Kafka's security."""

from typing import Annotated

from pydantic import Field

from messagestore_core.contract import purge
from messagestore_core.contract.base import Flag, Where
from messagestore_core.contract.records import SaslMechanism, SecurityProtocol
from messagestore_operator.api import rules
from messagestore_operator.api.model import Model
from messagestore_operator.api.scalars import (
    Cron,
    Duration,
    Endpoint,
    Name,
    OauthScope,
    SecretKey,
    TimeZone,
    TokenEndpoint,
    UserName,
)


class StreamRef(Model):
    """A MessageStream of the same namespace."""

    name: Name = Field(description="Name of the MessageStream.")


class SecretRef(Model):
    """A Secret of the same namespace whose keys have fixed names."""

    name: Name = Field(description="Name of the Secret.")


class CaSecretRef(Model):
    """A certificate authority's certificate in a Secret of the same namespace."""

    name: Name = Field(description="Name of the Secret.")
    key: SecretKey = Field(default="ca.crt", description="Key in the Secret that holds the certificate in PEM.")


class ClientCertificateSecretRef(Model):
    """A client's certificate and private key in a Secret of the same namespace; the defaults fit kubernetes.io/tls."""

    name: Name = Field(description="Name of the Secret.")
    certificate_key: SecretKey = Field(
        default="tls.crt", description="Key in the Secret that holds the certificate, and its chain, in PEM."
    )
    private_key_key: SecretKey = Field(
        default="tls.key", description="Key in the Secret that holds the private key in PEM (PKCS#8, not encrypted)."
    )


class KeySecretRef(Model):
    """A secret key in a Secret of the same namespace."""

    name: Name = Field(description="Name of the Secret.")
    key: SecretKey = Field(default="key", description="Key in the Secret that holds the bytes.")


class Storage(Model):
    """How to reach an object store."""

    endpoint: Endpoint | None = Field(default=None, description="URL of the object store. If absent, AWS S3.")
    region: Annotated[str, Field(strict=True, min_length=1, max_length=64, pattern="^[A-Za-z0-9-]+$")] = Field(
        default="us-east-1", description="Region of the bucket. Servers without regions need one too."
    )
    path_style_access: Flag = Field(
        default=False, description="If true, URLs have the bucket's name in the path instead of the host name."
    )
    credentials_secret_ref: SecretRef | None = Field(
        default=None, description="Secret with the keys accessKey, secretKey and, optionally, sessionToken."
    )
    ca_secret_ref: CaSecretRef | None = Field(
        default=None, description="Certificate authority that signed the server's certificate."
    )


class Schedule(Model):
    """Times of a cron expression."""

    cron: Cron = Field(description="When to run: minute, hour, day of month, month and day of week.")
    time_zone: TimeZone = Field(default=TimeZone("UTC"), description="Time zone of the cron expression.")
    starting_deadline: Duration | None = Field(
        default=None, description="How late a run may start. A run that would be later is skipped."
    )


class Manual(Model):
    """Runs when annotation messagestore.dev/run-requested changes."""


class Oauth(Model):
    """Where tokens come from, by OAuth 2.0's grant of client credentials."""

    token_endpoint: TokenEndpoint = Field(description="URL of the server's token endpoint.")
    scope: OauthScope | None = Field(default=None, description="Scope of the tokens, names separated by blanks.")
    ca_secret_ref: CaSecretRef | None = Field(
        default=None, description="Certificate authority that signed the token endpoint's certificate."
    )


class KafkaSecurity(Model):
    """Authentication and encryption of connections to Kafka."""

    validations = rules.KAFKA_SECURITY

    protocol: SecurityProtocol = Field(description="Kafka's security protocol.")
    mechanism: SaslMechanism | None = Field(default=None, description="SASL mechanism of the clients.")
    credentials_secret_ref: SecretRef | None = Field(
        default=None,
        description="Secret with the keys username and password; with OAUTHBEARER with clientId and clientSecret.",
    )
    username: UserName | None = Field(
        default=None, description="Name of the user, if the Secret has only a password. Not with OAUTHBEARER."
    )
    oauth: Oauth | None = Field(default=None, description="Where tokens come from, for mechanism OAUTHBEARER.")
    client_certificate_secret_ref: ClientCertificateSecretRef | None = Field(
        default=None, description="Certificate by which the brokers know the client. With SSL or SASL_SSL."
    )
    ca_secret_ref: CaSecretRef | None = Field(
        default=None, description="Certificate authority that signed the brokers' certificates."
    )


class Match(purge.Match, Model):
    """Messages that meet all given conditions on their envelopes."""

    validations = (rules.MATCH,)

    where: Where = ""
