"""A tenant's folders and their servers: what the settings don't allow gets no run."""

from typing import Any

import pytest

from support.operators import eventually
from support.tenants import Tenants

OWN = {"endpoint": "https://objects.example.org", "credentialsSecretRef": {"name": "lake-credentials"}}

NOT_ALLOWED = "the operator's setting tenancy.storage.prefixes allows folders of namespace"


@pytest.fixture(scope="module")
def tenancy() -> dict[str, Any]:
    return {"storage": {"prefixes": {"*": ["s3a://lake/{namespace}", "s3a://landing"]}, "endpoints": [OWN["endpoint"]]}}


def table(tenants: Tenants, name: str) -> dict[str, Any]:
    return {"uri": f"s3a://lake/{tenants.one.namespace}/{name}"}


def test_a_stream_below_its_namespaces_prefix_is_served(tenants: Tenants) -> None:
    assert tenants.one.stream("own", table=table(tenants, "own"), trigger={"interval": "PT1H"}).accepted
    eventually(lambda: any(run.startswith("own") for run in tenants.launched(tenants.one)), of=tenants.operator)


def refused(tenants: Tenants, name: str, words: str, kind: str = "MessageStream") -> None:
    assert words in tenants.one.told(name, "NotAllowed", kind, of=tenants.operator).words
    assert not [run for run in tenants.launched(tenants.one) if run.startswith(name)]


def test_a_table_below_another_namespaces_prefix_is_refused(tenants: Tenants) -> None:
    there = {"uri": f"s3a://lake/{tenants.other.namespace}/orders"}
    assert tenants.one.stream("stranger", table=there).accepted
    refused(tenants, "stranger", "spec.table.uri: " + NOT_ALLOWED)
    # A replay that would read it through the stream gets no run either.
    again = {"streamRef": {"name": "stranger"}, "destination": {"files": {"uri": "s3a://landing/again"}}}
    assert tenants.one.make("ReplayJob", "reader", again).accepted
    refused(tenants, "reader", "(MessageStream stranger)", "ReplayJob")


@pytest.mark.parametrize(
    ("name", "kind", "field"),
    [
        ("escaped", "MessageStream", "table"),
        ("source", "MessageStream", "source.files"),
        ("updates", "MessageStream", "lifecycle.source.files"),
        ("archive", "RetentionPolicy", "archive"),
        ("destination", "ReplayJob", "destination.files"),
    ],
)
def test_every_folder_of_a_resource_is_refused_below_another_namespaces_prefix(
    tenants: Tenants, name: str, kind: str, field: str
) -> None:
    """However the URI is written: this one is another folder for a reader that decodes escapes."""
    part: Any = {"uri": f"s3a://lake/{tenants.one.namespace}/%2e%2e/{tenants.other.namespace}/orders"}
    for step in reversed(field.split(".")):
        part = {step: part}
    own = {"table": table(tenants, name)} if kind == "MessageStream" else {}
    assert tenants.one.make(kind, name, own | part).accepted
    refused(tenants, name, f"spec.{field}.uri: " + NOT_ALLOWED, kind)


def test_a_source_by_the_pods_identity_is_refused(tenants: Tenants) -> None:
    source = {"files": {"uri": "s3a://landing/orders", "storage": {"region": "eu-central-1"}}}
    assert tenants.one.stream("identity", table=table(tenants, "identity"), source=source).accepted
    refused(tenants, "identity", "tenancy.storage.requireCredentials")


@pytest.mark.parametrize(
    ("name", "endpoint"),
    [("metadata", "http://169.254.169.254"), ("decimal", "http://2852039166"), ("mapped", "http://[::ffff:7f00:1]:80")],
)
def test_an_endpoint_on_the_node_is_refused(tenants: Tenants, name: str, endpoint: str) -> None:
    assert tenants.one.stream(name, table=table(tenants, name), storage={**OWN, "endpoint": endpoint}).accepted
    refused(tenants, name, "spec.storage.endpoint: ")
