"""How a run reaches its buckets: what its document has, and which Secrets its pods need."""

from typing import Any

import pytest

from messagestore_core.contract.stores import CredentialVariables, StorageEntry
from messagestore_operator.api import MessageStream, ReplayJob, RetentionPolicy
from messagestore_operator.translate.ingest import ingest_document
from messagestore_operator.translate.kafka import ingest_access, replay_access
from messagestore_operator.translate.purge import purge_document
from messagestore_operator.translate.refusal import NotSupportedError
from messagestore_operator.translate.replay import replay_document
from messagestore_operator.translate.secrets import SecretVariable, Use
from messagestore_operator.translate.storage import CertificateMount, purge_access
from messagestore_operator.translate.unsupported import refusals

LAKE: dict[str, Any] = {
    "endpoint": "http://s3.storage:7070/",
    "pathStyleAccess": True,
    "credentialsSecretRef": {"name": "lake-access"},
}
ELSEWHERE: dict[str, Any] = {
    "endpoint": "https://objects.example.org",
    "region": "eu-central-1",
    "credentialsSecretRef": {"name": "partner-access"},
    "caSecretRef": {"name": "partner-ca", "key": "root.pem"},
}
FIRST = CredentialVariables(
    access_key="MESSAGESTORE_STORAGE_1_ACCESS_KEY",
    secret_key="MESSAGESTORE_STORAGE_1_SECRET_KEY",
    session_token="MESSAGESTORE_STORAGE_1_SESSION_TOKEN",
)
SECOND = CredentialVariables(
    access_key="MESSAGESTORE_STORAGE_2_ACCESS_KEY",
    secret_key="MESSAGESTORE_STORAGE_2_SECRET_KEY",
    session_token="MESSAGESTORE_STORAGE_2_SESSION_TOKEN",
)


def stream(source: dict[str, Any] | None = None, **spec: Any) -> MessageStream:
    files = {"uri": "s3a://landing/orders/", **(source or {})}
    given = {"table": {"uri": "s3a://lake/orders"}, "source": {"files": files}, "trigger": {"manual": {}}}
    return MessageStream.model_validate({"metadata": {"name": "orders"}, "spec": {**given, **spec}})


def policy(**archive: Any) -> RetentionPolicy:
    spec = {
        "streamRefs": [{"name": "orders"}],
        "trigger": {"manual": {}},
        "rules": [{"name": "old", "maxAge": "P90D"}],
        "archive": {"uri": "s3a://archive/orders", **archive},
    }
    return RetentionPolicy.model_validate({"metadata": {"name": "retention"}, "spec": spec})


def job(**destination: Any) -> ReplayJob:
    spec = {"streamRef": {"name": "orders"}, "destination": destination}
    return ReplayJob.model_validate({"metadata": {"name": "again"}, "spec": spec})


def test_without_storage_a_run_has_the_pods_own_identity() -> None:
    access = ingest_access(stream())
    assert (access.entries, access.variables, access.certificates) == ((), (), ())


def test_the_source_is_reached_as_the_table_is_where_it_says_nothing() -> None:
    access = ingest_access(stream(storage=LAKE))
    assert [entry.bucket for entry in access.entries] == ["lake", "landing"]
    assert access.entries[0] == StorageEntry(
        bucket="lake", endpoint="http://s3.storage:7070", path_style_access=True, environment=FIRST
    )
    assert access.entries[1] == access.entries[0].model_copy(update={"bucket": "landing"})


def test_a_secret_fills_three_variables_once_however_many_buckets_it_is_for() -> None:
    assert ingest_access(stream(storage=LAKE)).variables == (
        SecretVariable("MESSAGESTORE_STORAGE_1_ACCESS_KEY", "lake-access", "accessKey", Use.STORAGE),
        SecretVariable("MESSAGESTORE_STORAGE_1_SECRET_KEY", "lake-access", "secretKey", Use.STORAGE),
        SecretVariable(
            "MESSAGESTORE_STORAGE_1_SESSION_TOKEN", "lake-access", "sessionToken", Use.STORAGE, optional=True
        ),
    )


def test_a_source_of_its_own_storage_has_its_own_variables_and_authority() -> None:
    access = ingest_access(stream({"storage": ELSEWHERE}, storage=LAKE))
    assert access.entries[1] == StorageEntry(
        bucket="landing",
        endpoint="https://objects.example.org",
        region="eu-central-1",
        environment=SECOND,
        ca_file="/etc/messagestore/ca/1/root.pem",
    )
    assert access.certificates == (CertificateMount("partner-ca", "root.pem", "/etc/messagestore/ca/1", Use.STORAGE),)
    assert {variable.secret for variable in access.variables} == {"lake-access", "partner-access"}


