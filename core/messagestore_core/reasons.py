"""Reasons with their meaning: the kind of constant, and all for which a record becomes a dead letter."""

from enum import StrEnum
from typing import Self


class ExplainedReason(StrEnum):
    """A constant with meaning and remedy in Markdown, with links relative to docs/. docs/reasons.md is made of them."""

    meaning: str
    remedy: str

    def __new__(cls, value: str, meaning: str, remedy: str = "Nothing.") -> Self:
        """A text with a meaning and a remedy."""
        reason = str.__new__(cls, value)
        reason._value_, reason.meaning, reason.remedy = value, meaning, remedy
        return reason


class DeadLetterReason(ExplainedReason):
    """Constants of column ``dead_letters.reason``; a new one is added here and nowhere else."""

    UNPARSEABLE = (
        "Unparseable",
        "The record is not UTF-8, or not one JSON object by RFC 8259 with nothing after it. Or it has a key twice, at "
        "any depth, or a NUL byte, is nested deeper than 1000, or has more than 100,000 keys in objects within one "
        "another. Or a compressed file is cut short, an array or document has no end, or a record of Kafka has no "
        "value.",
        "Correct the sender, or the source's `format`.",
    )
    MISSING_FIELD = (
        "MissingField",
        "`messageId`, the stream's name or a field under `envelope.required` is absent or null; of a CloudEvent "
        "`specversion`, `id`, `source` or `type`. Or a document has none of the arrays of `recordsPaths`, or a "
        "record nothing where `envelope.unwrap` looks.",
        "Correct the sender, or `envelope`.",
    )
    INVALID_FIELD = (
        "InvalidField",
        "A field is not of its type or form: an id that is empty, an object, or longer than 1024 bytes; a time that "
        "is no RFC 3339 time of the years 1 to 9999, or with `unit` no number for one; a `ttl` that is no ISO 8601 "
        "duration in weeks or smaller; half a surrogate pair. Of a CloudEvent: a `specversion` other than 1.0; an "
        "empty attribute of the standard; an attribute that is no string, boolean or whole number of 32 bits, or has "
        "control characters; `id` and `source` longer than 1024 bytes together; an attribute's name that is `data` or "
        "not of small letters and digits alone. "
        "Where `envelope.unknownFields` is Refuse: a field that no Native record has.",
        "Correct the sender, or `envelope`.",
    )
    INVALID_STREAM_NAME = (
        "InvalidStreamName",
        "The stream's name has an empty category, or one that holds `-`.",
        "Correct the sender, or `envelope`.",
    )
    PAYLOAD_TOO_LARGE = (
        "PayloadTooLarge",
        "The payload is larger than `payload.maxSize`.",
        "Send less, or raise `payload.maxSize`.",
    )
    RECORD_TOO_LARGE = (
        "RecordTooLarge",
        "The whole record is larger than [a run takes in](bad-input.md#bounds). Only its start is kept.",
        "Send less, or give driver and executors more memory and send it again.",
    )
    EXPIRED_ON_ARRIVAL = (
        "ExpiredOnArrival",
        "The message had expired before it was read, and `expiration.onArrivalExpired` is DeadLetter.",
        "Send sooner, or set `expiration.onArrivalExpired` otherwise.",
    )
    WRONG_EXPECTED_VERSION = (
        "WrongExpectedVersion",
        "The record expects another version of its stream than there was when it came. The detail has both.",
        "Let its writer read the stream and decide again: see [expected-version.md](expected-version.md).",
    )
    UNKNOWN_MESSAGE = (
        "UnknownMessage",
        "The message of a status update had not come a day later.",
        "Find out whether the sender means another store, or why the message is missing.",
    )
    FILTER_ERROR = (
        "FilterError",
        "`filter.where` can't be computed for the record.",
        "Write the filter so that it holds for every record.",
    )
    UNSELECTED = (
        "Unselected",
        "The filter passes over the record, and `filter.unmatched` is DeadLetter.",
        "Nothing, if this is intended. Else widen the filter.",
    )
    RETRIES_EXHAUSTED = (
        "RetriesExhausted",
        "A message failed and has no retry left, and `spec.retry.policy` is DeadLetter. It is in the store too.",
        "See [lifecycle.md](lifecycle.md).",
    )
