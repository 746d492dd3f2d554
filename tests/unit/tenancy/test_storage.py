"""Folders: which ones a namespace may use, however their URIs are written, and whose credentials reach them."""

from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from messagestore_operator.api import Resource, parse_resource
from messagestore_operator.tenancy.check import not_allowed
from messagestore_operator.tenancy.settings import Tenancy
from messagestore_operator.tenancy.storage import StorageBounds, lies_below
from messagestore_operator.translate.refusal import RefusedField

OWN = {"credentialsSecretRef": {"name": "lake"}}
ANYWHERE = StorageBounds()


def resource(kind: str, spec: dict[str, Any], namespace: str = "shop") -> Resource:
    metadata = {"name": "orders", "namespace": namespace}
    return parse_resource({"apiVersion": "messagestore.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})


def stream(table: str = "s3a://lake/shop/orders", source: str = "s3a://lake/shop/in", **spec: Any) -> Resource:
    files = {"files": {"uri": source, **spec.pop("files", {})}}
    given = {"table": {"uri": table}, "storage": OWN, "source": files, "trigger": {"manual": {}}}
    return resource("MessageStream", {**given, **spec})


def policy(**archive: Any) -> Resource:
    spec = {"streamRefs": [{"name": "orders"}], "rules": [{"name": "old", "maxAge": "P1D"}], "trigger": {"manual": {}}}
    return resource("RetentionPolicy", {**spec, "archive": {"uri": "s3a://lake/shop/archive", **archive}})


def replay(**files: Any) -> Resource:
    destination = {"files": {"uri": "s3a://lake/shop/again", **files}}
    return resource("ReplayJob", {"streamRef": {"name": "orders"}, "destination": destination})


def with_updates(source: str, **files: Any) -> Resource:
    return stream(lifecycle={"source": {"files": {"uri": source, **files}}})


def refusals(found: Resource, bounds: StorageBounds) -> tuple[RefusedField, ...]:
    return not_allowed(found, Tenancy(storage=bounds))


def fields(found: Resource, bounds: StorageBounds) -> list[str]:
    return [".".join(map(str, refusal.path)) for refusal in refusals(found, bounds)]


# Prefixes.

SHOP = StorageBounds(prefixes={"shop": ("s3a://lake/shop",)})


@pytest.mark.parametrize(
    ("found", "field"),
    [
        (stream(table="s3a://lake/other/orders"), "spec.table.uri"),
        (stream(source="s3a://lake/other/in"), "spec.source.files.uri"),
        (with_updates("s3a://lake/other/updates"), "spec.lifecycle.source.files.uri"),
        (
            with_updates("s3a://lake/shop/updates", afterIngest="Archive", archiveUri="s3a://lake/other/done"),
            "spec.lifecycle.source.files.archiveUri",
        ),
        (policy(uri="s3a://lake/other/archive"), "spec.archive.uri"),
        (replay(uri="s3a://lake/other/again"), "spec.destination.files.uri"),
    ],
)
def test_every_folder_of_every_kind_is_held_to_the_prefixes(found: Resource, field: str) -> None:
    (refusal,) = refusals(found, SHOP)
    assert str(refusal) == (
        f"{field}: the operator's setting tenancy.storage.prefixes allows folders of namespace shop below "
        "s3a://lake/shop"
    )


@pytest.mark.parametrize("found", [stream(), with_updates("s3a://lake/shop/updates"), policy(), replay()])
def test_folders_below_a_prefix_are_allowed(found: Resource) -> None:
    assert refusals(found, SHOP) == ()


@pytest.mark.parametrize(
    ("endpoint", "allowed"),
    [
        (None, True),
        ("https://objects.example.org", True),
        ("https://Objects.example.org/", True),
        ("http://objects.example.org", False),
        ("https://objects.example.org:9000", False),
        ("https://objects.example.com", False),
    ],
)
def test_a_prefix_is_a_place_at_an_endpoint_of_the_platform(endpoint: str | None, allowed: bool) -> None:
    bounds = StorageBounds(prefixes=SHOP.prefixes, endpoints=("https://objects.example.org",))
    there = {**OWN, **({"endpoint": endpoint} if endpoint else {})}
    assert fields(stream(storage=there), bounds) == ([] if allowed else ["spec.storage.endpoint"])
    assert fields(policy(storage=there), bounds) == ([] if allowed else ["spec.archive.storage.endpoint"])
    assert fields(stream(storage=there), StorageBounds()) == []


def test_without_prefixes_folders_may_lie_anywhere() -> None:
    assert refusals(stream(table="s3a://anything/at/all"), ANYWHERE) == ()


def test_where_only_others_have_prefixes_a_namespace_has_nothing() -> None:
    bounds = StorageBounds(prefixes={"billing": ("s3a://lake",)})
    assert fields(stream(), bounds) == ["spec.table.uri", "spec.source.files.uri"]


def test_a_namespace_has_its_own_prefixes_and_those_of_every_one() -> None:
    bounds = StorageBounds(prefixes={"shop": ("s3a://lake/shop",), "*": ("s3://landing/{namespace}",)})
    assert refusals(stream(source="s3a://landing/shop/in"), bounds) == ()
    assert fields(stream(source="s3a://landing/billing/in"), bounds) == ["spec.source.files.uri"]


@pytest.mark.parametrize("prefix", ["", "lake/shop", "s3a://", "s3a://lake/../shop", "s3a://user@lake/x", "*", 3])
def test_a_prefix_that_is_no_uri_ends_the_operator(prefix: Any) -> None:
    with pytest.raises(ValidationError):
        StorageBounds(prefixes={"shop": (prefix,)})


@pytest.mark.parametrize(
    ("uri", "below"),
    [
        ("s3a://lake/shop", True),
        ("s3a://lake/shop/", True),
        ("s3://lake/shop/orders", True),
        ("S3A://lake/shop/orders", True),
        ("s3a://lake//shop/orders", True),
        ("s3a://lake/shopping", False),
        ("s3a://lake", False),
        ("s3a://lake/Shop/orders", False),
        ("s3a://lake2/shop/orders", False),
        ("gs://lake/shop/orders", False),
        ("s3a://lake/shop/../other", False),
        ("s3a://lake/shop/./../other", False),
        ("s3a://lake/other/../shop/orders", False),
        ("s3a://lake/shop/%2e%2e/other", False),
        ("s3a://lake/shop/%252E%252e/other", False),
        ("s3a://lake/shop/..%2Fother", False),
        ("s3a://lake/shop/a%2f..%2f..%2fother", False),
        ("s3a://lake/%73hop/orders", False),
        ("s3a://lake/shop/a\\..\\..\\other", False),
        ("s3a://lake/shop/100%/orders", True),
        ("file:///lake/shop", False),
    ],
)
def test_whole_segments_count_and_no_spelling_leads_out(uri: str, below: bool) -> None:
    assert lies_below(uri, "s3a://lake/shop/") is below


NAMES = st.text(st.sampled_from("ab.%2eEfF/\\:@{}*"), min_size=1, max_size=12)


def _resolved(uri: str) -> list[str]:
    """The path for a reader that decodes escapes and resolves dots."""
    found: list[str] = []
    for segment in uri.replace("\\", "/").partition("://")[2].split("/"):
        if segment == "..":
            found = found[:-1]
        elif segment not in ("", "."):
            found.append(segment)
    return found


@given(
    names=st.lists(NAMES, min_size=1, max_size=6),
    escapes=st.integers(0, 3),
    scheme=st.sampled_from(["s3", "s3a", "S3A"]),
    bucket=st.sampled_from(["lake", "lake2", "other"]),
)
def test_a_uri_below_a_prefix_stays_below_it_however_often_it_is_decoded(
    names: list[str], escapes: int, scheme: str, bucket: str
) -> None:
    path = "/".join(["shop", *names])
    for _ in range(escapes):
        path = quote(path, safe="/")
    uri = f"{scheme}://{bucket}/{path}"
    if lies_below(uri, "s3a://lake/shop"):
        read = uri
        for _ in range(6):
            assert _resolved(read)[:2] == ["lake", "shop"]
            read = unquote(read)


@given(names=st.lists(st.from_regex(r"[A-Za-z0-9._ -]{1,9}", fullmatch=True), min_size=1, max_size=5))
def test_plain_names_below_a_prefix_are_below_it(names: list[str]) -> None:
    plain = [name for name in names if name not in (".", "..")]
    assert lies_below("s3a://lake/shop/" + "/".join(plain), "s3://lake/shop")


# Credentials.


@pytest.mark.parametrize(
    ("found", "field"),
    [
        (stream(storage={}), "spec.storage.credentialsSecretRef"),
        (
            resource("MessageStream", {**stream().to_dict()["spec"], "storage": None}),
            "spec.storage.credentialsSecretRef",
        ),
        (stream(files={"storage": {"region": "eu-west-1"}}), "spec.source.files.storage.credentialsSecretRef"),
        (with_updates("s3a://x/y", storage={}), "spec.lifecycle.source.files.storage.credentialsSecretRef"),
        (policy(storage={}), "spec.archive.storage.credentialsSecretRef"),
        (replay(storage={}), "spec.destination.files.storage.credentialsSecretRef"),
    ],
)
def test_a_folder_needs_credentials_of_its_namespace(found: Resource, field: str) -> None:
    (refusal,) = refusals(found, ANYWHERE)
    assert str(refusal).startswith(f"{field}: names no Secret with credentials for s3a://")
    assert "tenancy.storage.requireCredentials" in str(refusal)
    assert refusals(found, StorageBounds(require_credentials=False)) == ()


@pytest.mark.parametrize("found", [stream(), with_updates("s3a://x/y"), policy(), replay(), policy(storage=OWN)])
def test_a_folder_without_storage_of_its_own_is_reached_as_the_table(found: Resource) -> None:
    assert refusals(found, ANYWHERE) == ()


@pytest.mark.parametrize(
    ("bounds", "unbounded"),
    [
        (StorageBounds(), False),
        (StorageBounds(require_credentials=False), True),
        (StorageBounds(require_credentials=False, prefixes={"*": ("s3a://lake/{namespace}",)}), False),
    ],
)
def test_the_pods_identity_without_prefixes_is_unbounded(bounds: StorageBounds, unbounded: bool) -> None:
    assert bounds.unbounded is unbounded
