"""Validation rules over several fields, each in two forms.

A rule has a CEL expression for the Kubernetes API server and a Python function for the models, side by side so that
they change together. A test on a real API server shows that they agree.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from messagestore_operator.api.spark_conf import ALLOWED_CONF, FORMS, Form

MAX_RESOURCE_NAME = 63


@dataclass(frozen=True)
class ValidationRule:
    """A condition on a value, in CEL and in Python, and the message if it doesn't hold."""

    message: str
    cel: str
    holds: Callable[[Any], bool]

    def to_schema(self) -> dict[str, str]:
        """The rule as an item of x-kubernetes-validations."""
        return {"rule": self.cel, "message": self.message}


@dataclass(frozen=True)
class TransitionRule:
    """A condition on the old and new value of an update; only the API server sees both."""

    message: str
    cel: str

    def to_schema(self) -> dict[str, str]:
        """The rule as an item of x-kubernetes-validations."""
        return {"rule": self.cel, "message": self.message}


def exactly_one(*fields: str) -> ValidationRule:
    """One of the fields must be given, and only one. Their names are the same in Python and in manifests."""
    return ValidationRule(
        message=f"give exactly one of {_listed(fields)}",
        cel=f"[{_presence(fields)}].filter(given, given).size() == 1",
        holds=lambda value: _count_given(value, fields) == 1,
    )


def at_least_one(**fields: str) -> ValidationRule:
    """One of the fields must be given, or more; Python's name = the manifest's name."""
    return ValidationRule(
        message=f"give at least one of {_listed(fields.values())}",
        cel=f"[{_presence(fields.values())}].exists(given, given)",
        holds=lambda value: _count_given(value, fields) >= 1,
    )


def at_most_one(**fields: str) -> ValidationRule:
    """No two of the fields may be given; Python's name = the manifest's name."""
    return ValidationRule(
        message=f"give only one of {_listed(fields.values())}",
        cel=f"[{_presence(fields.values())}].filter(given, given).size() <= 1",
        holds=lambda value: _count_given(value, fields) <= 1,
    )


def immutable(field: str, *, optional: bool) -> TransitionRule:
    """The field keeps the value it was created with."""
    return TransitionRule(f"{field} can't be changed: make a new resource instead", _same(field, optional=optional))


def immutable_without(marker: str, field: str, *, optional: bool) -> TransitionRule:
    """The field keeps its value in a resource without another field, which is immutable itself."""
    cel = f"has(self.{marker}) || ({_same(field, optional=optional)})"
    return TransitionRule(f"{field} can't be changed without {marker}: make a new resource instead", cel)


def _same(field: str, *, optional: bool) -> str:
    same = f"self.{field} == oldSelf.{field}"
    if optional:
        same = f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || {same})"
    return same


def _presence(fields: Any) -> str:
    return ", ".join(f"has(self.{field})" for field in fields)


def _count_given(value: Any, fields: Any) -> int:
    return sum(getattr(value, field) is not None for field in fields)


def _listed(fields: Any) -> str:
    *others, last = fields
    return f"{', '.join(others)} and {last}"


NAME_OF_RESOURCE = ValidationRule(
    message=f"metadata.name must have at most {MAX_RESOURCE_NAME} characters: it becomes a label of each run",
    cel=f"self.metadata.name.size() <= {MAX_RESOURCE_NAME}",
    holds=lambda resource: len(resource.metadata.name) <= MAX_RESOURCE_NAME,
)
LONGER_THAN_ZERO = ValidationRule(
    message="must be longer than zero",
    cel="self.matches('[1-9]')",
    holds=lambda text: re.search("[1-9]", text) is not None,
)
NO_DOTS = ValidationRule(
    message="must not hold . or .. as a part of its path",
    cel="!('/' + self + '/').contains('/../') && !('/' + self + '/').contains('/./')",
    holds=lambda uri: not {".", ".."} & set(uri.split("/")),
)
NO_ESCAPES = ValidationRule(
    # delta-rs decodes local paths: of a folder a%20b it would read and write "a b".
    message="must not hold % and two hexadecimal digits in a local path: rename the folder",
    cel="!(self.startsWith('file:') && self.matches('%[0-9A-Fa-f]{2}'))",
    holds=lambda uri: not (uri.startswith("file:") and re.search("%[0-9A-Fa-f]{2}", uri)),
)

