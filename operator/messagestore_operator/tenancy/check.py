"""Checks a resource against the limits of tenancy."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from messagestore_operator.api import Resource
from messagestore_operator.api.spark import Spark
from messagestore_operator.tenancy.endpoints import endpoints_not_allowed
from messagestore_operator.tenancy.settings import HttpBounds, KafkaBounds, Tenancy
from messagestore_operator.tenancy.sizes import sizes_not_allowed
from messagestore_operator.tenancy.storage import folders_not_allowed
from messagestore_operator.translate.http import endpoints_of, host_of
from messagestore_operator.translate.kafka import accesses_of
from messagestore_operator.translate.refusal import RefusedField


def not_allowed(resource: Resource, tenancy: Tenancy) -> tuple[RefusedField, ...]:
    """The fields that exceed limits of the settings; each message names the setting."""
    return (
        *images_not_allowed(_spark(resource), tenancy.images),
        *conf_not_allowed(_spark(resource), tenancy.conf),
        *sizes_not_allowed(_spark(resource), tenancy.sizes),
        *folders_not_allowed(resource, tenancy.storage),
        *endpoints_not_allowed(resource),
        *refused_protocols(resource, tenancy.kafka),
        *hosts_not_allowed(resource, tenancy.http),
    )


def _spark(resource: Resource) -> Spark:
    """The optional spark block, which all kinds have."""
    spec: Any = getattr(resource, "spec")  # noqa: B009 - each kind has its own
    return spec.spark or Spark()


def images_not_allowed(spark: Spark, allowed: Iterable[str]) -> Iterator[RefusedField]:
    """The image of a resource if it is not allowed; a resource without one gets the operator's."""
    if spark.image and not any(_fits(spark.image, one) for one in allowed):
        words = f"{spark.image} is none of the images that the operator's settings allow (tenancy.images)"
        yield RefusedField(("spec", "spark", "image"), words)


def _fits(image: str, allowed: str) -> bool:
    beginning, star, _ = allowed.partition("*")
    if not star:
        return image == allowed
    # After a name comes a tag or a digest, not a port and a path.
    return image.startswith(beginning) and (beginning.endswith("/") or "/" not in image.removeprefix(beginning))


def conf_not_allowed(spark: Spark, allowed: Collection[str] | None) -> Iterator[RefusedField]:
    """The Spark settings of a resource that are not in ``allowed``; None allows all that its definition lists."""
    for name in spark.conf:
        if allowed is not None and name not in allowed:
            words = "is none of the Spark settings that the operator's settings allow (tenancy.conf)"
            yield RefusedField(("spec", "spark", "conf", name), words)


def hosts_not_allowed(resource: Resource, bounds: HttpBounds) -> Iterator[RefusedField]:
    """The URLs of a replay whose hosts are not allowed."""
    for path, http in endpoints_of(resource):
        host = host_of(http.url).lower()
        if not any(host.endswith(one[1:]) if one.startswith("*") else host == one for one in bounds.hosts):
            words = f"{host} is none of the hosts that the operator's settings allow (tenancy.http.hosts)"
            yield RefusedField((*path, "url"), words)


def refused_protocols(resource: Resource, bounds: KafkaBounds) -> Iterator[RefusedField]:
    """The fields with which credentials would be sent without encryption."""
    if bounds.allow_plaintext_sasl:
        return
    or_ask = "or ask who runs the operator to set tenancy.kafka.allowPlaintextSasl"
    for path, access in accesses_of(resource):
        security, oauth = (*path, "security"), access.cluster.oauth
        if access.cluster.protocol == "SASL_PLAINTEXT":
            words = f"SASL_PLAINTEXT sends credentials without TLS: use SASL_SSL, {or_ask}"
            yield RefusedField((*security, "protocol"), words)
        if oauth is not None and oauth.token_endpoint.startswith("http://"):
            words = f"http sends the client's secret without TLS: use https, {or_ask}"
            yield RefusedField((*security, "oauth", "tokenEndpoint"), words)
