"""The CRDs on a real API server and the models judge every resource alike."""

import json
import re
from collections.abc import Callable
from copy import deepcopy
from itertools import islice
from typing import Any

import pytest

from messagestore_operator.api import KINDS, parse_resource
from messagestore_operator.api.spark_conf import FORMS
from support.apiserver import Answer, ApiServer
from support.judges import complaints_of_model, create, delete, schema_of, update
from support.long import few
from support.mutations import Mutation, given_fields, mutations, schema_fields, schema_path, schema_rules
from support.resources import (
    LATER,
    TIME,
    all_resources,
    deleting_policy,
    redeliveries,
    redrive,
    replay_by_routes,
    replay_to_files,
    replay_to_http,
    replay_to_kafka,
    scrubbing_policy,
    smallest_stream,
    stream_from_files,
    stream_from_kafka,
    stream_of_shapes,
    stream_of_text,
    subscriptions,
)

Document = dict[str, Any]
Change = Callable[[Document], None]

STRICTER_MODELS = {
    "spec.trigger.schedule.cron": "a cron expression of the right form may still never fire",
    "spec.trigger.schedule.timeZone": "only the time zone database knows which names there are",
    "spec.holds[].match.headers.tenant": "the API server drops a null in a map, and the hold covers more than it says",
    "spec.rules[].match.headers.tenant": "the API server drops a null in a map, and the rule selects more",
    "spec.select.headers.tenant": "the API server drops a null in a map, and more is replayed",
    "spec.mark.headers.x-replay": "the API server drops a null in a map",
    "spec.mark.headers.x-from": "the API server drops a null in a map",
    "spec.spark.conf.spark.sql.shuffle.partitions": "the API server drops a null in a map",
    "spec.streamSelector.matchLabels.team": "the API server drops a null in a map",
    "spec.envelope.addHeaders.tenant": "the API server drops a null in a map",
    "spec.envelope.addHeaders.file": "the API server drops a null in a map",
    "spec.envelope.addHeaders.by": "the API server drops a null in a map",
    "spec.envelope.addHeaders.region": "the API server drops a null in a map",
    "status.streams[].preview.byRule.count": "the API server drops a null in a map",
}
"""Where a model refuses what the API server accepts. No model checks predicates (`where`): manifest checks do."""


def _id(document: Document) -> str:
    return f"{document['kind']}-{document['metadata']['name']}"


@pytest.fixture(params=all_resources(), ids=_id)
def valid(request: pytest.FixtureRequest) -> Document:
    document: Document = request.param
    return document


@pytest.fixture(scope="module")
def created(apiserver: ApiServer) -> Callable[[Document], Answer]:
    """What the API server says to a new resource; two tests ask for the same thousands."""
    answers: dict[str, Answer] = {}

    def say(document: Document) -> Answer:
        key = json.dumps(document)
        if key not in answers:
            answers[key] = create(apiserver, document)
        return answers[key]

    return say


def test_api_server_and_models_accept_every_valid_resource(apiserver: ApiServer, valid: Document) -> None:
    assert complaints_of_model(valid) == []
    answer = create(apiserver, valid)
    assert answer.accepted, answer.body


def test_the_valid_resources_together_set_every_field() -> None:
    """Otherwise no mutation would touch that field; a part that occurs in many places counts once."""
    for kind in KINDS:
        spec_and_status = schema_of(kind)["properties"]
        given = set()
        for document in all_resources():
            if document["kind"] == kind:
                for part in document.keys() & {"spec", "status"}:
                    given |= set(given_fields(document[part], spec_and_status[part], part))
        wanted = {field for part in ("spec", "status") for field in schema_fields(spec_and_status[part], part)}
        assert wanted - given == set(), kind


def _disagreement(mutation: Mutation, answer: Answer) -> str | None:
    complaints = complaints_of_model(mutation.document)
    if answer.accepted == (not complaints):
        return None
    said = answer.body.get("message", "") if not answer.accepted else "accepted"
    return f"{mutation}\n  models: {complaints or 'accepted'}\n  API server: {answer.status} {said}"