KAFKA_SECURITY = (
    ValidationRule(
        message="a SASL protocol needs mechanism and credentialsSecretRef; other protocols have neither",
        cel=(
            "self.protocol.startsWith('SASL_') ? has(self.mechanism) && has(self.credentialsSecretRef)"
            " : !has(self.mechanism) && !has(self.credentialsSecretRef)"
        ),
        holds=lambda it: (
            (it.mechanism is not None, it.credentials_secret_ref is not None) == (it.protocol.startswith("SASL_"),) * 2
        ),
    ),
    ValidationRule(
        message="mechanism OAUTHBEARER needs oauth, and no other mechanism has it: give both, or neither",
        cel="(has(self.mechanism) && self.mechanism == 'OAUTHBEARER') == has(self.oauth)",
        holds=lambda it: (it.mechanism == "OAUTHBEARER") == (it.oauth is not None),
    ),
    ValidationRule(
        message="username goes with mechanism PLAIN or SCRAM: leave it out; a client of OAUTHBEARER has its Secret's "
        "clientId",
        cel="!has(self.username) || (has(self.mechanism) && self.mechanism != 'OAUTHBEARER')",
        holds=lambda it: it.username is None or it.mechanism not in (None, "OAUTHBEARER"),
    ),
    ValidationRule(
        message="clientCertificateSecretRef goes with protocol SSL or SASL_SSL: without TLS nobody sees a certificate",
        cel="!has(self.clientCertificateSecretRef) || self.protocol.endsWith('SSL')",
        holds=lambda it: it.client_certificate_secret_ref is None or it.protocol.endswith("SSL"),
    ),
)
MATCH = ValidationRule(
    message="give at least one condition: an empty match would be everything",
    cel=(
        "[self.streamNames, self.categories, self.types, self.statuses, self.correlationIds,"
        " self.sequenceIds, self.messageIds].exists(list, list.size() > 0)"
        " || self.headers.size() > 0 || self.where != ''"
    ),
    holds=lambda match: any(vars(match).values()),
)

SOURCE = exactly_one("files", "kafka")
FILES_SOURCE = (
    at_most_one(max_files_per_batch="maxFilesPerBatch", max_bytes_per_batch="maxBytesPerBatch"),
    ValidationRule(
        message="afterIngest Archive needs archiveUri, and nothing else has one: give both, or neither",
        cel="(self.afterIngest == 'Archive') == has(self.archiveUri)",
        holds=lambda files: (files.after_ingest == "Archive") == (files.archive_uri is not None),
    ),
    ValidationRule(
        message="lastLineTimeout is for files of lines: leave it out, or set another format than JSON",
        cel="self.format != 'JSON' || !has(self.lastLineTimeout)",
        holds=lambda files: files.format != "JSON" or files.last_line_timeout is None,
    ),
    ValidationRule(
        message="recordsPaths is for documents: set format JSON, or leave it out",
        cel="self.format == 'JSON' || self.recordsPaths.size() == 0",
        holds=lambda files: files.format == "JSON" or len(files.records_paths) == 0,
    ),
)
TOPICS = ValidationRule(
    message="give exactly one of topics and topicPattern",
    cel="(self.topics.size() > 0) != has(self.topicPattern)",
    holds=lambda kafka: (len(kafka.topics) > 0) != (kafka.topic_pattern is not None),
)
KEPT_GROUPS = ValidationRule(
    message="offsets are translated by the records that are kept: with keepGroupOffsets, set keepRecord",
    cel="self.keepGroupOffsets.size() == 0 || self.keepRecord",
    holds=lambda kafka: len(kafka.keep_group_offsets) == 0 or kafka.keep_record,
)
STREAM_TRIGGER = exactly_one("interval", "schedule", "continuous", "manual")
DEDUPLICATION = at_least_one(window="window", remember_purged="rememberPurged")
LIFECYCLE = (
    ValidationRule(
        message="status updates are JSON objects: their source can't have format Text",
        cel="!has(self.source.files) || self.source.files.format != 'Text'",
        holds=lambda lifecycle: not _reads_text(lifecycle),
    ),
    ValidationRule(
        message="status updates that were applied would be applied again: leave rereadNonce out",
        cel="!has(self.source.files) || !has(self.source.files.rereadNonce)",
        holds=lambda lifecycle: lifecycle.source.files is None or lifecycle.source.files.reread_nonce is None,
    ),
    ValidationRule(
        message="status updates are not kept: leave keepRecord out",
        cel="!has(self.source.kafka) || !self.source.kafka.keepRecord",
        holds=lambda lifecycle: lifecycle.source.kafka is None or not lifecycle.source.kafka.keep_record,
    ),
)
STREAM = (
    ValidationRule(
        message="source.files.format Text needs envelope.format Custom: a line of text has no envelope of its own",
        cel="!has(self.source.files) || self.source.files.format != 'Text' || self.envelope.format == 'Custom'",
        holds=lambda spec: not _reads_text(spec) or spec.envelope.format == "Custom",
    ),
    ValidationRule(
        message="envelope.unwrap is for JSON: leave it out, or set another source.files.format than Text",
        cel="!has(self.source.files) || self.source.files.format != 'Text' || self.envelope.unwrap.size() == 0",
        holds=lambda spec: not _reads_text(spec) or len(spec.envelope.unwrap) == 0,
    ),
    ValidationRule(
        message="envelope.fields needs messageId, unless source.files.format is Text",
        cel=(
            "!has(self.envelope.fields) || has(self.envelope.fields.messageId)"
            " || (has(self.source.files) && self.source.files.format == 'Text')"
        ),
        holds=lambda spec: (
            spec.envelope.fields is None or spec.envelope.fields.message_id is not None or _reads_text(spec)
        ),
    ),
)

