"""Servers that a resource may not name because they trust all processes on the pod's node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network

from messagestore_operator.api import Resource
from messagestore_operator.translate.folders import Field, folders
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
METADATA = (
    IPv4Network("100.100.100.200/32"),
    IPv4Network("168.63.129.16/32"),
    IPv4Network("192.0.0.192/32"),
    IPv6Network("fd00:ec2::/32"),
    IPv6Network("fd20:ce::/32"),
    IPv6Network("fd00:c1::/32"),
    IPv6Network("fd00:42::/32"),
)
"""Metadata services that are not link-local: Alibaba Cloud, Azure, Oracle; AWS, Google Cloud, Oracle, Scaleway."""
_THIS_HOST = IPv4Network("0.0.0.0/8")
_EMBEDDING = (IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96"), IPv6Network("64:ff9b::/96"))
"""An IPv4 address is in the last 32 bits."""
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
"""RFC 8215: a network chooses its own prefixes in it, so an IPv4 address is at one of four places (RFC 6052)."""
_ISATAP = (0x00005EFE, 0x02005EFE)
"""RFC 5214: what precedes an IPv4 address in the last 32 bits, below any prefix."""
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
        return _is_of_the_node(address)
    name = _plain(host)
    # A bucket's name may precede the endpoint's, so the end of a name is enough.
    return any(name == one or name.endswith(f".{one}") or one.endswith(f".{name}") for one in _NAMES)


def _is_of_the_node(address: IPv4Address | IPv6Address) -> bool:
    if address.is_loopback or address.is_link_local or address.is_unspecified:
        return True
    if isinstance(address, IPv4Address):
        return address in _THIS_HOST or _is_metadata(address)
    return _is_metadata(address) or any(map(_is_of_the_node, _embedded(address)))


def _is_metadata(address: IPv4Address | IPv6Address) -> bool:
    return any(address in network for network in METADATA)


def _embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    if (mapped := address.ipv4_mapped) is not None:
        yield mapped
    if (relayed := address.sixtofour) is not None:
        yield relayed
    if (tunnelled := address.teredo) is not None:
        yield from tunnelled
    bits = int(address)
    if any(address in network for network in _EMBEDDING) or bits >> 32 & 0xFFFFFFFF in _ISATAP:
        yield IPv4Address(bits & 0xFFFFFFFF)
    if address in _LOCAL_NAT64:
        # Only one of these is meant; the others are mostly 0.0.0.0, which no gateway forwards to.
        yield from (one for one in _translated(bits) if one not in _THIS_HOST)


def _translated(bits: int) -> Iterator[IPv4Address]:
    """The IPv4 addresses behind prefixes of 48, 56, 64 and 96 bits, which leave out bits 64 to 71."""
    without = bits >> 64 << 56 | bits & (1 << 56) - 1
    for prefix in (48, 56, 64):
        yield IPv4Address(without >> 120 - prefix - 32 & 0xFFFFFFFF)
    yield IPv4Address(bits & 0xFFFFFFFF)


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


def _host(server: str) -> str:
    """A server without scheme, port and path; an IPv6 address keeps its brackets."""
    return re.sub(r"^https?://|(:[0-9]+)?(/.*)?$", "", server)
