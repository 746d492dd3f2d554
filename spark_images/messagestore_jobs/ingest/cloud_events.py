"""CloudEvents 1.0: where an event has a message's fields, and what the standard requires.

Source and id together identify an event, so the message's id has both.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.bounds import LONGEST_TEXT
from messagestore_jobs.source.columns import with_headers

PATHS = {
    "messageId": "$.id",
    "streamName": "$.streamname",
    "category": "$.source",
    "streamId": "$.subject",
    "type": "$.type",
    "correlationId": "$.correlationid",
    "causationId": "$.causationid",
    "time": "$.time",
    "expiresAt": "$.expirytime",
    "contentType": "$.datacontenttype",
    "payload": "$.data",
    "payloadBase64": "$.data_base64",
}
"""For the JSON format, with extensions that the CloudEvents community documents. Other attributes become headers. The
stream's name is the event's source (each "-" as "_") and its subject."""

_VERSION = "1.0"
_LONGEST_SHOWN = 100
_UNKNOWN_BYTES = "application/octet-stream"
_OF_DATA = "data"
UNPRINTABLE = (
    r"[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef"
    + "".join(rf"\x{{{plane + 0xFFFE:x}}}\x{{{plane + 0xFFFF:x}}}" for plane in range(0, 0x110000, 0x10000))
    + "]"
)
"""Control characters and Unicode's noncharacters, which no String has (section "Type System")."""
REQUIRED = {"specversion": "specversion", "eventId": "id", "source": "source", "type": "type"}
"""Required fields, and their attributes in an event."""
_OPTIONAL = {"streamId": "subject", "contentType": "datacontenttype", "dataschema": "dataschema"}
"""Optional fields that must not be empty if they are there (section "OPTIONAL Attributes"); no time is empty."""
CHECKED = (*REQUIRED, *_OPTIONAL, "messageId", "misnamed", "unprintable")
"""The columns that ``problems`` needs."""


def event_columns(columns: dict[str, Column]) -> dict[str, Column]:
    """The columns of an event, from those of its envelope.

    There messageId is the event's id, category its source, and headers all attributes without a column.
    """
    event_id, source, headers = columns["messageId"], columns["category"], columns["headers"]
    names = F.map_keys(headers)
    texts = [columns[name] for name in PATHS if name not in ("payload", "payloadBase64")]
    return columns | {
        "eventId": event_id,
        "source": source,
        "specversion": headers.getItem("specversion"),
        "dataschema": headers.getItem("dataschema"),
        "misnamed": F.get(F.filter(names, lambda name: ~name.rlike(r"^[a-z0-9]+\z") | (name == _OF_DATA)), F.lit(0)),
        "unprintable": F.when(F.concat_ws("", *texts, F.map_values(headers)).rlike(UNPRINTABLE), F.lit("yes")),
        "contentType": _content_type(columns["contentType"]),
        "messageId": message_id(source, event_id),
        "category": F.translate(source, "-", "_"),
        "headers": with_headers(headers, {"source": source, "subject": columns["streamId"]}),
    }


def _content_type(content_type: Column) -> Column:
    """Bytes in base64 whose type is not told are not taken as JSON (JSON format, section 3.1.2)."""
    in_base64 = F.col("envelope.payloadBase64").isNotNull()
    return F.when(in_base64, F.coalesce(content_type, F.lit(_UNKNOWN_BYTES))).otherwise(content_type)


def message_id(source: Column, event_id: Column) -> Column:
    """``source#id``, with each # of the id as %23 and each % as %25, so that the id is after the last #."""
    escaped = F.replace(F.replace(event_id, F.lit("%"), F.lit("%25")), F.lit("#"), F.lit("%23"))
    return F.concat(source, F.lit("#"), escaped)


def problems(wire: dict[str, Column]) -> list[tuple[Column, Column]]:
    """All rules of the standard: the condition of a violation, over ``event_columns``, and its text."""
    empty = [(wire[name] == "", F.lit(f"{shown} is empty")) for name, shown in (REQUIRED | _OPTIONAL).items()]
    version, misnamed = wire["specversion"], wire["misnamed"]
    size = F.octet_length(wire["messageId"])
    return [
        *empty,
        (version != _VERSION, F.concat(F.lit("specversion is "), _shown(version), F.lit(f", {_VERSION} is read"))),
        (misnamed == _OF_DATA, F.lit(f"attribute '{_OF_DATA}' has the name of an event's data")),
        (misnamed.isNotNull(), F.concat(F.lit("attribute '"), _shown(misnamed), F.lit(_NAMES))),
        (wire["unprintable"].isNotNull(), F.lit("an attribute has a control character, or one that Unicode reserves")),
        (
            size > LONGEST_TEXT,
            F.format_string(f"source and id make an id of %d bytes, at most {LONGEST_TEXT} are allowed", size),
        ),
    ]


_NAMES = "' has a name that is not of small letters a to z and digits alone"


def _shown(text: Column) -> Column:
    return F.substring(text, 1, _LONGEST_SHOWN)