FIELD_MAPPING = (
    exactly_one("path", "header", "record", "file", "partition", "value"),
    ValidationRule(
        message="pattern goes with file: leave it out, or give file Path or Name",
        cel="!has(self.pattern) || has(self.file)",
        holds=lambda mapping: mapping.pattern is None or mapping.file is not None,
    ),
    ValidationRule(
        message="in goes with path: leave it out, or give path",
        cel="!has(self.__in__) || has(self.path)",
        holds=lambda mapping: mapping.in_ is None or mapping.path is not None,
    ),
    ValidationRule(
        message="level goes with in Outer: leave it out, or set that",
        cel="!has(self.level) || (has(self.__in__) && self.__in__ == 'Outer')",
        holds=lambda mapping: mapping.level is None or mapping.in_ == "Outer",
    ),
    ValidationRule(
        message="default goes with all but value: beside it, it would never be used",
        cel="!has(self.default) || !has(self.value)",
        holds=lambda mapping: mapping.default is None or mapping.value is None,
    ),
)
TIME_MAPPING = (
    *FIELD_MAPPING,
    ValidationRule(
        message="unit goes with path, header, partition, and file Path or Name: beside another no number would have it",
        cel=(
            "!has(self.unit) || has(self.path) || has(self.header) || has(self.partition)"
            " || (has(self.file) && self.file in ['Path', 'Name'])"
        ),
        holds=lambda mapping: (
            mapping.unit is None
            or _count_given(mapping, ("path", "header", "partition")) > 0
            or mapping.file in ("Path", "Name")
        ),
    ),
)
ENVELOPE_FIELDS = ValidationRule(
    message="give streamName or category: without either a message belongs to no stream",
    cel="has(self.streamName) || has(self.category)",
    holds=lambda fields: fields.stream_name is not None or fields.category is not None,
)
ONE_SOURCE = ValidationRule(
    message="give exactly one of path, rename and value, or default alone; default goes beside path and rename too",
    cel=(
        "has(self.value) ? !has(self.path) && !has(self.rename) && !has(self.default)"
        " : (has(self.path) || has(self.rename) ? has(self.path) != has(self.rename) : has(self.default))"
    ),
    holds=lambda source: _is_one(source),
)


def _is_one(source: Any) -> bool:
    given = [part is not None for part in (source.path, source.rename, source.default)]
    if source.value is not None:
        return not any(given)
    return given[0] != given[1] if given[0] or given[1] else given[2]


