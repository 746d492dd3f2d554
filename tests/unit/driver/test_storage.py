"""One entry per bucket becomes options of delta-rs, pyarrow and Hadoop."""

import pytest

from messagestore_core.contract.stores import CredentialVariables, StorageEntry
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.objects import delta_uri
from messagestore_core.store.storage import Storage, credentials

NAMES = CredentialVariables(access_key="A_KEY", secret_key="A_SECRET", session_token="A_TOKEN")
ENTRY = StorageEntry(bucket="lake", endpoint="http://s3:7070", path_style_access=True, environment=NAMES)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "key")
    monkeypatch.setenv("A_SECRET", "secret")


def test_delta_rs_commits_by_conditional_put() -> None:
    assert Storage([ENTRY]).delta_options("s3a://lake/orders") == {
        "aws_region": "us-east-1",
        "aws_virtual_hosted_style_request": "false",
        "aws_conditional_put": "etag",
        "aws_endpoint_url": "http://s3:7070",
        "aws_allow_http": "true",
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
    }


def test_without_path_style_the_bucket_stands_in_the_hosts_name() -> None:
    entry = ENTRY.model_copy(update={"path_style_access": False, "endpoint": "https://s3:7070"})
    options = Storage([entry]).delta_options("s3a://lake/orders")
    assert (options["aws_endpoint_url"], options["aws_allow_http"]) == ("https://lake.s3:7070", "false")


def test_a_session_token_is_used_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "token")
    assert Storage([ENTRY]).delta_options("s3a://lake/orders")["aws_session_token"] == "token"


def test_hadoop_is_told_names_and_no_secret() -> None:
    settings = Storage([ENTRY]).hadoop_settings()
    assert settings["fs.s3a.bucket.lake.endpoint"] == "http://s3:7070"
    assert settings["fs.s3a.bucket.lake.path.style.access"] == "true"
    assert settings["fs.s3a.bucket.lake.messagestore.secret.key.variable"] == "A_SECRET"
    assert "secret" not in settings.values()


def test_a_bucket_without_an_entry_is_reached_by_the_pods_identity() -> None:
    assert Storage([ENTRY]).delta_options("s3a://elsewhere/orders") == {}


def test_credentials_that_are_not_there_are_named_by_their_variable() -> None:
    with pytest.raises(RunFailedError, match="A_SECRET is not set") as refused:
        credentials(ENTRY, {"A_KEY": "key", "A_SECRET": ""})
    assert refused.value.reason == "StorageDenied"


def test_a_percent_sign_is_a_part_of_a_name() -> None:
    assert delta_uri("s3a://lake/a%20b") == "s3://lake/a%2520b"
    assert delta_uri("file:///lake/a%20b") == "/lake/a%20b"