@pytest.mark.parametrize("step", few([1, 5], 5))
def test_api_server_and_models_agree_on_every_mutation_of_a_spec(
    created: Callable[[Document], Answer], valid: Document, step: int
) -> None:
    found = []
    refused = 0
    for mutation in islice(mutations(valid, schema_of(valid["kind"]), "spec"), 0, None, step):
        answer = created(mutation.document)
        refused += not answer.accepted
        if (said := _disagreement(mutation, answer)) and not _is_stricter(mutation, answer):
            found.append(said)
    assert refused * step > 5
    assert not found, "\n".join(found)


def _is_stricter(mutation: Mutation, answer: Answer) -> bool:
    return answer.accepted and schema_path(mutation.path) in STRICTER_MODELS


@pytest.mark.parametrize("document", [stream_from_files(), deleting_policy(), replay_to_files()], ids=_id)
@pytest.mark.parametrize("step", few([1, 5], 5))
def test_api_server_and_models_agree_on_every_mutation_of_a_status(
    apiserver: ApiServer, document: Document, step: int
) -> None:
    stored = create(apiserver, document, dry_run=False)
    assert stored.accepted, stored.body
    found = []
    try:
        base = {**document, "metadata": stored.body["metadata"]}
        for mutation in islice(mutations(base, schema_of(document["kind"]), "status"), 0, None, step):
            # A model ignores unknown fields of a status: a newer operator wrote them.
            if mutation.change.startswith("unknown field") or mutation.path == ("status",):
                continue
            answer = update(apiserver, mutation.document, part="/status")
            if (said := _disagreement(mutation, answer)) and not _is_stricter(mutation, answer):
                found.append(said)
    finally:
        delete(apiserver, document)
    assert not found, "\n".join(found)


def test_the_models_also_refuse_what_the_schema_cannot_express(apiserver: ApiServer) -> None:
    never, nowhere = stream_from_files(), stream_from_files()
    never["spec"]["trigger"]["schedule"]["cron"] = "0 0 30 2 *"
    nowhere["spec"]["trigger"]["schedule"]["timeZone"] = "Europe/Atlantis"
    for document in (never, nowhere):
        assert create(apiserver, document).accepted
        assert complaints_of_model(document) != []


def _put(path: str, value: Any) -> Change:
    *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]

    def change(document: Document) -> None:
        node: Any = document
        for step in parents:
            node = node[step]
        if value is ...:
            del node[last]
        else:
            node[last] = value

    return change


RULES = {message for kind in KINDS for _, message, _ in schema_rules(schema_of(kind), ())}

BROKEN_MAPPINGS: list[Document] = [
    {"path": "$.a", "value": "b"},
    {"value": "b", "default": "c"},
    {"path": "$.a", "pattern": "(a)"},
    {"file": "Name", "pattern": "a"},
    {"value": "a", "in": "Record"},
    {"path": "$.a", "level": 1},
]


def _sent_as_it_came() -> Document:
    document = replay_to_kafka()
    document["spec"]["destination"]["envelope"] = "Original"
    return document


def _sent_on_as_it_came() -> Document:
    document = _sent_as_it_came()
    document["spec"] |= {"start": {"at": "Now"}, "trigger": {"manual": {}}}
    return document