def envelope(names: Mapping[str, str]) -> tuple[ValidationRule, ...]:
    """The rules of an envelope, with the names of its fields in Python by those in manifests."""
    mapped = " || ".join(f"name == '{name}' && has(self.fields.{name})" for name in names)
    return (
        ValidationRule(
            message="format Custom needs fields; formats Native and CloudEvents know their own and have none",
            cel="(self.format == 'Custom') == has(self.fields)",
            holds=lambda envelope: (envelope.format == "Custom") == (envelope.fields is not None),
        ),
        ValidationRule(
            message="unknownFields Refuse goes with format Native: the others let a record have any",
            cel="self.unknownFields != 'Refuse' || self.format == 'Native'",
            holds=lambda envelope: envelope.unknown_fields != "Refuse" or envelope.format == "Native",
        ),
        ValidationRule(
            message="required names a field that fields doesn't: no record could ever have it",
            cel=f"!has(self.fields) || self.required.all(name, name == 'messageId' || {mapped})",
            holds=lambda envelope: (
                envelope.fields is None
                or all(name == "messageId" or getattr(envelope.fields, names[name]) for name in envelope.required)
            ),
        ),
    )


POLICY_TRIGGER = exactly_one("schedule", "manual")
CONSUMED_BY = (
    ValidationRule(
        message="give replayJobs or consumers, or both: without a name there is nobody to wait for",
        cel="self.replayJobs.size() > 0 || self.consumers.size() > 0",
        holds=lambda consumed: bool(consumed.replay_jobs or consumed.consumers),
    ),
)
POLICY_RULE = (
    ValidationRule(
        message="give at least one of expired, statuses, maxAge, maxMessagesPerStream, maxBytes, truncateBefore, match "
        "and consumedBy",
        cel=(
            "self.expired || self.statuses.size() > 0 || has(self.maxAge) || has(self.maxMessagesPerStream)"
            " || has(self.maxBytes) || has(self.truncateBefore) || has(self.match) || has(self.consumedBy)"
        ),
        holds=lambda rule: (
            rule.expired
            or len(rule.statuses) > 0
            or _count_given(
                rule,
                ("max_age", "max_messages_per_stream", "max_bytes", "truncate_before", "match", "consumed_by"),
            )
            > 0
        ),
    ),
    ValidationRule(
        message="erase goes without consumedBy: no subscription or consumer delays an erasure",
        cel="!self.erase || !has(self.consumedBy)",
        holds=lambda rule: not rule.erase or rule.consumed_by is None,
    ),
)
SCRUB = (
    ValidationRule(
        message="give at least one of payloadPaths, metadataPaths, resultPaths, headers and error: "
        "there would be nothing to scrub",
        cel="self.payloadPaths.size() > 0 || self.metadataPaths.size() > 0 || self.resultPaths.size() > 0 || "
        "self.headers.size() > 0 || self.error",
        holds=lambda scrub: any(
            (scrub.payload_paths, scrub.metadata_paths, scrub.result_paths, scrub.headers, scrub.error)
        ),
    ),
    ValidationRule(
        message="method Hash needs keySecretRef",
        cel="self.method != 'Hash' || has(self.keySecretRef)",
        holds=lambda scrub: scrub.method != "Hash" or scrub.key_secret_ref is not None,
    ),
)
POLICY = (
    ValidationRule(
        message="give exactly one of streamRefs and streamSelector",
        cel="(self.streamRefs.size() > 0) != has(self.streamSelector)",
        holds=lambda spec: (len(spec.stream_refs) > 0) != (spec.stream_selector is not None),
    ),
    ValidationRule(
        message="give at least one of rules and deadLetters: nothing would ever leave the store",
        cel="self.rules.size() > 0 || has(self.deadLetters)",
        holds=lambda spec: len(spec.rules) > 0 or spec.dead_letters is not None,
    ),
    ValidationRule(
        message="action Scrub needs scrub",
        cel="self.action != 'Scrub' || has(self.scrub)",
        holds=lambda spec: spec.action != "Scrub" or spec.scrub is not None,
    ),
    ValidationRule(
        message="action Scrub removes no message, so there is nothing to archive: leave archive out",
        cel="self.action != 'Scrub' || !has(self.archive)",
        holds=lambda spec: spec.action != "Scrub" or spec.archive is None,
    ),
    ValidationRule(
        message="action Scrub keeps the row that erase removes: move such rules to a policy with action Delete",
        cel="self.action != 'Scrub' || !self.rules.exists(rule, rule.erase)",
        holds=lambda spec: spec.action != "Scrub" or not any(rule.erase for rule in spec.rules),
    ),
)

