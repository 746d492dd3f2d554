"""CloudEvents as their own makers read them: by the specification's JSON schema, and by its SDK for Python."""

import json
from pathlib import Path
from typing import Any

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary, from_structured
from cloudevents.core.formats.json import JSONFormat
from jsonschema import Draft7Validator, FormatChecker

from support.kafkatopics import Record

SCHEMA = Path(__file__).parent / "cloudevents-1.0.2.schema.json"
"""``cloudevents/formats/cloudevents.json`` of github.com/cloudevents/spec, tag ce@v1.0.2 (Apache License 2.0)."""
_VALIDATOR = Draft7Validator(json.loads(SCHEMA.read_text()), format_checker=FormatChecker())

Event = tuple[dict[str, Any], Any]
"""An event's attributes, times as datetime, and its data."""


def read_event(text: bytes) -> Event:
    """An event in JSON format; fails if it breaks the schema or the SDK's rules."""
    _VALIDATOR.validate(json.loads(text))
    return _parts(JSONFormat().read(None, text))


def read_record(record: Record) -> Event:
    """An event of a topic, in the mode that its headers tell."""
    said = record.headers.get("content-type", b"")
    message = KafkaMessage({name: text or b"" for name, text in record.headers.items()}, None, record.value or b"")
    if said.startswith(b"application/cloudevents"):
        _VALIDATOR.validate(json.loads(record.value or b""))
        return _parts(from_structured(message, JSONFormat()))
    return _parts(from_binary(message, JSONFormat()))


def _parts(event: BaseCloudEvent) -> Event:
    return dict(event.get_attributes()), event.get_data()