_NAMED: Document = {"replyTo": True, "pattern": "answers[.].*"}
REFUSED_BY_RULES: list[tuple[Document, str, Any]] = [
    (smallest_stream(), "metadata.name", "n" * 64),
    (deleting_policy(), "metadata.name", "n" * 64),
    (redrive(), "metadata.name", "n" * 64),
    (stream_from_files(), "spec.source.files.maxBytesPerBatch", "1Gi"),
    (stream_from_files(), "spec.source.files.archiveUri", ...),
    (stream_from_files(), "spec.source.files.afterIngest", "Keep"),
    (stream_from_files(), "spec.lifecycle.source.files.archiveUri", ...),
    (stream_from_files(), "spec.source.kafka", {"bootstrapServers": "kafka:9092", "topics": ["a"]}),
    (stream_from_files(), "spec.lifecycle.source.files.maxFilesPerBatch", 3),
    (stream_from_files(), "spec.lifecycle.source.files.format", "Text"),
    (stream_from_files(), "spec.trigger.interval", "PT5M"),
    (stream_from_files(), "spec.envelope.format", "Native"),
    (stream_from_files(), "spec.envelope.translators.0.fields.replyTo.path", "$.payload.to"),
    (stream_from_files(), "spec.envelope.translators.0.fields.replyTo.default", "x"),
    (stream_from_files(), "spec.envelope.translators.0.headers.1.path", "$.payload.to"),
    (stream_from_files(), "spec.envelope.fields", ...),
    (stream_from_files(), "spec.envelope.fields.messageId", ...),
    (stream_from_files(), "spec.envelope.fields", {name: {"path": "$.a"} for name in ("messageId", "time")}),
    (stream_of_text(), "spec.envelope.required", ["messageId", "causationId"]),
    *(
        (stream_from_files(), f"spec.envelope.fields.{name}", mapping)
        for name in sorted(stream_from_files()["spec"]["envelope"]["fields"])
        for mapping in BROKEN_MAPPINGS
    ),
    *((stream_of_shapes(), "spec.envelope.addHeaders.tenant", mapping) for mapping in BROKEN_MAPPINGS),
    *(
        (stream_of_shapes(), f"spec.envelope.fields.{name}", {**mapping, "unit": "Seconds"})
        for name in ("time", "expiresAt")
        for mapping in ({"value": "1"}, {"file": "ModifiedAt"})
    ),
    *(
        (stream_of_shapes(), f"spec.{source}.files.{globs}.0", glob)
        for source in ("source", "lifecycle.source")
        for globs in ("include", "exclude")
        for glob in ("../*.json", "/a")
    ),
    (stream_of_shapes(), "spec.source.files.format", "JSONLines"),
    (stream_of_shapes(), "spec.lifecycle.source.files.format", "JSONLines"),
    (stream_of_shapes(), "spec.lifecycle.source.files.rereadNonce", 1),
    (stream_of_text(), "spec.envelope.unwrap", [{"path": "$.a"}]),
    (stream_of_text(), "spec.envelope", {"format": "Native"}),
    (stream_from_files(), "spec.spark.conf", {"spark.driver.extraJavaOptions": "-Dx=y"}),
    (deleting_policy(), "spec.spark.conf", {"spark.jars": "evil.jar"}),
    (replay_to_files(), "spec.spark.conf", {"spark.hadoop.fs.s3a.secret.key": "s"}),
    *(
        (document, "spec.spark.conf", {form.names[0]: "${env:HOME}"})
        for form in FORMS
        for document in (stream_from_files(), deleting_policy(), replay_to_files())
    ),
    (stream_from_kafka(), "spec.source.kafka.topicPattern", "a.*"),
    (stream_from_kafka(), "spec.lifecycle.source.kafka.topics", ["a"]),
    (stream_from_kafka(), "spec.source.kafka.security.protocol", "SSL"),
    (stream_from_kafka(), "spec.source.kafka.security.mechanism", ...),
    (stream_from_kafka(), "spec.lifecycle.source.kafka.security", {"protocol": "SASL_SSL", "mechanism": "PLAIN"}),
    (replay_to_kafka(), "spec.destination.kafka.security.credentialsSecretRef", ...),
    (deleting_policy(), "spec.streamSelector", {"matchLabels": {"a": "b"}}),
    (deleting_policy(), "spec.rules.0", {"name": "nothing"}),
    (deleting_policy(), "spec.action", "Scrub"),
    (deleting_policy(), "spec.rules.5.consumedBy", {"replayJobs": ["relay"]}),
    (deleting_policy(), "spec.rules.4.consumedBy", {}),
    (scrubbing_policy(), "spec.rules", []),
    (scrubbing_policy(), "spec.scrub", {}),
    (scrubbing_policy(), "spec.scrub.keySecretRef", ...),
    (scrubbing_policy(), "spec.archive", {"uri": "s3a://archive/x"}),
    (scrubbing_policy(), "spec.rules.0.erase", True),
    (scrubbing_policy(), "spec.trigger.schedule", {"cron": "0 3 * * *"}),
    (replay_to_files(), "spec.select.streamNames", []),
    (replay_to_files(), "spec.select.reasons", ["MissingField"]),
    (replay_to_files(), "spec.select.timeWindow.to", "2026-03-01T06:30:00Z"),
    (replay_to_files(), "spec.select.globalPositions.to", 0),
    (replay_to_files(), "spec.select.positions", {"from": 3, "to": 2}),
    (replay_to_files(), "spec.destination.stream", {"name": "other"}),
    (replay_to_files(), "spec.destination", {"stream": {"name": "invoices"}}),
    (stream_from_kafka(), "spec.lifecycle.source.kafka.keepRecord", True),
    (stream_from_kafka(), "spec.lifecycle.source.kafka.keepGroupOffsets", ["billing"]),
    (stream_from_kafka(), "spec.source.kafka.keepRecord", False),
    (subscriptions()[0], "spec.destination.envelope", "CloudEventsBinary"),
    (_sent_as_it_came(), "spec.mark", {"headers": {"a": "b"}}),
    (_sent_as_it_came(), "spec.select", {"dueForRetry": True}),
    (_sent_as_it_came(), "spec.order", "None"),
    (_sent_on_as_it_came(), "spec.trigger", {"continuous": {}}),
    (_sent_on_as_it_came(), "spec.destination.kafka.createTopic", True),
    (replay_to_kafka(), "spec.destination.kafka.createTopic", True),
    (replay_to_files(), "spec.destination.envelope", "CloudEvents"),
    (redeliveries()[0], "spec.destination.envelope", "CloudEvents"),
    (subscriptions()[0], "spec.destination", {"stream": {"name": "other"}, "envelope": "CloudEvents"}),
    (redrive(), "spec.destination", {"kafka": {"bootstrapServers": "a:1", "topic": "t"}, "envelope": "CloudEvents"}),
    (replay_to_http(), "spec.destination.files", {"uri": "s3a://replay/x"}),
    (replay_to_http(), "spec.destination.http.url", "http://events.example.org/"),
    (replay_to_http(), "spec.destination.http.delivery.deadLetter.files.uri", "file:///refused%20events"),
    (redrive(), "spec.destination", {"http": {"url": "https://events.example.org/"}}),
    (replay_to_http(), "spec.destination.envelope", "Original"),
    (replay_to_http(), "spec.mark", {"headers": {"x-replay": "{job}"}}),
    (redeliveries()[0], "spec.mode", "DryRun"),
    (redeliveries()[0], "spec.activeDeadline", "PT1H"),
    (redeliveries()[0], "spec.start", {"at": "Now"}),
    (subscriptions()[0], "spec.start", ...),
    (subscriptions()[0], "spec.start", {}),
    (subscriptions()[0], "spec.start.globalPosition", 7),
    (subscriptions()[0], "spec.trigger", ...),
    (subscriptions()[0], "spec.origin", "DeadLetters"),
    (subscriptions()[0], "spec.select.limit", 7),
    (subscriptions()[0], "spec.select.globalPositions", {"from": 7}),
    (subscriptions()[0], "spec.select.timeWindow", {"to": LATER}),
    (subscriptions()[0], "spec.select.statuses", ["FAILED"]),
    (subscriptions()[0], "spec.select.sequences", {"orOverdue": True}),
    (subscriptions()[0], "spec.order", "Sequence"),
    (subscriptions()[0], "spec.trigger", {"continuous": {}}),
    (subscriptions()[-1], "spec.start", ...),
    (redrive(), "spec.select", {"expired": "Skip"}),
    (replay_by_routes(), "spec.destinations", ...),
    (replay_by_routes(), "spec.destination", {"files": {"uri": "s3a://replay/x"}}),
    (replay_by_routes(), "spec.start", ...),
    (replay_by_routes(), "spec.trigger", {"continuous": {}}),
    (subscriptions()[-1], "spec.destination", {"files": {"uri": "s3a://replay/x"}}),
    (replay_by_routes(), "spec.mark", {"headers": {"x-replay": "{job}"}}),
    (replay_by_routes(), "spec.destinations.0.http", {"url": "https://events.example.org/"}),
    (replay_by_routes(), "spec.destinations.4.where", "type = 'InvoicePaid'"),
    (replay_by_routes(), "spec.destinations.0.files", {"uri": "s3a://replay/x"}),
    (replay_by_routes(), "spec.destinations.0.start", {}),
    (replay_by_routes(), "spec.destinations.0.start.at", "Now"),
    (replay_by_routes(), "spec.destinations.1.envelope", "Original"),
    (replay_by_routes(), "spec.destinations.1.http.url", "http://events.example.org/"),
    (replay_by_routes(), "spec.destinations.1.http.delivery.deadLetter.files.uri", "file:///refused%20events"),
    (replay_by_routes(), "spec.destinations.2.files.uri", "file:///lake/%41"),
    (replay_by_routes(), "spec.destinations.2.envelope", "CloudEventsBinary"),
    (replay_by_routes(), "spec.destinations.2.otherwise", True),
    (replay_by_routes(), "spec.destinations.3.kafka.topic", "others"),
    (replay_by_routes(), "spec.destinations.3.kafka.topicFrom", ...),
    (replay_by_routes(), "spec.destinations.3.kafka.topicFrom.replyTo", True),
    (replay_by_routes(), "spec.destinations.3.kafka.topicFrom.header", ...),
    (replay_by_routes(), "spec.destinations.3.envelope", "Original"),
    (redrive(), "spec.destination", {"kafka": {"bootstrapServers": "a:1", "topicFrom": _NAMED}}),
    (subscriptions()[-2], "spec.destination.kafka.topic", "others"),
    (subscriptions()[-2], "spec.destination.kafka.topicFrom.header", "topic"),
    (subscriptions()[-2], "spec.destination.kafka.topicFrom.pattern", "a\tb"),
    (replay_by_routes(), "spec.destinations.4.envelope", "CloudEvents"),
    (replay_by_routes(), "spec.destinations.4.stream.name", "invoices"),
    (
        replay_by_routes(),
        "spec.destinations",
        [
            {"name": "one", "stream": {"name": "a"}},
            {"name": "two", "otherwise": True, "stream": {"name": "b"}},
        ],
    ),
    (smallest_stream(), "spec.table.uri", "file:///lake/%41"),
    (stream_from_files(), "spec.source.files.archiveUri", "file:///lake/%41"),
    (stream_from_files(), "spec.lifecycle.source.files.archiveUri", "file:///lake/%41"),
    (deleting_policy(), "spec.archive", {"uri": "file:///lake/%41"}),
    (replay_to_files(), "spec.destination.files.uri", "file:///lake/%41"),
]

