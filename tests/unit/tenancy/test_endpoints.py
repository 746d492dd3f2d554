"""Servers of the pod's own node, and clouds' metadata services: refused by every name and form of address."""

from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagestore_operator.api import Resource, parse_resource
from messagestore_operator.tenancy.check import is_of_the_node, not_allowed
from messagestore_operator.tenancy.settings import Tenancy

STREAM: dict[str, Any] = {
    "table": {"uri": "s3a://lake/orders"},
    "source": {"files": {"uri": "s3a://lake/in"}},
    "trigger": {"manual": {}},
}
POLICY: dict[str, Any] = {
    "streamRefs": [{"name": "orders"}],
    "rules": [{"name": "old", "maxAge": "P1D"}],
    "trigger": {"manual": {}},
}


def storage(endpoint: str) -> dict[str, Any]:
    return {"endpoint": endpoint, "credentialsSecretRef": {"name": "lake"}}


def resource(kind: str, spec: dict[str, Any]) -> Resource:
    return parse_resource(
        {"apiVersion": "messagestore.dev/v1alpha1", "kind": kind, "metadata": {"name": "orders"}, "spec": spec}
    )


def stream(**spec: Any) -> Resource:
    return resource("MessageStream", {**STREAM, "storage": storage("http://s3.storage.svc:7070"), **spec})


def by_token(endpoint: str) -> dict[str, Any]:
    security = {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "oauth": {"tokenEndpoint": endpoint}}
    user = {"credentialsSecretRef": {"name": "client"}}
    return {"bootstrapServers": "kafka.svc:9092", "topics": ["orders"], "security": {**security, **user}}


def said(found: Resource) -> list[str]:
    return [str(refusal) for refusal in not_allowed(found, Tenancy())]


BAD = "169.254.169.254"
KAFKA = {"bootstrapServers": f"kafka.svc:9092,{BAD}:9092", "topics": ["orders"]}
TOKEN_ENDPOINT = "spec.source.kafka.security.oauth.tokenEndpoint"
FILES = {"uri": "s3a://lake/x", "storage": storage(f"http://{BAD}")}


@pytest.mark.parametrize(
    ("found", "field"),
    [
        (stream(storage=storage(f"http://{BAD}:80/")), "spec.storage.endpoint"),
        (stream(source={"files": FILES}), "spec.source.files.storage.endpoint"),
        (stream(source={"kafka": KAFKA}), "spec.source.kafka.bootstrapServers"),
        (stream(source={"kafka": by_token(f"https://{BAD}:8443/realms/a:1/token")}), TOKEN_ENDPOINT),
        (stream(lifecycle={"source": {"files": FILES}}), "spec.lifecycle.source.files.storage.endpoint"),
        (stream(lifecycle={"source": {"kafka": KAFKA}}), "spec.lifecycle.source.kafka.bootstrapServers"),
        (resource("RetentionPolicy", {**POLICY, "archive": FILES}), "spec.archive.storage.endpoint"),
        (
            resource("ReplayJob", {"streamRef": {"name": "orders"}, "destination": {"files": FILES}}),
            "spec.destination.files.storage.endpoint",
        ),
        (
            resource(
                "ReplayJob",
                {
                    "streamRef": {"name": "orders"},
                    "destination": {"kafka": {"bootstrapServers": f"{BAD}:1", "topic": "t"}},
                },
            ),
            "spec.destination.kafka.bootstrapServers",
        ),
    ],
)
def test_every_endpoint_and_broker_of_every_kind_is_looked_at(found: Resource, field: str) -> None:
    (words,) = said(found)
    assert words.startswith(f"{field}: {BAD} names the pod itself, its node or a cloud's metadata service")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST",
        "s3.localhost",
        "metadata.google.internal",
        "Metadata.Google.Internal",
        # With bucket "metadata" before it, it is the service's own name.
        "google.internal",
        "metadata",
        "metadata.goog",
        "instance-data",
        "instance-data.ec2.internal",
        "metadata.azure.internal",
        "metadata.tencentyun.com",
        "api.metadata.cloud.ibm.com",
        "lake.metadata.goog",
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "[::1]",
        "[::]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "[fd00:c1::a9fe:a9fe]",
        "[fd00:42::42]",
        "[::ffff:7f00:1]",
        "[::ffff:a9fe:a9fe]",
        "[0:0:0:0:0:0:7f00:1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b::c000:c0]",
        "[64:ff9b:1::a9fe:a9fe]",
        "[64:ff9b:1:a9fe:a9:fe00::]",
        "[64:ff9b:1:a9fe:a9:fe00:1:2]",
        "[64:ff9b:1:a9:fe:a9fe::]",
        "[64:ff9b:1:0:a9:fea9:fe00::]",
        "[2001:0:5db8:d822::5601:5601]",
        "[2001:0:a9fe:a9fe::f7f7:f7f7]",
        "[2001:db8::5efe:a9fe:a9fe]",
        "[2001:db8::200:5efe:7f00:1]",
        "[2002:7f00:1::]",
        "2130706433",
        "0x7f000001",
        "0X7F.0.0.1",
        "017700000001",
        "0177.0.0.1",
        "127.1",
        "127.0.0.01",
        "127.0.0.1.0",
        "lake.1",
        "0x",
        "[:::]",
    ],
)
def test_no_spelling_of_such_a_host_passes(host: str) -> None:
    assert said(stream(storage=storage(f"https://{host}:8443/")))


