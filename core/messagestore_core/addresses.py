"""Addresses that a run must not reach: those of its node, of metadata services, and of private networks."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal

Reach = Literal["Public", "Private", "Any"]
"""Which addresses a run may reach: those of the Internet, those of private networks too, or also those of its node."""
Address = IPv4Address | IPv6Address

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
THIS_HOST = IPv4Network("0.0.0.0/8")
_EMBEDDING = (IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96"), IPv6Network("64:ff9b::/96"))
"""An IPv4 address is in the last 32 bits."""
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
"""RFC 8215: a network chooses its own prefixes in it, so an IPv4 address is at one of four places (RFC 6052)."""
_ISATAP = (0x00005EFE, 0x02005EFE)
"""RFC 5214: what precedes an IPv4 address in the last 32 bits, below any prefix."""


def is_allowed(address: Address, reach: Reach) -> bool:
    """Whether a run may reach an address."""
    if reach == "Any":
        return True
    if is_of_the_node(address):
        return False
    return reach == "Private" or _is_public(address)


def is_of_the_node(address: Address) -> bool:
    """Whether only processes of the node itself should use an address."""
    if address.is_loopback or address.is_link_local or address.is_unspecified:
        return True
    if isinstance(address, IPv4Address):
        return address in THIS_HOST or _is_metadata(address)
    return _is_metadata(address) or any(map(is_of_the_node, _embedded(address)))


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and not all(map(_is_public, _embedded(address))):
        return False
    # An address of NAT64 is global if the one in it is.
    translated = isinstance(address, IPv6Address) and (address in _EMBEDDING[2] or address in _LOCAL_NAT64)
    return (address.is_global or translated) and not address.is_multicast


def _is_metadata(address: Address) -> bool:
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
        yield from (one for one in _translated(bits) if one not in THIS_HOST)


def _translated(bits: int) -> Iterator[IPv4Address]:
    """The IPv4 addresses behind prefixes of 48, 56, 64 and 96 bits, which leave out bits 64 to 71."""
    without = bits >> 64 << 56 | bits & (1 << 56) - 1
    for prefix in (48, 56, 64):
        yield IPv4Address(without >> 120 - prefix - 32 & 0xFFFFFFFF)
    yield IPv4Address(bits & 0xFFFFFFFF)