REFUSED_BY_SEVERAL: list[tuple[Document, str, Any]] = [
    (replay_by_routes(), "spec.destinations.0.kafka.createTopic", True),
    (stream_from_kafka(), "spec.source.kafka.topicPattern", "a\tb"),
]
"""Also by another rule, such as one about all destinations, which a model checks only if each is valid by itself."""

_KAFKA = [
    (stream_from_kafka(), "spec.source.kafka.security"),
    (stream_from_kafka(), "spec.lifecycle.source.kafka.security"),
    (replay_to_kafka(), "spec.destination.kafka.security"),
    (replay_by_routes(), "spec.destinations.0.kafka.security"),
]
_USER: Document = {"credentialsSecretRef": {"name": "user"}}
REFUSED_BY_RULES += [
    (document, path, security)
    for document, path in _KAFKA
    for security in (
        {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", **_USER},
        {"protocol": "SASL_SSL", "mechanism": "PLAIN", **_USER, "oauth": {"tokenEndpoint": "https://tokens/token"}},
        {"protocol": "SSL", "username": "alice"},
        {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", **_USER, "clientCertificateSecretRef": {"name": "own"}},
    )
]


def _audit() -> Document:
    audit: Document = replay_by_routes()["spec"]["destinations"][2]
    return audit


REFUSED_UPDATES: list[tuple[Document, str, Any]] = [
    (smallest_stream(), "spec.table.uri", "s3a://lake/other"),
    (replay_to_files(), "spec.streamRef.name", "other"),
    (replay_to_files(), "spec.origin", "DeadLetters"),
    (replay_to_files(), "spec.select.limit", ...),
    (replay_to_files(), "spec.order", "None"),
    (replay_to_files(), "spec.destination.files.uri", "s3a://replay/other"),
    (replay_to_files(), "spec.mark", ...),
    (replay_to_files(), "spec.mode", "Run"),
    (replay_to_files(), "spec.backoffLimit", 2),
    (replay_to_files(), "spec.onFailed", "Fail"),
    (replay_to_files(), "spec.activeDeadline", "PT3H"),
    (replay_to_files(), "spec.ttlAfterFinished", ...),
    (replay_to_files(), "spec.spark.driver.cores", 4),
    (redrive(), "spec.mark", {"headers": {"a": "{job}"}}),
    (redeliveries()[-1], "spec.trigger.interval", "PT7M"),
    (subscriptions()[0], "spec.start", {"at": "Now"}),
    (subscriptions()[0], "spec.order", "Global"),
    (subscriptions()[0], "spec.streamRef.name", "other"),
    (subscriptions()[0], "spec.destination.files.uri", "s3a://replay/other"),
    (subscriptions()[0], "spec.destination", {"stream": {"name": "other"}}),
    (subscriptions()[0], "spec.destination.envelope", "CloudEvents"),
    (replay_to_http(), "spec.destination.http.url", "https://events.example.org/others"),
    (replay_to_http(), "spec.destination", {"files": {"uri": "s3a://replay/x"}}),
    (subscriptions()[0], "spec", {**replay_by_routes()["spec"], "start": subscriptions()[0]["spec"]["start"]}),
    (replay_by_routes(), "spec.destinations.0.kafka.topic", "others"),
    (replay_by_routes(), "spec.destinations.0.kafka", {"bootstrapServers": "a:1", "topicFrom": _NAMED}),
    (replay_by_routes(), "spec.destinations.1.http.url", "https://events.example.org/others"),
    (replay_by_routes(), "spec.destinations.2.files.uri", "s3a://audit/others"),
    (replay_by_routes(), "spec.destinations.4.stream.name", "more"),
    (replay_by_routes(), "spec.destinations.2.name", "books"),
]

ALLOWED_UPDATES: list[tuple[Document, str, Any]] = [
    (smallest_stream(), "spec.table.deletionPolicy", "Delete"),
    (smallest_stream(), "spec.source.files.uri", "s3a://landing/other"),
    (subscriptions()[0], "spec.select.categories", ["order"]),
    (subscriptions()[0], "spec.select.timeWindow", {"from": TIME}),
    (subscriptions()[0], "spec.trigger", {"manual": {}}),
    (subscriptions()[-1], "spec.trigger", {"interval": "PT1M"}),
    (subscriptions()[0], "spec.select.expired", "Include"),
    (subscriptions()[0], "spec.mark", {"headers": {"a": "{job}"}}),
    (subscriptions()[0], "spec.onFailed", "Continue"),
    (subscriptions()[0], "spec.destination.files.storage", {"endpoint": "https://s3.example.org"}),
    (replay_to_http(), "spec.destination.http.maxInFlight", 2),
    (replay_to_http(), "spec.destination.http.headerSecretRef", ...),
    (replay_to_http(), "spec.destination.http.delivery", {"retry": 1}),
    (replay_by_routes(), "spec.destinations.0.where", "headers['region'] = 'us'"),
    (replay_by_routes(), "spec.destinations.0.kafka.key", "category"),
    (replay_by_routes(), "spec.destinations.3.kafka.topicFrom", _NAMED),
    (replay_by_routes(), "spec.destinations.0.start", ...),
    (replay_by_routes(), "spec.destinations.2", {**_audit(), "name": "books", "start": {"at": "Now"}}),
    (replay_by_routes(), "spec.destinations", [_audit()]),
    (replay_to_files(), "spec.suspend", False),
    (replay_to_files(), "spec.rateLimit", ...),
    (replay_to_files(), "spec.rateLimit.messagesPerSecond", 7),
]


def _changed(document: Document, path: str, value: Any) -> Document:
    changed = deepcopy(document)
    _put(path, value)(changed)
    return changed


def _case_id(case: Any) -> str:
    if isinstance(case, dict):
        return str(case.get("kind", ""))
    return case if isinstance(case, str) else ""


@pytest.mark.parametrize(("document", "path", "value"), REFUSED_BY_RULES, ids=_case_id)
def test_a_rule_says_the_same_in_cel_and_in_python(
    created: Callable[[Document], Answer], document: Document, path: str, value: Any
) -> None:
    changed = _changed(document, path, value)
    answer = created(changed)
    assert answer.status == 422, answer.body
    in_cel = {message.rpartition('": ')[2] for _, message in answer.causes}
    in_python = {complaint.partition(": ")[2] for complaint in complaints_of_model(changed)}
    assert in_cel & RULES == in_python & RULES != set()


@pytest.mark.parametrize(("document", "path", "value"), REFUSED_UPDATES, ids=_case_id)
def test_an_immutable_field_cannot_be_changed(apiserver: ApiServer, document: Document, path: str, value: Any) -> None:
    answer = _update(apiserver, document, path, value)
    assert answer.status == 422, answer.body
    assert "can't be changed" in answer.body["message"]


@pytest.mark.parametrize(("document", "path", "value"), ALLOWED_UPDATES, ids=_case_id)
def test_mutable_fields_may_change(apiserver: ApiServer, document: Document, path: str, value: Any) -> None:
    answer = _update(apiserver, document, path, value)
    assert answer.accepted, answer.body


def _update(apiserver: ApiServer, document: Document, path: str, value: Any) -> Answer:
    stored = create(apiserver, document, dry_run=False)
    assert stored.accepted, stored.body
    try:
        return update(apiserver, _changed({**stored.body, "spec": deepcopy(document["spec"])}, path, value))
    finally:
        delete(apiserver, document)


def test_every_rule_refuses_something(apiserver: ApiServer, created: Callable[[Document], Answer]) -> None:
    """Each rule of each CRD, at each place that has it, refuses at least one resource."""
    unsaid = {(kind, path, message) for kind in KINDS for path, message, _ in schema_rules(schema_of(kind), ())}

    def refuses(kind: str, answer: Answer) -> None:
        for field, message in answer.causes:
            unsaid.discard((kind, _without_places(field), message.rpartition('": ')[2]))

    for document, path, value in REFUSED_BY_RULES + REFUSED_BY_SEVERAL:
        refuses(document["kind"], created(_changed(document, path, value)))
    for document, path, value in REFUSED_UPDATES:
        refuses(document["kind"], _update(apiserver, document, path, value))
    for document in all_resources():
        kind = document["kind"]
        for mutation in mutations(document, schema_of(kind), "spec"):
            at = schema_path(mutation.path)
            if any(kind == one and (at.startswith(path) or path.startswith(at)) for one, path, _ in unsaid):
                refuses(kind, created(mutation.document))
    assert unsaid == set()


def _without_places(field: str) -> str:
    lists = re.sub(r"\[\d+\]", "[]", "" if field == "<nil>" else field)
    return re.sub(r"(addHeaders)(\[\w+\]|\.\w+)", r"\1.*", lists)


def test_the_api_server_fills_in_what_the_models_do(apiserver: ApiServer, valid: Document) -> None:
    filled = create(apiserver, valid).body["spec"]
    model = parse_resource(valid).to_dict()["spec"]
    assert filled == model


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        ({"interval": "5m"}, "must be an ISO 8601 duration in days or smaller units, such as P30D or PT5M"),
        ({"schedule": {"cron": "@daily"}}, "must be a cron expression of five fields"),
        ({"schedule": {"cron": "0 3 * * *", "timeZone": "Central European Time"}}, "must be the name of a time zone"),
    ],
)
def test_the_api_server_says_in_words_what_to_write(apiserver: ApiServer, trigger: Document, words: str) -> None:
    document = smallest_stream()
    document["spec"]["trigger"] = trigger
    answer = create(apiserver, document)
    assert answer.status == 422, answer.body
    assert any(message.partition('": ')[2].startswith(words) for _, message in answer.causes), answer.causes