TIME_WINDOW = ValidationRule(
    message="from must be earlier than to",
    cel="!has(self.from) || !has(self.to) || self.from < self.to",
    holds=lambda window: window.from_ is None or window.to is None or window.from_.datetime < window.to.datetime,
)
POSITIONS = ValidationRule(
    message="from must not be greater than to",
    cel="!has(self.from) || !has(self.to) || self.from <= self.to",
    holds=lambda span: span.from_ is None or span.to is None or span.from_ <= span.to,
)
SELECT = ValidationRule(
    message="positions needs streamNames: each stream counts its own",
    cel="!has(self.positions) || self.streamNames.size() > 0",
    holds=lambda select: select.positions is None or len(select.stream_names) > 0,
)
TOPIC_FROM = ValidationRule(
    message="give exactly one of header and replyTo",
    cel="has(self.header) != self.replyTo",
    holds=lambda named: (named.header is not None) != named.reply_to,
)
KAFKA_TO = (
    at_least_one(topic="topic", topic_from="topicFrom"),
    at_most_one(topic="topic", topic_from="topicFrom"),
)
DESTINATION = (
    exactly_one("files", "kafka", "http", "stream"),
    ValidationRule(
        message="an endpoint takes CloudEvents: with http leave envelope out, or set CloudEvents or CloudEventsBinary",
        cel="!has(self.http) || self.envelope in ['Native', 'CloudEvents', 'CloudEventsBinary']",
        holds=lambda to: to.http is None or to.envelope in ("Native", "CloudEvents", "CloudEventsBinary"),
    ),
    ValidationRule(
        message="envelope CloudEventsBinary and Original go with kafka: files have no headers; set another",
        cel="!(self.envelope in ['CloudEventsBinary', 'Original']) || !has(self.files)",
        holds=lambda to: to.envelope not in ("CloudEventsBinary", "Original") or to.files is None,
    ),
    ValidationRule(
        message="a topic is made as it was for records as they came: with kafka.createTopic, set envelope Original",
        cel="!has(self.kafka) || !self.kafka.createTopic || self.envelope == 'Original'",
        holds=lambda to: to.kafka is None or not to.kafka.create_topic or to.envelope == "Original",
    ),
    ValidationRule(
        message="a record as it came goes to the partition that it came from: with envelope Original, give kafka.topic",
        cel="self.envelope != 'Original' || !has(self.kafka) || has(self.kafka.topic)",
        holds=lambda to: to.envelope != "Original" or to.kafka is None or to.kafka.topic is not None,
    ),
    ValidationRule(
        message="a stream takes Native records: leave envelope out",
        cel="self.envelope == 'Native' || !has(self.stream)",
        holds=lambda to: to.envelope == "Native" or to.stream is None,
    ),
)


def _same_place(to: str, old: str) -> str:
    """Whether a destination is the one that it was, but for a topic's key and how it is reached."""
    return (
        f"{to}.envelope == {old}.envelope"
        f" && has({to}.files) == has({old}.files)"
        f" && has({to}.kafka) == has({old}.kafka)"
        f" && (!has({to}.files) || {to}.files.uri == {old}.files.uri && {to}.files.format == {old}.files.format)"
        f" && (!has({to}.kafka) || has({to}.kafka.topic) == has({old}.kafka.topic)"
        f" && (!has({to}.kafka.topic) || {to}.kafka.topic == {old}.kafka.topic))"
        f" && has({to}.http) == has({old}.http)"
        f" && (!has({to}.http) || {to}.http.url == {old}.http.url)"
        f" && (!has({to}.stream) || {to}.stream == {old}.stream)"
    )


