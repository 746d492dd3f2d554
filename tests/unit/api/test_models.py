from typing import Any

import pytest
from pydantic import ValidationError

from messagestore_core.reasons import DeadLetterReason as ReasonOfJobs
from messagestore_operator.api import MessageStream, ReplayJob, parse_resource
from messagestore_operator.api.kinds import parse_stored
from messagestore_operator.api.replayjob import Select
from support.resources import all_resources, replay_to_files, smallest_stream, stream_from_files


def _messages(document: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        parse_resource(document)
    return [line["msg"] for line in caught.value.errors()]


@pytest.mark.parametrize("document", all_resources(), ids=lambda document: document["metadata"]["name"])
def test_a_resource_comes_out_as_it_went_in(document: dict[str, Any]) -> None:
    resource = parse_resource(document)
    assert parse_resource(resource.to_dict()) == resource


def test_models_that_were_given_the_same_fields_share_the_set_of_them_and_a_copy_has_its_own() -> None:
    one, other = (MessageStream.model_validate(smallest_stream()) for _ in range(2))
    assert one.spec.model_fields_set is other.spec.model_fields_set
    copied = one.spec.model_copy(update={"suspend": True})
    assert copied.model_fields_set == one.spec.model_fields_set | {"suspend"}
    assert "suspend" not in other.spec.model_fields_set


def test_the_defaults_of_the_smallest_stream() -> None:
    stream = MessageStream.model_validate(smallest_stream())
    assert stream.spec.table.deletion_policy == "Retain"
    assert stream.spec.envelope.format == "Native"
    assert stream.spec.payload.max_size.bytes == 16 * 2**20
    assert (stream.spec.retry.max_retries, stream.spec.retry.backoff_base, stream.spec.retry.max_backoff) == (
        5,
        "2",
        "PT3H",
    )
    assert stream.spec.expiration.on_arrival_expired == "DeadLetter"
    assert stream.spec.run_history_limit == 10
    assert stream.spec.filter is stream.spec.deduplication is None


def test_a_batch_has_a_thousand_files_unless_its_bytes_are_limited() -> None:
    document = smallest_stream()
    files = MessageStream.model_validate(document).spec.source.files
    assert files.files_per_batch == 1000
    document["spec"]["source"]["files"]["maxBytesPerBatch"] = "1Gi"
    files = MessageStream.model_validate(document).spec.source.files
    assert files.files_per_batch is None


def test_null_means_absent() -> None:
    document = smallest_stream()
    document["spec"] |= {"filter": None, "suspend": None, "envelope": None}
    assert parse_resource(document) == parse_resource(smallest_stream())


def test_a_broken_field_does_not_hide_a_broken_rule_beside_it() -> None:
    document = stream_from_files()
    document["spec"]["trigger"] = {"interval": "P1M", "manual": {}}
    document["spec"]["source"]["kafka"] = {"bootstrapServers": "nowhere", "topics": ["a"], "topicPattern": "a"}
    messages = _messages(document)
    assert "give exactly one of interval, schedule, continuous and manual" in messages
    assert "give exactly one of files and kafka" in messages
    assert "give exactly one of topics and topicPattern" in messages
    assert len(messages) == 5


def test_deduplication_has_a_window_or_a_memory_of_purged_ids() -> None:
    document = smallest_stream()
    for given in ({"window": "P7D"}, {"rememberPurged": "P30D"}, {"window": "P7D", "rememberPurged": "P30D"}):
        document["spec"]["deduplication"] = given
        assert parse_resource(document).to_dict()["spec"]["deduplication"] == given
    document["spec"]["deduplication"] = {}
    assert _messages(document) == ["give at least one of window and rememberPurged"]


def test_an_unknown_field_is_answered_with_the_one_that_was_meant() -> None:
    document = smallest_stream()
    document["spec"]["table"]["deletion_policy"] = "Delete"
    document["spec"]["runHistoryLimits"] = 3
    document["spec"]["zzz"] = 3
    assert _messages(document) == [
        "unknown field; did you mean deletionPolicy?",
        "unknown field; did you mean runHistoryLimit?",
        "unknown field",
    ]


def test_python_may_use_its_own_names() -> None:
    assert Select(stream_names=("a",), due_for_retry=True).to_dict()["dueForRetry"] is True


def test_a_status_of_a_newer_operator_is_readable() -> None:
    document = stream_from_files()
    document["status"]["novelty"] = {"a": 1}
    assert MessageStream.model_validate(document).status is not None


@pytest.mark.parametrize(
    ("known", "news", "left"),
    [
        ({"phase": "Idle"}, {"phase": "Archiving"}, {}),
        ({"phase": "Idle"}, {"phase": {"name": "Archiving", "since": "now"}}, {}),
        ({}, {"currentRun": {"name": "a", "state": "Paused"}}, {"currentRun": {"name": "a"}}),
        ({}, {"lastRun": {"name": "a", "state": "Paused"}}, {}),
        ({}, {"recentRuns": [{"name": "a", "state": "Paused"}, {"name": "b", "state": "Failed"}]}, {"recentRuns": "b"}),
        ({}, {"conditions": [{"type": "Ready", "status": "Perhaps"}, {"type": "Stalled", "status": "True"}]}, {}),
        ({}, {"totals": {"received": "many", "stored": 3}}, {}),
        ({}, {"lag": "none"}, {}),
    ],
)
def test_only_the_unknown_part_of_a_newer_operators_status_is_ignored(
    known: dict[str, Any], news: dict[str, Any], left: dict[str, Any]
) -> None:
    document = {**smallest_stream(), "status": {"runNumber": 7, **known, **news}}
    assert _messages(document)
    stream = parse_stored(document)
    assert (stream.status.run_number, stream.status.phase) == (7, None)
    assert (stream.status.current_run is not None) == ("currentRun" in left)
    assert [run.name for run in stream.status.recent_runs] == list(left.get("recentRuns", ""))
    assert [one.type for one in stream.status.conditions] == (["Stalled"] if "conditions" in news else [])


def test_a_spec_is_read_as_strictly_beside_a_status_of_a_newer_operator() -> None:
    document = {**smallest_stream(), "status": {"phase": "Archiving"}}
    document["spec"]["novelty"] = True
    with pytest.raises(ValidationError, match="novelty"):
        parse_stored(document)


def test_resources_cannot_be_changed() -> None:
    stream = MessageStream.model_validate(smallest_stream())
    with pytest.raises(ValidationError):
        stream.spec.suspend = True


@pytest.mark.parametrize("template", ["{jobs}", "{", "}", "{{job}}", "{job.__class__}"])
def test_a_mark_holds_only_known_places(template: str) -> None:
    document = replay_to_files()
    document["spec"]["mark"]["headers"] = {"x": template}
    assert len(_messages(document)) == 1


def test_reasons_are_those_that_the_jobs_give() -> None:
    for reason in ReasonOfJobs:
        assert Select.model_validate({"reasons": [reason.value]}).reasons == (reason.value,)


def test_a_replay_back_into_its_own_stream_is_a_redrive() -> None:
    document = replay_to_files()
    document["spec"]["destination"] = {"stream": {"name": "invoices"}}
    assert _messages(document) == [
        "destination.stream must be another one than streamRef, unless origin is DeadLetters"
    ]
    document["spec"] = {**document["spec"], "origin": "DeadLetters", "select": {}}
    assert ReplayJob.model_validate(document).spec.origin == "DeadLetters"
