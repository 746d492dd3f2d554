"""How sampled records would be stored."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from messagestore_core.envelope import FIELDS
from messagestore_operator.propose.mapping import Mapped, time_of, value_at
from messagestore_operator.propose.shapes import Shape

_NATIVE = {field.name: f"$.{field.name}" for field in FIELDS}
_PLACE = "(its place)"


class Preview(NamedTuple):
    """A message that a record would become."""

    message_id: str
    stream_name: str
    type: str | None
    time: datetime | None
    payload: bytes


def previews(shape: Shape, mapped: Mapped) -> Iterator[Preview]:
    """The messages of the sampled records, without those that would be set aside."""
    for record in shape.records:
        message = _preview(shape, mapped, record)
        if message is not None:
            yield message


def set_aside(shape: Shape, found: Sequence[Preview]) -> list[str]:
    """What of the sample would not be stored, in words; ``found`` are its previews."""
    ids = Counter(message.message_id for message in found if message.message_id != _PLACE)
    total = len(shape.records) + shape.damaged
    counts = {
        "would be dead letters, Unparseable: they are no JSON objects": shape.damaged,
        "would be dead letters, MissingField: a required field is absent": len(shape.records) - len(found),
        "would be counted as duplicates: another has their id": ids.total() - len(ids),
    }
    return [f"{count} of {total} sampled {what}" for what, count in counts.items() if count]


def _preview(shape: Shape, mapped: Mapped, record: Any) -> Preview | None:
    if mapped.format == "Native":
        return _of_paths(record, _NATIVE, {})
    if mapped.format == "CloudEvents":
        return _of_event(record)
    paths = {one.field: one.source["path"] for one in mapped.choices if "path" in one.source}
    constants = {one.field: one.source["value"] for one in mapped.choices if "value" in one.source}
    constants |= {one.field: _PLACE for one in mapped.choices if "file" in one.source}
    unit = next((one.source.get("unit") for one in mapped.choices if one.field == "time"), None)
    if shape.format == "Text":
        return Preview(_PLACE, constants["category"], None, None, str(record).encode())
    return _of_paths(record, paths, constants, unit)


def _of_paths(record: Any, paths: dict[str, str], constants: dict[str, str], unit: str | None = None) -> Preview | None:
    values = {field: value_at(record, path) for field, path in paths.items()} | constants
    message_id, stream_name = values.get("messageId"), values.get("streamName")
    if stream_name is None and values.get("category") is not None:
        stream_name = _joined(values["category"], values.get("streamId"))
    if message_id is None or stream_name is None:
        return None
    time = values.get("time")
    payload = record if paths.get("payload") == "$" else values.get("payload")
    return Preview(
        str(message_id),
        str(stream_name),
        None if values.get("type") is None else str(values["type"]),
        None if time is None else time_of(time, unit),
        json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode(),
    )


def _of_event(record: Any) -> Preview | None:
    if any(record.get(name) is None for name in ("id", "source", "type", "specversion")):
        return None
    stream_name = record.get("streamname") or _joined(str(record["source"]).replace("-", "_"), record.get("subject"))
    found = {"messageId": f"{record['source']}#{record['id']}", "streamName": stream_name, "type": record["type"]}
    return _of_paths(record, {"time": "$.time", "payload": "$.data"}, found)


def _joined(category: str, stream_id: Any) -> str:
    return category if stream_id is None else f"{category}-{stream_id}"
