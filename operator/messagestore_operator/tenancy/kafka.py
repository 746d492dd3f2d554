"""How resources may authenticate to Kafka brokers."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from messagestore_operator.api import Resource
from messagestore_operator.api.model import Model
from messagestore_operator.translate.kafka import accesses_of
from messagestore_operator.translate.refusal import RefusedField


class KafkaBounds(Model):
    """Limits for connections to Kafka."""

    allow_plaintext_sasl: bool = Field(
        default=False,
        description="Allow protocol SASL_PLAINTEXT, which sends credentials and messages without TLS.",
    )


def refused_protocols(resource: Resource, bounds: KafkaBounds) -> Iterator[RefusedField]:
    """The fields with which credentials would be sent without encryption."""
    if bounds.allow_plaintext_sasl:
        return
    for path, access in accesses_of(resource):
        if access.cluster.protocol == "SASL_PLAINTEXT":
            words = "SASL_PLAINTEXT sends credentials without TLS: use SASL_SSL, or ask who runs the operator to set"
            yield RefusedField((*path, "security", "protocol"), f"{words} tenancy.kafka.allowPlaintextSasl")
