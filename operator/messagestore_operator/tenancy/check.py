"""Checks a resource against the limits of tenancy, and refuses servers that trust all processes on the pod's node."""

import re
from collections.abc import Collection, Iterable, Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from messagestore_core import addresses
from messagestore_operator.api import Resource
from messagestore_operator.api.spark import Spark
from messagestore_operator.tenancy.settings import HttpBounds, KafkaBounds, Tenancy
from messagestore_operator.tenancy.sizes import sizes_not_allowed
from messagestore_operator.tenancy.storage import folders_not_allowed
from messagestore_operator.translate.folders import Field, folders
from messagestore_operator.translate.http import endpoints_of, host_of
from messagestore_operator.translate.kafka import accesses_of
from messagestore_operator.translate.refusal import RefusedField

_NAMES = (
    "localhost",
    "localhost.localdomain",
    "ip6-localhost",
    "ip6-loopback",
    # Alone, by the search domains that clouds give their machines.
    "metadata",
    "instance-data",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data.ec2.internal",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "api.metadata.cloud.ibm.com",
)
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_WORDS = "names the pod itself, its node or a cloud's metadata service, which runs may not reach"


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
    return resource.spec.spark or Spark()


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


def endpoints_not_allowed(resource: Resource) -> Iterator[RefusedField]:
    """The servers of a resource that are loopback, link-local or a metadata service.

    Names are not resolved: the address may have changed when a run uses it.
    """
    for path, host in _hosts(resource):
        if _is_unclear(host):
            yield RefusedField(
                path, f"{host} is no address in its plain form, four decimal numbers without leading zeros"
            )
        elif is_of_the_node(host):
            yield RefusedField(path, f"{host} {_WORDS}")


def is_of_the_node(host: str) -> bool:
    """Whether only processes of the node itself should use a host, judged by its name or address."""
    address = _address(host)
    if address is not None:
        return addresses.is_of_the_node(address)
    name = _plain(host)
    # A bucket's name may precede the endpoint's, so the end of a name is enough.
    return any(name == one or name.endswith(f".{one}") or one.endswith(f".{name}") for one in _NAMES)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    plain = _plain(host)
    try:
        return IPv6Address(plain[1:-1]) if plain.startswith("[") else IPv4Address(plain)
    except AddressValueError:
        return None


def _is_unclear(host: str) -> bool:
    """Whether programs read a host as different addresses, or only some as an address: 127.1, 0x7f.1, 0177.0.0.1."""
    if _address(host) is not None:
        return False
    plain = _plain(host)
    return plain.startswith("[") or bool(_NUMBER.fullmatch(plain.rpartition(".")[2]))


def _plain(host: str) -> str:
    return host.lower().removesuffix(".")


def _hosts(resource: Resource) -> Iterator[tuple[Field, str]]:
    for folder in folders(resource):
        if folder.storage is not None and folder.storage.endpoint is not None:
            yield (*folder.storage_path, "endpoint"), _host(folder.storage.endpoint)
    for path, access in accesses_of(resource):
        for server in access.cluster.bootstrap_servers.split(","):
            yield (*path, "bootstrapServers"), _host(server)
        if access.cluster.oauth is not None:
            yield (*path, "security", "oauth", "tokenEndpoint"), _host(access.cluster.oauth.token_endpoint)
    for path, http in endpoints_of(resource):
        yield (*path, "url"), host_of(http.url)


def _host(server: str) -> str:
    """A server without scheme, port and path; an IPv6 address keeps its brackets."""
    return re.sub(r"^https?://|(:[0-9]+)?(/.*)?$", "", server)
