"""Servers that a resource may not name because they trust all processes on the pod's node."""

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from messagestore_core import addresses
from messagestore_operator.api import Resource
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
