"""The Secrets that the runs of a resource need."""

from typing import Any

import pytest

from messagestore_operator.api import MessageStream, ReplayJob, RetentionPolicy
from messagestore_operator.decide.blockers import Need, secrets_of
from messagestore_operator.translate.secrets import Use
from support.launches import stream


def storage(secret: str) -> dict[str, Any]:
    return {"storage": {"endpoint": f"https://{secret}.example.org", "credentialsSecretRef": {"name": secret}}}


def replay(**destination: Any) -> ReplayJob:
    spec = {"streamRef": {"name": "orders"}, "destination": destination}
    return ReplayJob.model_validate({"metadata": {"name": "again"}, "spec": spec})


ORDERS, COPY, OTHER = (
    stream(name, table={"uri": f"s3a://{name}/store"}, **storage(f"of-{name}")) for name in ("orders", "copy", "other")
)
FILES: dict[str, Any] = {"files": {"uri": "s3a://replay/checks/", **storage("of-files")}}
INTO_COPY: dict[str, Any] = {"stream": {"name": "copy"}}


@pytest.mark.parametrize(
    ("destination", "streams", "secrets"),
    [
        (FILES, [OTHER, ORDERS], {"of-orders", "of-files"}),
        (FILES, [OTHER], set()),
        (INTO_COPY, [OTHER, COPY, ORDERS], {"of-orders", "of-copy"}),
        (INTO_COPY, [ORDERS], {"of-orders"}),
        (INTO_COPY, [COPY], set()),
    ],
)
def test_a_replay_needs_the_secrets_of_its_store_and_of_its_destinations(
    destination: dict[str, Any], streams: list[MessageStream], secrets: set[str]
) -> None:
    assert secrets_of(replay(**destination), streams) == {Need(name, Use.STORAGE) for name in secrets}


def test_a_policy_needs_the_secrets_of_its_streams_but_for_those_that_no_run_reaches() -> None:
    far = stream("far", table={"uri": "gs://far/store"})
    spec = {"streamSelector": {"matchLabels": {"team": "a"}}, "trigger": {"manual": {}}}
    rules = [{"name": "old", "maxAge": "P1D"}]
    policy = RetentionPolicy.model_validate({"metadata": {"name": "tidy"}, "spec": {**spec, "rules": rules}})
    assert secrets_of(policy, [far, ORDERS]) == {Need("of-orders", Use.STORAGE)}


def test_the_deletion_of_a_store_needs_its_secret_though_no_run_reaches_the_source() -> None:
    table, source = {"uri": "s3a://orders/store"}, {"files": {"uri": "gs://landing/"}}
    far = stream(table=table, source=source, **storage("of-orders"))
    assert secrets_of(far, [far]) == {Need("of-orders", Use.STORAGE)}
