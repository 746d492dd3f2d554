"""Secrets of brokers and endpoints reach a local run in the environment and in files, only while the run lasts."""

import os
from pathlib import Path
from typing import Any

import pytest

from messagestore_operator.api import MessageStream, ReplayJob
from messagestore_operator.local.secrets import (
    certificate_files,
    connection_problems,
    credentials,
    environment,
    with_local_files,
)
from messagestore_operator.manifests.load import Secret
from messagestore_operator.translate.ingest import ingest_document
from messagestore_operator.translate.replay import replay_document

SECURITY = {
    "protocol": "SASL_SSL",
    "mechanism": "PLAIN",
    "credentialsSecretRef": {"name": "user"},
    "caSecretRef": {"name": "authority"},
}
KAFKA = {"bootstrapServers": "kafka:9093", "topics": ["orders"], "security": SECURITY}
USER = Secret("default", "user", {"username": b"alice", "password": b"of alice"})
AUTHORITY = Secret("default", "authority", {"ca.crt": b"a certificate"})


def stream(**spec: Any) -> MessageStream:
    given = {"table": {"uri": "file:///orders"}, "source": {"kafka": KAFKA}, "trigger": {"manual": {}}}
    return MessageStream.model_validate({"metadata": {"name": "orders"}, "spec": {**given, **spec}})


def test_values_stand_in_the_environment_and_in_files_while_a_run_lasts() -> None:
    before = dict(os.environ)
    document = ingest_document(stream(), "run-1", None)
    given = [stream()], [USER, AUTHORITY]
    with environment(credentials(*given)), certificate_files(*given) as files:
        task = with_local_files(document, files).task
        cluster = task.source.cluster
        assert os.environ[cluster.environment.username] == "alice"
        assert os.environ[cluster.environment.password] == "of alice"
        assert Path(cluster.ca_file or "").read_bytes() == b"a certificate"
    assert dict(os.environ) == before
    assert not Path(cluster.ca_file or "").exists()


def test_a_missing_secret_or_key_is_named_by_its_field() -> None:
    found = [(".".join(path), words) for path, words in connection_problems(stream(), [AUTHORITY])]
    field = "spec.source.kafka.security.credentialsSecretRef"
    assert found == [(f"{field}.name", "there is no Secret user of this namespace in the files")]
    half = Secret("default", "user", {"username": b"alice"})
    found = [(".".join(path), words) for path, words in connection_problems(stream(), [half, AUTHORITY])]
    assert found == [(field, "Secret user has no value for key password")]
    files = stream(source={"files": {"uri": "file:///landing"}}, lifecycle={"source": {"kafka": KAFKA}})
    assert [path[:4] for path, _ in connection_problems(files, [])] == [("spec", "lifecycle", "source", "kafka")]


def test_a_user_has_one_name_from_the_secret_or_from_the_spec() -> None:
    named = stream(source={"kafka": {**KAFKA, "security": {**SECURITY, "username": "alice"}}})
    alone = Secret("default", "user", {"password": b"of alice"})
    assert list(connection_problems(named, [alone, AUTHORITY])) == []
    (variable,) = credentials([named], [alone, AUTHORITY])
    assert variable.endswith("_PASSWORD")
    found = [(".".join(path), words) for path, words in connection_problems(named, [USER, AUTHORITY])]
    twice = "Secret user has a value for key username too: leave one of them out"
    assert found == [("spec.source.kafka.security.username", twice)]
    found = [(".".join(path), words) for path, words in connection_problems(stream(), [alone, AUTHORITY])]
    none = "Secret user has no value for key username; name the user in security.username"
    assert found == [("spec.source.kafka.security.credentialsSecretRef", none)]


def test_a_clients_certificate_and_key_stand_in_files_while_a_run_lasts() -> None:
    security = {"protocol": "SSL", "clientCertificateSecretRef": {"name": "own"}}
    reads = stream(source={"kafka": {**KAFKA, "security": security}})
    half = Secret("default", "own", {"tls.crt": b"a certificate"})
    field = "spec.source.kafka.security.clientCertificateSecretRef"
    found = [(".".join(path), words) for path, words in connection_problems(reads, [half])]
    assert found == [(field, "Secret own has no value for key tls.key")]
    whole = Secret("default", "own", {**half.data, "tls.key": b"a key"})
    with certificate_files([reads], [whole]) as files:
        task = with_local_files(ingest_document(reads, "run-1", None), files).task
        own = task.source.cluster.client_certificate
        assert Path(own.certificate_file).read_bytes() == b"a certificate"
        assert Path(own.key_file).read_bytes() == b"a key"
    assert not Path(own.key_file).exists()


def test_an_endpoints_header_and_authority_are_there_too() -> None:
    http = {
        "url": "https://events.example.org/",
        "headerSecretRef": {"name": "user", "key": "password"},
        "caSecretRef": {"name": "authority"},
    }
    spec = {"streamRef": {"name": "orders"}, "destination": {"http": http}}
    job = ReplayJob.model_validate({"metadata": {"name": "out"}, "spec": spec})
    field = "spec.destination.http"
    assert [".".join(path) for path, _ in connection_problems(job, [])] == [f"{field}.headerSecretRef.name"]
    assert list(connection_problems(job, [USER, AUTHORITY])) == []
    document = replay_document(job, stream(), None, "run-1", None)
    with environment(credentials([job], [USER, AUTHORITY])), certificate_files([job], [USER, AUTHORITY]) as files:
        task = with_local_files(document, files).task
        to = task.destination
        assert (to.header.name, os.environ[to.header.environment]) == ("Authorization", "of alice")
        assert (to.addresses, Path(to.ca_file or "").read_bytes()) == ("Any", b"a certificate")


@pytest.mark.parametrize("value", [b"\xff\xfe", b"of\0alice"])
def test_a_password_that_no_variable_can_hold_is_named_by_its_field(value: bytes) -> None:
    user = Secret("default", "user", {**USER.data, "password": value})
    found = [(".".join(path), words) for path, words in connection_problems(stream(), [user, AUTHORITY])]
    field = "spec.source.kafka.security.credentialsSecretRef"
    assert found == [(field, "the value for key password of Secret user must be text")]
