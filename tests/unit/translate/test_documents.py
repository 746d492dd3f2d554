"""Resources become run documents: every field is there, quantities as numbers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from messagestore_core.contract.destinations import KafkaDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import PurgeTask
from messagestore_core.contract.records import FieldSource, KafkaCluster, KafkaOauth, Translator
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import FormerOwner
from messagestore_operator.api import MessageStream, ReplayJob, RetentionPolicy
from messagestore_operator.decide.blockers import needed
from messagestore_operator.translate.annotations import adopts
from messagestore_operator.translate.ingest import ingest_document
from messagestore_operator.translate.kafka import ingest_access
from messagestore_operator.translate.names import job_id, source_id
from messagestore_operator.translate.purge import purge_document
from messagestore_operator.translate.refusal import NotSupportedError
from messagestore_operator.translate.replay import replay_document
from messagestore_operator.translate.secrets import scrub_keys
from messagestore_operator.translate.unsupported import refusals

AT = datetime(2026, 4, 6, tzinfo=UTC)
FILES = {"files": {"uri": "s3a://landing/orders/"}}
UPDATES = {"files": {"uri": "s3a://landing/status/"}}


def stream(name: str = "orders", **spec: Any) -> MessageStream:
    given = {"table": {"uri": f"s3a://lake/{name}"}, "source": FILES, "trigger": {"interval": "PT5M"}}
    metadata = {"name": name, **spec.pop("metadata", {})}
    return MessageStream.model_validate({"metadata": metadata, "spec": {**given, **spec}})


def policy(**spec: Any) -> RetentionPolicy:
    given = {
        "streamRefs": [{"name": "orders"}],
        "trigger": {"manual": {}},
        "rules": [{"name": "old", "maxAge": "P90D"}],
    }
    metadata = {"name": "retention", **spec.pop("metadata", {})}
    return RetentionPolicy.model_validate({"metadata": metadata, "spec": {**given, **spec}})


def job(**spec: Any) -> ReplayJob:
    given = {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": "s3a://replay/orders/"}}}
    metadata = {"name": "again", **spec.pop("metadata", {})}
    return ReplayJob.model_validate({"metadata": metadata, "spec": {**given, **spec}})


def ingest(of: MessageStream) -> IngestTask:
    task = ingest_document(of, "run-1", AT).task
    assert isinstance(task, IngestTask)
    return task


def purge(of: RetentionPolicy, on: MessageStream) -> PurgeTask:
    task = purge_document(of, on, "run-1", AT).task
    assert isinstance(task, PurgeTask)
    return task


def replay(of: ReplayJob, on: MessageStream, to: MessageStream | None = None) -> ReplayTask:
    task = replay_document(of, on, to, "run-1", AT).task
    assert isinstance(task, ReplayTask)
    return task


def test_a_document_names_run_time_resource_and_table() -> None:
    document = ingest_document(
        stream(metadata={"generation": 7, "managers": {"spec": "argocd"}}),
        "run-1",
        AT,
        (FormerOwner(namespace="default"),),
    )
    assert (document.run, document.at) == ("run-1", AT)
    assert document.resource.model_dump() == {
        "kind": "MessageStream",
        "namespace": "default",
        "name": "orders",
        "generation": 7,
        "requested_by": "fieldManager:argocd",
    }
    assert document.table.model_dump(exclude_none=True) == {
        "uri": "s3a://lake/orders",
        "owner": {"namespace": "default", "name": "orders"},
        "adopt_from": ({"namespace": "default"},),
    }
    assert RunDocument.model_validate_json(document.model_dump_json(by_alias=True)) == document


def test_each_run_of_a_stream_is_told_how_long_purged_ids_are_remembered() -> None:
    remembering = stream(deduplication={"rememberPurged": "P30D"})
    into = replay(
        job(streamRef={"name": "source"}, destination={"stream": {"name": "orders"}}), stream("source"), remembering
    ).destination
    tables = [
        ingest_document(remembering, "run-1", AT).table,
        purge_document(policy(), remembering, "run-1", AT).table,
        into.table,
    ]
    assert [table.remember_purged for table in tables] == [30 * DAY] * 3
    window = stream(deduplication={"window": "P7D"})
    assert ingest_document(window, "run-1", AT).table.remember_purged is None


DAY = timedelta(days=1)
FIELDS = {"messageId": {"path": "$.id"}, "category": {"value": "a"}, "type": {"path": "$.t", "default": "x"}}
ARCHIVED = {"afterIngest": "Archive", "archiveUri": "s3://landing/done/"}
INGEST: list[tuple[dict[str, Any], str, Any]] = [
    ({}, "source.max_files_per_batch", 1000),
    ({"source": {"files": {**FILES["files"], "maxBytesPerBatch": "1Gi"}}}, "source.max_files_per_batch", None),
    ({"source": {"files": {**FILES["files"], "maxBytesPerBatch": "1Gi"}}}, "source.max_bytes_per_batch", 1 << 30),
    ({"source": {"files": {**FILES["files"], "format": "JSON"}}}, "source.format", "JSON"),
    ({"source": {"files": {**FILES["files"], "afterIngest": "Delete"}}}, "source.after_ingest", "Delete"),
    ({"source": {"files": {**FILES["files"], **ARCHIVED}}}, "source.after_ingest", "Archive"),
    ({"source": {"files": {**FILES["files"], **ARCHIVED}}}, "source.archive_uri", "s3a://landing/done"),
    ({"envelope": {"format": "CloudEvents"}}, "envelope.format", "CloudEvents"),
    ({"envelope": {"format": "Custom", "fields": FIELDS, "required": ["type"]}}, "envelope.required", ("type",)),
    ({}, "filter.where", None),
    ({"filter": {"types": ["a"]}}, "filter.where", None),
    ({"filter": {"where": "payload_size > 2", "unmatched": "DeadLetter"}}, "filter.where", "payload_size > 2"),
    ({"filter": {"unmatched": "DeadLetter"}}, "filter.unmatched", "DeadLetter"),
    ({}, "deduplication_window", None),
    ({"deduplication": {"window": "P7D"}}, "deduplication_window", 7 * DAY),
    ({"deduplication": {"rememberPurged": "P7D"}}, "deduplication_window", None),
    ({"expiration": {"onArrivalExpired": "Store"}}, "on_arrival_expired", "Store"),
    ({"expiration": {"defaultTtl": "P90D"}}, "default_ttl", 90 * DAY),
    ({"retry": {"maxRetries": 3, "maxBackoff": "PT1H30M"}}, "retry.max_backoff", timedelta(minutes=90)),
    ({"retry": {"maxRetries": 3}}, "retry.max_retries", 3),
    ({"retry": {"backoffBase": 4}}, "retry.backoff_base", 4),
    ({"retry": {"backoffBase": "1.5"}}, "retry.backoff_base", 1.5),
    ({"retry": {"policy": "Drop"}}, "retry.max_retries", 0),
    ({"retry": {"policy": "Retry"}}, "retry.set_aside", False),
    ({"retry": {"policy": "DeadLetter"}}, "retry.set_aside", True),
    ({}, "lifecycle", None),
    ({"lifecycle": {"source": UPDATES}}, "lifecycle.source.uri", "s3a://landing/status/"),
    ({"lifecycle": {"source": UPDATES}}, "lifecycle.pending_for", DAY),
    ({}, "max_payload_bytes", 16 << 20),
    ({"payload": {"maxSize": "1.5Mi"}}, "max_payload_bytes", 3 << 19),
    ({}, "claim_check_bytes", None),
    ({"payload": {"claimCheckThreshold": "1Mi"}}, "claim_check_bytes", 1 << 20),
    ({"payload": {"compression": "None"}}, "compression", "None"),
]


@pytest.mark.parametrize(("spec", "path", "expected"), INGEST)
def test_the_document_of_an_ingest_has_the_fields_of_the_stream(spec: dict[str, Any], path: str, expected: Any) -> None:
    assert at(ingest(stream(**spec)), path) == expected


def test_a_custom_envelope_reaches_the_document_unchanged() -> None:
    envelope = ingest(stream(envelope={"format": "Custom", "fields": FIELDS})).envelope
    assert {name: field.model_dump(exclude_none=True) for name, field in envelope.fields.items()} == FIELDS


MATCH = {"streamNames": ["order-1"], "headers": {"tenant": "acme"}, "where": "position > 3"}
PURGE: list[tuple[dict[str, Any], str, Any]] = [
    ({}, "mode", "DryRun"),
    ({"mode": "Enforce", "approval": "Required"}, "approval_required", True),
    ({"metadata": {"annotations": {"messagestore.dev/approved-preview": "8c1f"}}}, "approved_preview", "8c1f"),
    ({"metadata": {"annotations": {"messagestore.dev/approved-preview": "a, b ,,"}}}, "approved_preview", "a b"),
    ({"metadata": {"annotations": {"messagestore.dev/approved-by": "auditor"}}}, "approved_by", "auditor"),
    ({}, "rules.0.max_age", 90 * DAY),
    ({"rules": [{"name": "e", "expired": True, "statuses": ["FAILED"]}]}, "rules.0.statuses", ("FAILED",)),
    ({"rules": [{"name": "e", "expired": True}]}, "rules.0.expired", True),
    ({"rules": [{"name": "c", "maxMessagesPerStream": 0}]}, "rules.0.max_messages_per_stream", 0),
    ({"rules": [{"name": "b", "maxBytes": "500Gi"}]}, "rules.0.max_bytes", 500 << 30),
    (
        {"rules": [{"name": "t", "truncateBefore": {"streamName": "a-1", "position": 4}}]},
        "rules.0.truncate_before.position",
        4,
    ),
    ({"rules": [{"name": "m", "match": MATCH, "erase": True}]}, "rules.0.match.where", "position > 3"),
    ({"rules": [{"name": "m", "match": MATCH, "erase": True}]}, "rules.0.match.headers", {"tenant": "acme"}),
    ({"rules": [{"name": "m", "match": MATCH, "erase": True}]}, "rules.0.erase", True),
    ({"rules": [{"name": "m", "match": {"types": ["a"]}}]}, "rules.0.match.where", None),
    ({}, "erase_within", 7 * DAY),
    ({"erasure": {"within": "P1D"}}, "erase_within", DAY),
    ({"deadLetters": {"maxAge": "P30D"}}, "dead_letters_max_age", 30 * DAY),
    ({"archive": {"uri": "s3a://archive/a/"}}, "archive.uri", "s3a://archive/a"),
    ({"archive": {"uri": "s3a://archive/a/", "format": "JSONLines"}}, "archive.format", "JSONLines"),
    ({"action": "Scrub", "scrub": {"headers": ["a"]}}, "scrub.key_environment", None),
    ({"action": "Scrub", "scrub": {"metadataPaths": ["$.a"]}}, "scrub.metadata_paths", ("$.a",)),
    ({"action": "Scrub", "scrub": {"resultPaths": ["$.a"]}}, "scrub.result_paths", ("$.a",)),
    ({"action": "Scrub", "scrub": {"error": True}}, "scrub.error", True),
    ({"action": "Scrub", "scrub": {"headers": ["a"], "deadLetters": True}}, "scrub.dead_letters", True),
]


@pytest.mark.parametrize(("spec", "path", "expected"), PURGE)
def test_the_document_of_a_purge_has_the_fields_of_the_policy(spec: dict[str, Any], path: str, expected: Any) -> None:
    assert at(purge(policy(**spec), stream()), path) == expected


def test_translators_reach_ingests_and_replays() -> None:
    declared = {
        "fromVersion": 1,
        "fields": {"replyTo": {"path": "$.payload.to"}},
        "headers": [{"name": "a", "rename": "b"}],
    }
    it = stream(envelope={"translators": [declared]})
    expected = Translator(
        from_version=1, fields={"replyTo": FieldSource(path="$.payload.to")}, headers={"a": FieldSource(rename="b")}
    )
    assert ingest(it).translators == replay(job(), it).translators == (expected,)


def test_holds_come_from_the_stream() -> None:
    held = stream(holds=[{"name": "all"}, {"name": "one", "match": MATCH, "until": "2027-01-01T00:00:00Z"}])
    everything, one = purge(policy(), held).holds
    assert everything.match.model_dump(exclude_defaults=True) == {}
    assert one.match.stream_names == ("order-1",)
    assert one.until == datetime(2027, 1, 1, tzinfo=UTC)


def test_a_hash_names_the_variable_and_not_the_key() -> None:
    scrub = {"headers": ["a"], "method": "Hash", "keySecretRef": {"name": "key"}}
    hashing = policy(action="Scrub", scrub=scrub)
    wanted = purge(hashing, stream()).scrub
    (key,) = scrub_keys(hashing)
    assert (wanted.key_environment, key.secret, key.key) == (key.variable, "key", "key")
    assert list(scrub_keys(policy(scrub=scrub))) == []


SELECT = {
    "timeWindow": {"from": "2026-01-05T00:00:00Z"},
    "globalPositions": {"from": 1, "to": 500},
    "statuses": ["FAILED"],
    "sequences": {"ids": ["s"], "completeOnly": True},
    "dueForRetry": True,
    "limit": 9,
}
REPLAY: list[tuple[dict[str, Any], str, Any]] = [
    ({}, "select.where", None),
    ({"select": SELECT}, "select.time_window.from_", datetime(2026, 1, 5, tzinfo=UTC)),
    ({"select": SELECT}, "select.time_window.to", None),
    ({"select": SELECT}, "select.global_positions.to", 500),
    ({"select": SELECT}, "select.positions", None),
    ({"select": SELECT}, "select.sequences.complete_only", True),
    ({"select": SELECT}, "select.due_for_retry", True),
    ({"select": SELECT}, "select.limit", 9),
    ({"origin": "DeadLetters", "select": {"reasons": ["Unparseable"]}}, "select.reasons", ("Unparseable",)),
    ({"order": "Global"}, "order", "Global"),
    ({"rateLimit": {"messagesPerSecond": 500}}, "messages_per_second", 500),
    ({"mark": {"headers": {"x": "{job}/{position}"}}}, "mark_headers", {"x": "again/{position}"}),
    ({"mode": "DryRun"}, "mode", "DryRun"),
    ({}, "destination.uri", "s3a://replay/orders"),
    ({}, "job_id", "default.again"),
    ({"metadata": {"uid": "0123456789abcdef"}}, "job_id", "default.again.01234567"),
]


@pytest.mark.parametrize(("spec", "path", "expected"), REPLAY)
def test_the_document_of_a_replay_has_the_fields_of_the_job(spec: dict[str, Any], path: str, expected: Any) -> None:
    assert at(replay(job(**spec), stream()), path) == expected


def test_sequences_are_overdue_as_the_stream_says_if_those_are_sent() -> None:
    timed, untimed = stream(sequences={"timeout": "PT1H"}), stream()
    asked = {"select": {"sequences": {"completeOnly": True, "orOverdue": True}}}
    complete = {"select": {"sequences": {"completeOnly": True}}}
    cases = [(asked, timed), (asked, untimed), (complete, timed)]
    found = [at(replay(job(**spec), of), "select.sequence_timeout") for spec, of in cases]
    assert found == [timedelta(hours=1), None, None]


def test_a_replay_into_a_stream_has_that_streams_ingest_and_adoption() -> None:
    adopted = {"annotations": {"messagestore.dev/adopt-table": "s3a://lake/other/"}}
    target = stream("other", envelope={"format": "CloudEvents"}, metadata=adopted)
    task = replay(job(destination={"stream": {"name": "other"}}), stream(), target)
    assert at(task, "destination.table.uri") == "s3a://lake/other"
    assert at(task, "destination.table.adopt_from") == (FormerOwner(namespace="default"),)
    assert at(task, "destination.ingest") == ingest(target)


def test_a_source_keeps_its_name_until_it_changes() -> None:
    same = {source_id(stream()), source_id(stream(filter={"types": ["a"]})), source_id(stream(trigger={"manual": {}}))}
    assert len(same) == 1
    moved = stream(source={"files": {"uri": "s3a://landing/elsewhere/"}})
    others = {source_id(moved), source_id(stream("other")), source_id(stream(metadata={"namespace": "b"}))}
    assert len(others | same) == 4
    assert source_id(stream()) == "source-7f20e5ea2b9e0beadc32ef51"


def test_a_job_made_again_is_another_one() -> None:
    assert len({job_id(job(metadata={"uid": uid})) for uid in ("a" * 36, "b" * 36)}) == 2


def test_the_digest_of_a_job_changes_only_with_what_it_sends_and_where() -> None:
    first = replay_document(job(), stream(), None, "run-1", None).task

    def again(**spec: Any) -> Any:
        return replay_document(job(**spec), stream(), None, "run-2", None).task

    assert (
        again(rateLimit={"messagesPerSecond": 5}, onFailed="Continue", origin="Messages").request_digest
        == first.request_digest
    )
    others = [
        again(select={"statuses": ["FAILED"]}),
        again(order="Global"),
        again(mark={"headers": {"x": "y"}}),
        again(destination={"files": {"uri": "s3a://elsewhere/again"}}),
        again(destination={"files": {"uri": "s3a://replay/orders/"}, "envelope": "CloudEvents"}),
    ]
    assert len({first.request_digest, *(other.request_digest for other in others)}) == 6
    assert {other.job_id for other in others} == {first.job_id}
    assert again(metadata={"uid": "0123456789abcdef"}).request_digest is None


@pytest.mark.parametrize(
    ("uri", "expected"), [("s3a://lake/orders", True), ("s3a://lake/orders/", True), ("s3a://lake/o", False)]
)
def test_adopting_names_the_folder(uri: str, expected: bool) -> None:
    annotations = {"messagestore.dev/adopt-table": uri}
    assert adopts(stream(metadata={"annotations": annotations})) is expected


HELD: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"order": "PerCorrelation"}, "Failed"),
    ({"order": "PerCorrelation", "policy": "Drop"}, "Retrying"),
    ({"order": "PerCorrelation", "policy": "DeadLetter"}, "Retrying"),
]


@pytest.mark.parametrize(("retry", "held_back"), HELD)
def test_retries_are_held_back_as_the_stream_says(retry: dict[str, Any], held_back: str | None) -> None:
    due = job(select={"dueForRetry": True}, trigger={"interval": "PT1M"})
    task = replay(due, stream(retry=retry))
    assert (task.select.due_for_retry, task.select.held_back, task.rounds) == (True, held_back, True)
    assert replay(job(), stream(retry=retry)).select.held_back is None


def test_what_this_release_cannot_do_is_named() -> None:
    asks = stream(source={"files": {"uri": "gs://landing/orders"}})
    assert [refusal.path for refusal in refusals(asks)] == [("spec", "source", "files", "uri")]
    with pytest.raises(NotSupportedError, match=r"spec\.source\.files\.uri: "):
        ingest(asks)


def test_keys_and_headers_of_records_are_refused_as_fields_of_other_sources_than_kafka() -> None:
    fields = {"messageId": {"record": "Key"}, "category": {"value": "a"}, "metadata": {"header": "m"}}
    custom = {"format": "Custom", "fields": fields}
    paths = [refusal.path[3] for refusal in refusals(stream(envelope=custom))]
    assert paths == ["messageId", "metadata"]
    kafka = {"bootstrapServers": "kafka:9092", "topics": ["orders"]}
    assert [refusal.path[3] for refusal in refusals(stream(source={"kafka": kafka}, envelope=custom))] == ["metadata"]


def test_a_field_of_an_outer_record_needs_enough_steps_of_unwrap() -> None:
    fields = {"messageId": {"path": "$.a", "in": "Outer"}, "category": {"path": "$.a", "in": "Outer", "level": 2}}
    for steps, refused in ((0, ["messageId", "category"]), (1, ["category"]), (2, [])):
        custom = {"format": "Custom", "fields": fields, "unwrap": [{"path": "$.b"}] * steps}
        assert [refusal.path[3] for refusal in refusals(stream(envelope=custom))] == refused


@pytest.mark.parametrize(
    ("source", "fields", "refused"),
    [
        ({"format": "JSON", "recordsPaths": ["$.Records", "$"]}, {"type": "$.region", "time": "$.of['at']"}, []),
        ({"format": "JSON", "recordsPaths": ["$.Records"]}, {"type": "$.region", "replyTo": "$['region']"}, []),
        ({}, {"type": "$.region"}, ["type"]),
        ({"format": "JSON"}, {"type": "$.region"}, ["type"]),
        ({"format": "JSON", "recordsPaths": ["$"]}, {"type": "$.region"}, ["type"]),
        ({"format": "JSON", "recordsPaths": ["$.a.b"]}, {"type": "$", "time": "$.c[0]"}, ["type", "time"]),
        ({"format": "JSON", "recordsPaths": ["$.a.b"]}, {"type": "$.a", "time": "$.a.b"}, ["type", "time"]),
        ({"format": "JSON", "recordsPaths": ["$.a.b"]}, {"type": "$.a.b.c", "time": "$.a.c"}, ["type"]),
        (
            {"format": "JSON", "recordsPaths": ["$.a.b"]},
            {"type": "$.c", "time": "$.c.d", "ttl": "$.e"},
            ["type", "time"],
        ),
        ({"format": "JSON", "recordsPaths": ["$.a"]}, {"headers": "$.b", "payload": "$.c"}, ["headers", "payload"]),
    ],
)
def test_a_field_of_the_document_is_refused_if_no_single_text_can_stand_there(
    source: dict[str, Any], fields: dict[str, str], refused: list[str]
) -> None:
    mapped = {name: {"path": path, "in": "Document"} for name, path in fields.items()}
    constant = {name: {"value": "a"} for name in ("messageId", "category")}
    given = {"format": "Custom", "fields": {**constant, **mapped}}
    files = {"uri": "s3a://landing/orders", **source}
    asked = stream(source={"files": files}, envelope=given)
    assert [refusal.path for refusal in refusals(asked)] == [("spec", "envelope", "fields", name) for name in refused]


def test_records_of_kafka_have_no_document_around_them() -> None:
    kafka = {"bootstrapServers": "kafka:9092", "topics": ["orders"]}
    added = {"addHeaders": {"region": {"path": "$.region", "in": "Document"}}}
    (refused,) = refusals(stream(source={"kafka": kafka}, envelope=added))
    assert str(refused.message) == (
        "there is no document around a record: set source.files.recordsPaths to an array in one"
    )


def test_names_and_partitions_of_files_are_refused_as_fields_of_kafka() -> None:
    fields = {"messageId": {"file": "Place"}, "category": {"value": "a"}, "metadata": {"partition": "m"}}
    custom = {"format": "Custom", "fields": fields, "addHeaders": {"tenant": {"partition": "t"}, "a": {"header": "a"}}}
    kafka = {"bootstrapServers": "kafka:9092", "topics": ["orders"]}
    of_kafka = [refusal.path[3] for refusal in refusals(stream(source={"kafka": kafka}, envelope=custom))]
    assert of_kafka == ["messageId", "metadata", "tenant"]
    assert [refusal.path[3] for refusal in refusals(stream(envelope=custom))] == ["metadata", "a"]


SECURITY = {
    "protocol": "SASL_SSL",
    "mechanism": "SCRAM-SHA-512",
    "credentialsSecretRef": {"name": "kafka-user"},
    "caSecretRef": {"name": "kafka-ca", "key": "ca.crt"},
}


def test_a_run_is_told_where_the_secrets_of_kafka_are_and_never_what_they_are() -> None:
    reads = stream(source={"kafka": {"bootstrapServers": "kafka:9093", "topics": ["orders"], "security": SECURITY}})
    source, needs = ingest(reads).source, ingest_access(reads)
    cluster = source.cluster
    assert [(v.variable, v.secret, v.key) for v in needs.variables] == [
        (cluster.environment.username, "kafka-user", "username"),
        (cluster.environment.password, "kafka-user", "password"),
    ]
    assert [(mount.path, mount.secret) for mount in needs.certificates] == [(cluster.ca_file, "kafka-ca")]


def test_a_client_has_a_certificate_and_a_key_of_its_own_that_only_use_kafka_allows() -> None:
    security = {"protocol": "SSL", "clientCertificateSecretRef": {"name": "client", "privateKeyKey": "user.key"}}
    reads = stream(source={"kafka": {"bootstrapServers": "kafka:9093", "topics": ["orders"], "security": security}})
    source, needs = ingest(reads).source, ingest_access(reads)
    own = source.cluster.client_certificate
    found = [(mount.path, mount.secret, mount.key) for mount in needs.certificates]
    assert found == [(own.certificate_file, "client", "tls.crt"), (own.key_file, "client", "user.key")]
    (need,) = needed(needs)
    assert need.allowed_by(frozenset({"kafka"}))
    assert not need.allowed_by(frozenset({"ca"}))


def test_a_name_in_the_spec_is_beside_a_secret_that_needs_none() -> None:
    security = {**SECURITY, "username": "alice"}
    reads = stream(source={"kafka": {"bootstrapServers": "kafka:9093", "topics": ["orders"], "security": security}})
    source = ingest(reads).source
    assert source.cluster.username == "alice"
    assert [(v.key, v.optional) for v in ingest_access(reads).variables] == [("username", True), ("password", False)]


def test_tokens_come_from_an_endpoint_with_the_id_and_secret_of_a_client() -> None:
    oauth = {"tokenEndpoint": "https://tokens/token", "scope": "orders", "caSecretRef": {"name": "tokens-ca"}}
    security = {**SECURITY, "mechanism": "OAUTHBEARER", "oauth": oauth}
    reads = stream(source={"kafka": {"bootstrapServers": "kafka:9093", "topics": ["orders"], "security": security}})
    source, needs = ingest(reads).source, ingest_access(reads)
    (brokers, tokens) = needs.certificates
    assert brokers.path == source.cluster.ca_file
    assert source.cluster.oauth == KafkaOauth(
        token_endpoint="https://tokens/token", scope="orders", ca_file=tokens.path
    )
    assert [variable.key for variable in needs.variables] == ["clientId", "clientSecret"]


def test_status_updates_come_from_topics_too_and_one_secret_is_asked_for_once() -> None:
    kafka = {"bootstrapServers": "kafka:9093", "topics": ["orders"], "security": SECURITY}
    both = stream(source={"kafka": kafka}, lifecycle={"source": {"kafka": {**kafka, "topics": ["updates"]}}})
    lifecycle = ingest(both).lifecycle
    assert lifecycle.source.topics == ("updates",)
    assert [variable.key for variable in ingest_access(both).variables] == ["username", "password"]
    assert len(ingest_access(both).certificates) == 1


def test_a_replay_to_a_topic_names_its_key() -> None:
    sends = job(destination={"kafka": {"bootstrapServers": "kafka:9092", "topic": "t"}})
    cluster = KafkaCluster(bootstrap_servers="kafka:9092")
    assert replay(sends, stream()).destination == KafkaDestination(cluster=cluster, topic="t", key="streamName")


def test_a_source_of_kafka_goes_on_where_it_was_when_topics_or_brokers_change() -> None:
    sources = ({"bootstrapServers": "a:1", "topics": ["x"]}, {"bootstrapServers": "b:1", "topics": ["x", "y"]})
    assert len({source_id(stream(source={"kafka": kafka})) for kafka in sources}) == 1


def at(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value[int(step)] if step.isdigit() else getattr(value, step)
    return value


def test_files_are_read_again_by_another_number_alone() -> None:
    def source(**changes: Any) -> str:
        return ingest(stream(source={"files": {"uri": "s3a://landing/orders", **changes}})).source_id

    first = source()
    assert {source(format="JSON"), source(include=["*.json"]), source(format="JSON", recordsPaths=["$.a"])} == {first}
    assert len({first, source(rereadNonce=1), source(rereadNonce=2)}) == 3
