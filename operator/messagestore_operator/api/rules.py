"""Validation rules over several fields, each in two forms.

A rule has a CEL expression for the Kubernetes API server and a Python function for the models, side by side so that
they change together. A test on a real API server shows that they agree.
"""

from __future__ import annotations

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
        message="lastLineAfter is for files of lines: leave it out, or set another format than JSON",
        cel="self.format != 'JSON' || !has(self.lastLineAfter)",
        holds=lambda files: files.format != "JSON" or files.last_line_after is None,
    ),
    ValidationRule(
        message="recordsPath is for documents: set format JSON, or leave it out",
        cel="self.format == 'JSON' || self.recordsPath.size() == 0",
        holds=lambda files: files.format == "JSON" or len(files.records_path) == 0,
    ),
)
TOPICS = ValidationRule(
    message="give exactly one of topics and topicPattern",
    cel="(self.topics.size() > 0) != has(self.topicPattern)",
    holds=lambda kafka: (len(kafka.topics) > 0) != (kafka.topic_pattern is not None),
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
        message="status updates that were applied would be applied again: leave readAgain out",
        cel="!has(self.source.files) || !has(self.source.files.readAgain)",
        holds=lambda lifecycle: lifecycle.source.files is None or lifecycle.source.files.read_again is None,
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
POLICY_RULE = ValidationRule(
    message="give at least one of expired, statuses, maxAge, maxMessagesPerStream, maxBytes, truncateBefore, match",
    cel=(
        "self.expired || self.statuses.size() > 0 || has(self.maxAge) || has(self.maxMessagesPerStream)"
        " || has(self.maxBytes) || has(self.truncateBefore) || has(self.match)"
    ),
    holds=lambda rule: (
        rule.expired
        or len(rule.statuses) > 0
        or _count_given(rule, ("max_age", "max_messages_per_stream", "max_bytes", "truncate_before", "match")) > 0
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
DESTINATION = exactly_one("files", "kafka", "stream")
SENT_TO = TransitionRule(
    message="destination can't be changed: make a new resource instead; with start, only a topic's key and how it is "
    "reached",
    cel=(
        "self.destination == oldSelf.destination || has(self.start)"
        " && has(self.destination.files) == has(oldSelf.destination.files)"
        " && has(self.destination.kafka) == has(oldSelf.destination.kafka)"
        " && (!has(self.destination.files) || self.destination.files.uri == oldSelf.destination.files.uri"
        " && self.destination.files.format == oldSelf.destination.files.format)"
        " && (!has(self.destination.kafka) || self.destination.kafka.topic == oldSelf.destination.kafka.topic)"
        " && (!has(self.destination.stream) || self.destination.stream == oldSelf.destination.stream)"
    ),
)
START = (
    at_least_one(at="at", global_position="globalPosition", inserted_at="insertedAt"),
    at_most_one(at="at", global_position="globalPosition", inserted_at="insertedAt"),
)
REPLAY_TRIGGER = exactly_one("interval", "schedule", "manual")
REPLAY = (
    ValidationRule(
        message="select.reasons needs origin DeadLetters: messages have none",
        cel="self.origin == 'DeadLetters' || self.select.reasons.size() == 0",
        holds=lambda spec: spec.origin == "DeadLetters" or len(spec.select.reasons) == 0,
    ),
    ValidationRule(
        message="destination.stream must be another one than streamRef, unless origin is DeadLetters",
        cel=(
            "self.origin == 'DeadLetters' || !has(self.destination.stream)"
            " || self.destination.stream.name != self.streamRef.name"
        ),
        holds=lambda spec: (
            spec.origin == "DeadLetters"
            or spec.destination.stream is None
            or spec.destination.stream.name != spec.stream_ref.name
        ),
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
        message="with start, there is neither select.sequences nor order Sequence: a sequence may come in two rounds",
        cel="!has(self.start) || !has(self.select.sequences) && self.order != 'Sequence'",
        holds=lambda spec: spec.start is None or (spec.select.sequences is None and spec.order != "Sequence"),
    ),
    ValidationRule(
        message="a replay with a trigger never ends: it has neither activeDeadline nor ttlAfterFinished",
        cel="!has(self.trigger) || (!has(self.activeDeadline) && !has(self.ttlAfterFinished))",
        holds=lambda spec: spec.trigger is None or _count_given(spec, ("active_deadline", "ttl_after_finished")) == 0,
    ),
)


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
