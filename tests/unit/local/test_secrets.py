"""Keys of local runs: from Secrets in the same files, into the environment, and out of it again."""

import os
from typing import Any

import pytest

from messagestore_operator.api import MessageStream
from messagestore_operator.local.secrets import environment, key_problem
from messagestore_operator.manifests import Secret
from messagestore_operator.translate.storage import INTEGRITY_KEY, seal_keys

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
def test_what_keeps_a_key_from_being_found_is_named(secrets: list[Secret], path: tuple[str, ...], words: str) -> None:
    problem = key_problem(SEALING, secrets)
    assert problem is not None
    assert problem[0] == path
    assert words in problem[1]


def test_who_seals_nothing_needs_no_key() -> None:
    assert key_problem(stream(), []) is None
    assert key_problem(SEALING, [Secret("default", "seal", {"key": b"k"})]) is None


def test_a_key_is_in_the_environment_as_long_as_a_run_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = [Secret("default", "seal", {"key": b"k"})]
    variables = list(seal_keys({INTEGRITY_KEY: SEALING}))
    monkeypatch.delenv(INTEGRITY_KEY, raising=False)
    with environment(SEALING, variables, secrets):
        assert os.environ[INTEGRITY_KEY] == "k"
    assert INTEGRITY_KEY not in os.environ
    monkeypatch.setenv(INTEGRITY_KEY, "before")
    with environment(SEALING, variables, secrets):
        assert os.environ[INTEGRITY_KEY] == "k"
    assert os.environ[INTEGRITY_KEY] == "before"