SENT_TO = TransitionRule(
    message="destination can't be changed: make a new resource instead; with start, only a topic's key and how it is "
    "reached",
    cel=(
        "has(self.destination) == has(oldSelf.destination) && (!has(self.destination)"
        " || self.destination == oldSelf.destination"
        f" || has(self.start) && {_same_place('self.destination', 'oldSelf.destination')})"
    ),
)
ROUTE_SENT_TO = TransitionRule(
    message="the place of a destination can't be changed: take a new name, or change only a topic's key and how it is "
    "reached",
    cel=_same_place("self", "oldSelf"),
)
ADDED = TransitionRule(
    message="destinations can't be changed so: one that is added needs its own start, as spec.start was the others'",
    cel="self.destinations.all(to, has(to.start) || oldSelf.destinations.exists(old, old.name == to.name))",
)
ROUTE = ValidationRule(
    message="give where or otherwise, not both: otherwise is what no other's where matches",
    cel="self.where == '' || !self.otherwise",
    holds=lambda to: to.where == "" or not to.otherwise,
)
HTTP = ValidationRule(
    message="headerSecretRef goes with an https URL: http would send its value without TLS",
    cel="!has(self.headerSecretRef) || self.url.startsWith('https:')",
    holds=lambda http: http.header_secret_ref is None or http.url.startswith("https:"),
)
START = (
    at_least_one(at="at", global_position="globalPosition", inserted_at="insertedAt"),
    at_most_one(at="at", global_position="globalPosition", inserted_at="insertedAt"),
)
_ONLY_ATTRIBUTES = (
    "!self.select.dueForRetry && (!has(self.mark) || self.mark.headers.all(name, name.matches('^[a-z0-9]+$')))"
)
"""Whether nothing is marked that no attribute of an event can say; see ``_has_only_attributes``."""
_COMPLETE = "(has(self.select.sequences) && self.select.sequences.completeOnly)"
SEQUENCES = ValidationRule(
    message="orOverdue needs completeOnly: without it all sequences are selected",
    cel="!self.orOverdue || self.completeOnly",
    holds=lambda sequences: not sequences.or_overdue or sequences.complete_only,
)
REPLAY_TRIGGER = exactly_one("interval", "schedule", "continuous", "manual")


def _of_each(message: str, cel: Callable[[str], str], holds: Callable[[Any, Any], bool]) -> ValidationRule:
    """A condition on each destination of a replay, by its name in CEL; Python's gets the spec and a destination."""
    one, several = cel("self.destination"), cel("to")
    return ValidationRule(
        message=message,
        cel=f"(!has(self.destination) || ({one})) && self.destinations.all(to, {several})",
        holds=lambda spec: all(holds(spec, to) for to in _destinations_of(spec)),
    )


def _destinations_of(spec: Any) -> list[Any]:
    return [*([spec.destination] if spec.destination is not None else []), *spec.destinations]