@pytest.mark.parametrize("host", ["localhost.", "METADATA.google.internal.", "127.0.0.1."])
def test_a_dot_at_the_end_makes_no_other_host(host: str) -> None:
    assert is_of_the_node(host)


@pytest.mark.parametrize(
    "host",
    [
        "s3.storage.svc",
        "s3.eu-central-1.amazonaws.com",
        "10.0.0.7",
        "192.168.1.1",
        "[fd12:3456::1]",
        "[2001:db8::1]",
        "[64:ff9b::808:808]",
        "[64:ff9b:1::808:808]",
        "[64:ff9b:1:808:8:800::]",
        "[2001:0:5db8:d822::f7f7:f7f7]",
        "[2001:db8::5efe:808:808]",
        "instance-data.example.org",
        "192.0.0.193",
        "minio",
        "localhosts.example.org",
        "0x7f.example.org",
        "metadata.example.org",
    ],
)
def test_other_hosts_are_allowed(host: str) -> None:
    assert said(stream(storage=storage(f"http://{host}:9000"))) == []


@given(st.integers(0, 2**32 - 1))
def test_an_address_is_judged_alike_in_ipv4_and_mapped_into_ipv6(number: int) -> None:
    address = IPv4Address(number)
    node = address.is_loopback or address.is_link_local or number < 2**24 or str(address) in METADATA
    assert is_of_the_node(str(address)) is node
    assert is_of_the_node(f"[{IPv6Address(0xFFFF00000000 | number)}]") is node


METADATA = ("100.100.100.200", "168.63.129.16", "192.0.0.192")


@given(last=st.integers(1, 2**24 - 1), form=st.sampled_from(["{}", "{:#x}", "{:#o}", "127.{}", "0x7f.{}", "0177.{}"]))
def test_short_and_odd_forms_of_a_loopback_address_are_refused(last: int, form: str) -> None:
    whole = last if "." in form else (127 << 24) + last
    assert said(stream(storage=storage("http://" + form.format(whole).replace("0o", "0"))))


def test_a_clients_secret_goes_to_no_endpoint_without_tls_unless_that_is_allowed() -> None:
    assert said(stream(source={"kafka": by_token("https://tokens.auth.svc/token")})) == []
    clear = stream(source={"kafka": by_token("http://tokens.auth.svc/token")})
    (words,) = said(clear)
    assert words.startswith(f"{TOKEN_ENDPOINT}: http sends the client's secret without TLS: use https, or ask")
    allowed = Tenancy.model_validate({"kafka": {"allowPlaintextSasl": True}})
    assert not_allowed(clear, allowed) == ()
