"""A tenant's resource gets only Secrets that are labelled for its use, and reaches no broker without TLS."""

from collections.abc import Callable
from typing import Any

import pytest

from support.apiserver import ApiServer
from support.secrets import make_secret
from support.tenants import Tenants

MERGE = "application/merge-patch+json"
ENDPOINT = "https://objects.example.org"


@pytest.fixture(scope="module")
def tenancy() -> dict[str, Any]:
    """Storage without credentials is allowed, so that a Secret with only a certificate is checked by its label."""
    return {"storage": {"requireCredentials": False}}


def storage(name: str) -> dict[str, object]:
    return {"endpoint": ENDPOINT, "credentialsSecretRef": {"name": name}}


@pytest.mark.parametrize("use", [None, "kafka", "ca"])
def test_a_secret_without_the_label_is_not_sent_to_an_endpoint_of_the_tenants_choice(
    apiserver: ApiServer, tenants: Tenants, use: str | None
) -> None:
    name = f"of-another-team-{use or 'unlabelled'}".lower()
    make_secret(apiserver, tenants.one.namespace, name, use)
    assert tenants.one.stream(name, storage=storage(name)).accepted
    told = tenants.one.told(name, "NotAllowed", of=tenants.operator)
    assert f"Secret {name} may not be used for storage" in told.words
    assert "NotAllowed" in told.said
    assert not [run for run in tenants.launched(tenants.one) if run.startswith(name)]


def test_runs_begin_once_their_secret_is_labelled(apiserver: ApiServer, tenants: Tenants) -> None:
    make_secret(apiserver, tenants.one.namespace, "labelled-later", None)
    assert tenants.one.stream("labelled-later", storage=storage("labelled-later")).accepted
    tenants.one.told("labelled-later", "NotAllowed", of=tenants.operator)
    path = f"/api/v1/namespaces/{tenants.one.namespace}/secrets/labelled-later"
    patch = {"metadata": {"labels": {"messagestore.dev/use": "kafka.storage"}}}
    assert tenants.one.request("PATCH", path, patch, MERGE).status == 403
    assert apiserver.request("PATCH", path, patch, MERGE).accepted
    tenants.one.ready("labelled-later", of=tenants.operator, seconds=60)


def test_a_missing_secret_is_named(tenants: Tenants) -> None:
    assert tenants.one.stream("lacking", storage=storage("not-there")).accepted
    told = tenants.one.told("lacking", "SecretMissing", of=tenants.operator)
    assert told.words == "Secret not-there doesn't exist in this namespace"


def test_a_secret_of_another_namespace_counts_as_missing(apiserver: ApiServer, tenants: Tenants) -> None:
    make_secret(apiserver, tenants.other.namespace, "theirs", "storage")
    assert tenants.one.stream("theirs", storage=storage("theirs")).accepted
    tenants.one.told("theirs", "SecretMissing", of=tenants.operator)


def _key(name: str) -> dict[str, object]:
    return {"integrity": {"hmacSecretRef": {"name": name}}}


def _authority(name: str) -> dict[str, object]:
    return {"storage": {"endpoint": ENDPOINT, "caSecretRef": {"name": name}}}


def _user(name: str, protocol: str = "SASL_SSL") -> dict[str, object]:
    security = {"protocol": protocol, "mechanism": "PLAIN", "credentialsSecretRef": {"name": name}}
    return {"source": {"kafka": {"bootstrapServers": "evil.example.org:9092", "topics": ["a"], "security": security}}}


@pytest.mark.parametrize(("spec", "use"), [(_key, "seal"), (_authority, "storage"), (_user, "kafka")])
def test_keys_authorities_and_users_need_their_labels_too(
    apiserver: ApiServer, tenants: Tenants, spec: Callable[[str], dict[str, object]], use: str
) -> None:
    name = f"for-{use}"
    make_secret(apiserver, tenants.one.namespace, name, None)
    assert tenants.one.stream(name, **spec(name)).accepted
    told = tenants.one.told(name, "NotAllowed", of=tenants.operator)
    assert f"Secret {name} may not be used for {use}" in told.words


def _scrub(name: str) -> dict[str, object]:
    return {"action": "Scrub", "scrub": {"headers": ["user"], "method": "Hash", "keySecretRef": {"name": name}}}


def _broker(name: str) -> dict[str, object]:
    kafka = {**_user(name)["source"]["kafka"], "topics": None, "topic": "a"}
    return {"destination": {"kafka": {field: value for field, value in kafka.items() if value is not None}}}


@pytest.mark.parametrize(
    ("kind", "spec", "use"), [("RetentionPolicy", _scrub, "seal"), ("ReplayJob", _broker, "kafka")]
)
def test_policies_and_replays_may_not_use_secrets_with_another_label(
    apiserver: ApiServer, tenants: Tenants, kind: str, spec: Callable[[str], dict[str, object]], use: str
) -> None:
    name = f"for-a-{kind}".lower()
    make_secret(apiserver, tenants.one.namespace, name, "storage")
    tenants.one.stream(trigger={"manual": {}})
    asked = {"messagestore.dev/run-requested": "now"}
    assert tenants.one.make(kind, name, spec(name), annotations=asked).accepted
    told = tenants.one.told(name, "NotAllowed", kind, of=tenants.operator)
    assert f"Secret {name} may not be used for {use}" in told.words
    assert not [run for run in tenants.launched(tenants.one) if run.startswith(name)]


def test_credentials_are_sent_to_no_broker_without_tls(apiserver: ApiServer, tenants: Tenants) -> None:
    make_secret(apiserver, tenants.one.namespace, "user", "kafka")
    assert tenants.one.stream("clear", **_user("user", "SASL_PLAINTEXT")).accepted
    told = tenants.one.told("clear", "NotAllowed", of=tenants.operator)
    assert "spec.source.kafka.security.protocol: SASL_PLAINTEXT sends credentials without TLS" in told.words
    assert not [run for run in tenants.launched(tenants.one) if run.startswith("clear")]
