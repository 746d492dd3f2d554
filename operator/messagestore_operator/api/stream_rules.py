"""Validation rules of a MessageStream: its sources, its envelope and its lifecycle."""

from collections.abc import Mapping
from typing import Any

from messagestore_operator.api.rules import ValidationRule, at_least_one, at_most_one, count_given, exactly_one

SOURCE = exactly_one("files", "kafka")
FILES_SOURCE = (
    at_most_one("maxFilesPerBatch", "maxBytesPerBatch"),
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
DEDUPLICATION = at_least_one("window", "rememberPurged")
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
            or count_given(mapping, ("path", "header", "partition")) > 0
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


def _reads_text(reader: Any) -> bool:
    files = reader.source.files
    return files is not None and files.format == "Text"
