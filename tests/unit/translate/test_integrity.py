"""The runs that seal messages get the settings for it; no document has the key itself."""

from typing import Any

from messagestore_core.contract.purge import PurgeTask
from messagestore_core.contract.records import Integrity
from messagestore_operator.api import MessageStream, ReplayJob, RetentionPolicy
from messagestore_operator.decide.blockers import Need, secrets_of
from messagestore_operator.translate.ingest import ingest_task
from messagestore_operator.translate.kafka import replay_access
from messagestore_operator.translate.purge import purge_document
from messagestore_operator.translate.replay import replay_document
from messagestore_operator.translate.secrets import Use, seal_keys
from messagestore_operator.translate.storage import purge_access


def stream(name: str = "orders", **spec: Any) -> MessageStream:
    given = {
        "table": {"uri": f"s3a://lake/{name}"},
        "source": {"files": {"uri": "s3a://landing/orders/"}},
        "trigger": {"manual": {}},
    }
    return MessageStream.model_validate({"metadata": {"name": name}, "spec": {**given, **spec}})


def policy(**spec: Any) -> RetentionPolicy:
    given = {
        "streamRefs": [{"name": "orders"}],
        "trigger": {"manual": {}},
        "rules": [{"name": "old", "maxAge": "P90D"}],
    }
    return RetentionPolicy.model_validate({"metadata": {"name": "policy"}, "spec": {**given, **spec}})


def into_another_stream() -> ReplayJob:
    spec = {"streamRef": {"name": "orders"}, "destination": {"stream": {"name": "again"}}}
    return ReplayJob.model_validate({"metadata": {"name": "job"}, "spec": spec})


def purge(of: RetentionPolicy, on: MessageStream) -> PurgeTask:
    task = purge_document(of, on, "run-1", None).task
    assert isinstance(task, PurgeTask)
    return task


def test_keys_of_seals_are_named_and_reach_the_pods_of_runs_that_need_them() -> None:
    sealing = {"integrity": {"hmacSecretRef": {"name": "seal", "key": "k"}}}
    source = stream(**sealing)
    target = stream("again", integrity={"hmacSecretRef": {"name": "other", "key": "k"}})
    own, other = (key.variable for key in seal_keys(source, target))
    assert own != other
    assert ingest_task(source).integrity == Integrity(key_environment=own, unsigned="Refuse")
    sent = replay_document(into_another_stream(), source, target, "run-1", None).task
    assert sent.integrity == ingest_task(source).integrity
    assert sent.destination.ingest.integrity == Integrity(key_environment=other)
    variables = replay_access(into_another_stream(), source, target).variables
    assert [(v.variable, v.secret, v.key) for v in variables] == [(own, "seal", "k"), (other, "other", "k")]
    assert len(replay_access(into_another_stream(), source, source).variables) == 1
    assert secrets_of(source, []) == {Need("seal", Use.SEAL)}
    assert ingest_task(stream()).integrity is None


def test_only_a_policy_that_scrubs_needs_the_key_of_seals() -> None:
    sealing = stream(integrity={"hmacSecretRef": {"name": "seal"}})
    scrubbing = policy(action="Scrub", scrub={"headers": ["a"]})
    assert purge(policy(), sealing).integrity is None
    (key,) = seal_keys(sealing)
    assert purge(scrubbing, sealing).integrity == Integrity(key_environment=key.variable)
    assert purge_access(policy(), sealing).variables == ()
    assert [v.secret for v in purge_access(scrubbing, sealing).variables] == ["seal"]