def test_documents_name_variables_and_no_secret() -> None:
    text = ingest_document(stream(storage=LAKE), "run-1", None).model_dump_json(by_alias=True)
    assert "MESSAGESTORE_STORAGE_1_SECRET_KEY" in text
    assert "lake-access" not in text


ARCHIVES = {"of its source's bucket": "s3a://landing/done", "of its own": "s3a://done/orders"}


@pytest.mark.parametrize("uri", ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_of_files_is_reached_as_their_source_is(uri: str) -> None:
    source = {"uri": "s3a://landing/orders", "afterIngest": "Archive", "archiveUri": uri, "storage": ELSEWHERE}
    document = ingest_document(stream(storage=LAKE, source=source), "run-1", None)
    buckets = dict.fromkeys(["landing", uri.split("/")[2]])
    assert [(entry.bucket, entry.region) for entry in document.storage[1:]] == [(b, "eu-central-1") for b in buckets]


@pytest.mark.parametrize(
    ("uri", "what"),
    [
        ("s3a://landing/in/orders/done", "uri, s3://landing/in/orders/"),
        ("s3a://landing/in", "uri, s3://landing/in/orders/"),
        ("s3a://lake/team/orders/messages", "the table's folder, s3a://lake/team/orders"),
        ("s3a://lake/team", "the table's folder, s3a://lake/team/orders"),
    ],
)
def test_an_archive_of_files_lies_beside_their_source_and_the_table(uri: str, what: str) -> None:
    source = {"uri": "s3://landing/in/orders/", "afterIngest": "Archive", "archiveUri": uri}
    table = {"uri": "s3a://lake/team/orders"}
    with pytest.raises(NotSupportedError, match=f"archiveUri.*must not contain {what}, or be in it"):
        ingest_document(stream(source=source, table=table), "run-1", None)


def test_an_archive_is_reached_as_the_table_is_or_by_its_own() -> None:
    assert [entry.endpoint for entry in purge_access(policy(), stream(storage=LAKE)).entries] == [
        "http://s3.storage:7070"
    ] * 2
    own = purge_document(policy(storage=ELSEWHERE), stream(storage=LAKE), "run-1", None)
    assert [(entry.bucket, entry.region) for entry in own.storage] == [
        ("lake", "us-east-1"),
        ("archive", "eu-central-1"),
    ]


def test_a_replay_reaches_its_destination() -> None:
    files = job(files={"uri": "s3a://out/again", "storage": ELSEWHERE})
    assert [entry.bucket for entry in replay_access(files, stream(storage=LAKE), None).entries] == ["lake", "out"]
    to = job(stream={"name": "other"})
    target = stream(table={"uri": "s3a://copies/orders"}, storage=ELSEWHERE)
    document = replay_document(to, stream(storage=LAKE), target, "run-1", None)
    assert [entry.bucket for entry in document.storage] == ["lake", "copies"]


def test_the_old_scheme_of_s3_is_the_one_that_jobs_know() -> None:
    one = stream({"uri": "s3://landing/orders"}, table={"uri": "s3://lake/orders"}, storage=LAKE)
    document = ingest_document(one, "run-1", None)
    assert document.table.uri == "s3a://lake/orders"
    assert document.task.kind == "ingest"
    assert document.task.source.uri == "s3a://landing/orders"
    assert [entry.bucket for entry in document.storage] == ["lake", "landing"]


def test_a_local_run_needs_nothing() -> None:
    local = stream({"uri": "file:///tmp/in"}, table={"uri": "file:///tmp/orders"}, storage=LAKE)
    assert ingest_access(local).entries == ()


def test_one_bucket_with_two_storage_settings_is_refused() -> None:
    one = stream({"uri": "s3a://lake/landing", "storage": ELSEWHERE}, storage=LAKE)
    (refusal,) = refusals(one)
    assert refusal.path == ("spec", "source", "files", "uri")
    assert "bucket lake would be reached in two ways" in refusal.message
    with pytest.raises(NotSupportedError, match="different storage"):
        ingest_document(one, "run-1", None)


def test_a_policy_that_contradicts_its_stream_is_refused() -> None:
    with pytest.raises(NotSupportedError, match=r"spec\.archive\.uri of RetentionPolicy"):
        purge_document(policy(uri="s3a://lake/archive", storage=ELSEWHERE), stream(storage=LAKE), "run-1", None)


def test_object_stores_of_other_protocols_are_refused() -> None:
    (refusal,) = refusals(stream({"uri": "gs://landing/orders"}))
    assert "S3 protocol only" in refusal.message
