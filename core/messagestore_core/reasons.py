"""Why a record was set aside as a dead letter: the one list."""

from enum import StrEnum


class DeadLetterReason(StrEnum):
    """Constants of column ``dead_letters.reason``; a new one is added here and nowhere else."""

    UNPARSEABLE = "Unparseable"
    MISSING_FIELD = "MissingField"
    INVALID_FIELD = "InvalidField"
    INVALID_STREAM_NAME = "InvalidStreamName"
    PAYLOAD_TOO_LARGE = "PayloadTooLarge"
    RECORD_TOO_LARGE = "RecordTooLarge"
    """Of which only the start is kept."""
    EXPIRED_ON_ARRIVAL = "ExpiredOnArrival"
    WRONG_EXPECTED_VERSION = "WrongExpectedVersion"
    UNKNOWN_MESSAGE = "UnknownMessage"
    FILTER_ERROR = "FilterError"
    UNSELECTED = "Unselected"
    RETRIES_EXHAUSTED = "RetriesExhausted"