DESTINATIONS = (
    ValidationRule(
        message="give exactly one of destination and destinations",
        cel="has(self.destination) != (self.destinations.size() > 0)",
        holds=lambda spec: (spec.destination is not None) != (len(spec.destinations) > 0),
    ),
    ValidationRule(
        message="destinations needs start and trigger: each of them has a cursor; to send once, give destination",
        cel="self.destinations.size() == 0 || has(self.start)",
        holds=lambda spec: len(spec.destinations) == 0 or spec.start is not None,
    ),
    ValidationRule(
        message="one of destinations may be a stream, as a run has the right to write one table",
        cel="self.destinations.filter(to, has(to.stream)).size() <= 1",
        holds=lambda spec: sum(to.stream is not None for to in spec.destinations) <= 1,
    ),
    ValidationRule(
        message="one of destinations may have otherwise, and another needs where: otherwise is what none matches",
        cel=(
            "self.destinations.filter(to, to.otherwise).size() <= 1"
            " && (!self.destinations.exists(to, to.otherwise) || self.destinations.exists(to, to.where != ''))"
        ),
        holds=lambda spec: (
            (count := sum(to.otherwise for to in spec.destinations)) <= 1
            and (count == 0 or any(to.where != "" for to in spec.destinations))
        ),
    ),
)
REPLAY = (
    *DESTINATIONS,
    _of_each(
        message="an endpoint gets attributes of events alone: with destination.http, select.dueForRetry is left out, "
        "and mark.headers has names of small letters and digits",
        cel=lambda to: f"!has({to}.http) || {_ONLY_ATTRIBUTES}",
        holds=lambda spec, to: to.http is None or _has_only_attributes(spec),
    ),
    _of_each(
        message="destination.http takes events of messages: dead letters are none, so set origin Messages",
        cel=lambda to: f"self.origin == 'Messages' || !has({to}.http)",
        holds=lambda spec, to: spec.origin == "Messages" or to.http is None,
    ),
    ValidationRule(
        message="select.reasons needs origin DeadLetters: messages have none",
        cel="self.origin == 'DeadLetters' || self.select.reasons.size() == 0",
        holds=lambda spec: spec.origin == "DeadLetters" or len(spec.select.reasons) == 0,
    ),
    _of_each(
        message="destination.stream must be another one than streamRef, unless origin is DeadLetters",
        cel=lambda to: f"self.origin == 'DeadLetters' || !has({to}.stream) || {to}.stream.name != self.streamRef.name",
        holds=lambda spec, to: (
            spec.origin == "DeadLetters" or to.stream is None or to.stream.name != spec.stream_ref.name
        ),
    ),
    _of_each(
        message="dead letters name no topic: with destination.kafka.topicFrom, set origin Messages",
        cel=lambda to: f"self.origin == 'Messages' || !has({to}.kafka) || has({to}.kafka.topic)",
        holds=lambda spec, to: spec.origin == "Messages" or to.kafka is None or to.kafka.topic is not None,
    ),
    _of_each(
        message="a topic is put back once: with destination.kafka.createTopic, leave trigger out",
        cel=lambda to: f"!has({to}.kafka) || !{to}.kafka.createTopic || !has(self.trigger)",
        holds=lambda spec, to: to.kafka is None or not to.kafka.create_topic or spec.trigger is None,
    ),
    ValidationRule(
        message="select.expired needs origin Messages: dead letters don't expire",
        cel="self.origin == 'Messages' || !has(self.select.expired)",
        holds=lambda spec: spec.origin == "Messages" or spec.select.expired is None,
    ),
    _of_each(
        message="dead letters are sent as they came: leave destination.envelope out, or set origin Messages",
        cel=lambda to: f"self.origin == 'Messages' || {to}.envelope == 'Native'",
        holds=lambda spec, to: spec.origin == "Messages" or to.envelope == "Native",
    ),
    _of_each(
        message="a record as it came has no marks and no attempts, and comes in the order of its partition: with "
        "destination.envelope Original leave out mark and select.dueForRetry, and set order PerStream or Global",
        cel=lambda to: (
            f"{to}.envelope != 'Original'"
            " || !has(self.mark) && !self.select.dueForRetry && self.order in ['PerStream', 'Global']"
        ),
        holds=lambda spec, to: (
            to.envelope != "Original"
            or (spec.mark is None and not spec.select.due_for_retry and spec.order in ("PerStream", "Global"))
        ),
    ),
    _of_each(
        message="messages without a record are passed over round by round: with destination.envelope Original, set "
        "trigger interval, schedule or manual",
        cel=lambda to: f"{to}.envelope != 'Original' || !has(self.trigger) || !has(self.trigger.continuous)",
        holds=lambda spec, to: to.envelope != "Original" or spec.trigger is None or spec.trigger.continuous is None,
    ),
    _of_each(
        message="events in files have no headers but attributes: with destination.envelope CloudEvents to files, "
        "select.dueForRetry is left out, and mark.headers has names of small letters and digits",
        cel=lambda to: f"{to}.envelope == 'Native' || !has({to}.files) || {_ONLY_ATTRIBUTES}",
        holds=lambda spec, to: to.envelope == "Native" or to.files is None or _has_only_attributes(spec),
    ),
    ValidationRule(
        message="select.dueForRetry needs origin Messages: dead letters have no retries",
        cel="self.origin == 'Messages' || !self.select.dueForRetry",
        holds=lambda spec: spec.origin == "Messages" or not spec.select.due_for_retry,
    ),
    ValidationRule(
        message="trigger needs mode Run: a preview is made once",
        cel="!has(self.trigger) || self.mode == 'Run'",
        holds=lambda spec: spec.trigger is None or spec.mode == "Run",
    ),
    ValidationRule(
        message="give start with trigger, and leave both out for one replay; with select.dueForRetry there is no start",
        cel="has(self.start) == (has(self.trigger) && !self.select.dueForRetry)",
        holds=lambda spec: (spec.start is not None) == (spec.trigger is not None and not spec.select.due_for_retry),
    ),
    _of_each(
        message="trigger.continuous goes with kafka and http: files and streams go by interval, schedule or manual",
        cel=lambda to: f"!has(self.trigger) || !has(self.trigger.continuous) || has({to}.kafka) || has({to}.http)",
        holds=lambda spec, to: (
            spec.trigger is None or spec.trigger.continuous is None or to.kafka is not None or to.http is not None
        ),
    ),
    ValidationRule(
        message="trigger.continuous needs start: select.dueForRetry goes by interval, schedule or manual",
        cel="!has(self.trigger) || !has(self.trigger.continuous) || has(self.start)",
        holds=lambda spec: spec.trigger is None or spec.trigger.continuous is None or spec.start is not None,
    ),
    ValidationRule(
        message="start needs origin Messages: dead letters have no position",
        cel="!has(self.start) || self.origin == 'Messages'",
        holds=lambda spec: spec.start is None or spec.origin == "Messages",
    ),
    ValidationRule(
        message="with start, select has neither globalPositions, timeWindow.to nor limit: it would come to an end",
        cel=(
            "!has(self.start) || !has(self.select.globalPositions) && !has(self.select.limit)"
            " && (!has(self.select.timeWindow) || !has(self.select.timeWindow.to))"
        ),
        holds=lambda spec: spec.start is None or not _ends(spec.select),
    ),
    ValidationRule(
        message="with start, select has no statuses: they change after a message was passed over",
        cel="!has(self.start) || self.select.statuses.size() == 0",
        holds=lambda spec: spec.start is None or len(spec.select.statuses) == 0,
    ),
    ValidationRule(
        message="with start, order Sequence needs select.sequences.completeOnly: a sequence may come in two rounds",
        cel=f"!has(self.start) || self.order != 'Sequence' || {_COMPLETE}",
        holds=lambda spec: spec.start is None or spec.order != "Sequence" or _is_complete_only(spec.select),
    ),
    ValidationRule(
        message="a replay with a trigger never ends: it has neither activeDeadline nor ttlAfterFinished",
        cel="!has(self.trigger) || (!has(self.activeDeadline) && !has(self.ttlAfterFinished))",
        holds=lambda spec: spec.trigger is None or _count_given(spec, ("active_deadline", "ttl_after_finished")) == 0,
    ),
)


