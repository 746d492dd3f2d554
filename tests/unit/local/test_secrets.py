"""Keys of local runs: read from Secrets in the same files, set in the environment, and removed from it again."""

import os
from typing import Any

import pytest

from messagestore_operator.api import MessageStream
from messagestore_operator.local.secrets import environment, key_problems, keys
from messagestore_operator.manifests.load import Secret

REFERENCE = ("spec", "integrity", "hmacSecretRef")


def stream(**spec: Any) -> MessageStream:
    given = {
        "table": {"uri": "file:///tmp/orders"},
        "source": {"files": {"uri": "file:///tmp/landing"}},
        "trigger": {"manual": {}},
    }
    return MessageStream.model_validate({"metadata": {"name": "orders"}, "spec": {**given, **spec}})


SEALING = stream(integrity={"hmacSecretRef": {"name": "seal"}})


@pytest.mark.parametrize(
    ("secrets", "path", "words"),
    [
        ([], (*REFERENCE, "name"), "there is no Secret seal"),
        ([Secret("elsewhere", "seal", {"key": b"k"})], (*REFERENCE, "name"), "there is no Secret seal"),
        ([Secret("default", "seal", {"other": b"k"})], (*REFERENCE, "key"), "has no value for key key"),
        ([Secret("default", "seal", {"key": b"\xff"})], (*REFERENCE, "key"), "must be text"),
    ],
)
def test_a_missing_or_unusable_seal_key_is_named(secrets: list[Secret], path: tuple[str, ...], words: str) -> None:
    problem = next(key_problems(SEALING, secrets), None)
    assert problem[0] == path
    assert words in problem[1]


def test_a_stream_without_seals_needs_no_key() -> None:
    assert not [*key_problems(stream(), [])]
    assert not [*key_problems(SEALING, [Secret("default", "seal", {"key": b"k"})])]


def test_a_key_is_in_the_environment_as_long_as_a_run_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    ((variable, value),) = keys([SEALING], [Secret("default", "seal", {"key": b"k"})]).items()
    monkeypatch.delenv(variable, raising=False)
    with environment({variable: value}):
        assert os.environ[variable] == "k"
    assert variable not in os.environ
    monkeypatch.setenv(variable, "before")
    with environment({variable: value}):
        assert os.environ[variable] == "k"
    assert os.environ[variable] == "before"


def test_each_key_has_a_variable_of_its_own_so_that_all_are_there_before_spark_is() -> None:
    other = stream(integrity={"hmacSecretRef": {"name": "other"}})
    secrets = [Secret("default", "seal", {"key": b"1"}), Secret("default", "other", {"key": b"2"})]
    assert sorted(keys([SEALING, other, SEALING, stream()], secrets).values()) == ["1", "2"]
