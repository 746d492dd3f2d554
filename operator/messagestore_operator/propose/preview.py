"""How sampled records would be stored."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from messagestore_core.envelope import FIELDS
from messagestore_operator.propose.mapping import Choice, Mapped, time_of
from messagestore_operator.propose.paths import unwrapped, value_at
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


def set_aside(shape: Shape, mapped: Mapped, messages: Sequence[Preview]) -> list[str]:
    """What of the sample would not be stored, in words; ``found`` are its previews."""
    ids = Counter(message.message_id for message in messages if message.message_id != _PLACE)
    total = len(shape.records) + shape.damaged
    counts = {
        "would be dead letters, Unparseable: they are no JSON objects": shape.damaged,
        f"would be dead letters: {_absent(mapped)} is absent": len(shape.records) - len(messages),
        "would be counted as duplicates: another has their id": ids.total() - len(ids),
    }
    return [f"{count} of {total} sampled {what}" for what, count in counts.items() if count]


def _absent(mapped: Mapped) -> str:
    return "a required field, or the record within," if mapped.unwrap else "a required field"


def _preview(shape: Shape, mapped: Mapped, record: Any) -> Preview | None:
    chain = unwrapped(record, mapped.unwrap)
    if chain is None:
        return None
    if mapped.format == "Native":
        return _of_values({field: value_at(chain[-1], path) for field, path in _NATIVE.items()})
    if mapped.format == "CloudEvents":
        return _of_event(chain[-1])
    values = {one.field: value for one in mapped.choices if (value := _value(one, chain)) is not None}
    unit = next((str(one.source["unit"]) for one in mapped.choices if "unit" in one.source), None)
    if shape.format == "Text":
        return Preview(_PLACE, values["category"], None, None, str(record).encode())
    return _of_values(values, unit)


def _value(choice: Choice, chain: Sequence[Any]) -> Any:
    if "file" in choice.source:
        return _PLACE
    if "value" in choice.source:
        return choice.source["value"]
    record, path = chain[-1 - choice.outward], str(choice.source["path"])
    return record if path == "$" else value_at(record, path)


def _of_values(values: Mapping[str, Any], unit: str | None = None) -> Preview | None:
    message_id, stream_name = values.get("messageId"), values.get("streamName")
    if stream_name is None and values.get("category") is not None:
        stream_name = _joined(values["category"], values.get("streamId"))
    if message_id is None or stream_name is None:
        return None
    time = values.get("time")
    return Preview(
        str(message_id),
        str(stream_name),
        None if values.get("type") is None else str(values["type"]),
        None if time is None else time_of(time, unit),
        json.dumps(values.get("payload"), ensure_ascii=False, separators=(",", ":")).encode(errors="replace"),
    )


def _of_event(record: Any) -> Preview | None:
    if any(record.get(name) is None for name in ("id", "source", "type", "specversion")):
        return None
    stream_name = record.get("streamname") or _joined(str(record["source"]).replace("-", "_"), record.get("subject"))
    fields = {"messageId": f"{record['source']}#{record['id']}", "streamName": stream_name, "type": record["type"]}
    return _of_values({**fields, "time": record.get("time"), "payload": record.get("data")})


def _joined(category: str, stream_id: Any) -> str:
    return category if stream_id is None else f"{category}-{stream_id}"