def _has_only_attributes(spec: Any) -> bool:
    names = () if spec.mark is None else spec.mark.headers
    return not spec.select.due_for_retry and all(re.fullmatch("[a-z0-9]+", name) for name in names)


def _is_complete_only(select: Any) -> bool:
    return select.sequences is not None and select.sequences.complete_only


def _ends(select: Any) -> bool:
    window = select.time_window
    return _count_given(select, ("global_positions", "limit")) > 0 or (window is not None and window.to is not None)


def _form_of_conf(form: Form) -> ValidationRule:
    pattern = form.pattern.replace("\\", "\\\\")
    return ValidationRule(
        message=f"conf: {', '.join(form.names)}: the value must be {form.words}",
        cel=(
            f"!has(self.conf) || self.conf.all(name, !(name in [{_quoted(form.names)}])"
            f" || self.conf[name].matches('^({pattern})$'))"
        ),
        holds=lambda spark: all(form.fits(spark.conf[name]) for name in form.names if name in spark.conf),
    )


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


SPARK_CONF = (
    ValidationRule(
        message="conf holds a setting that is not allowed: its description lists those that are",
        cel=f"!has(self.conf) || self.conf.all(name, name in [{_quoted(ALLOWED_CONF)}])",
        holds=lambda spark: set(spark.conf) <= set(ALLOWED_CONF),
    ),
    *map(_form_of_conf, FORMS),
)


def _reads_text(reader: Any) -> bool:
    files = reader.source.files
    return files is not None and files.format == "Text"
