"""Messages and dead letters as documents for people: times and payloads are text."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from messagestore.native import head
from messagestore_core.clock import rfc3339

if TYPE_CHECKING:
    from messagestore.dead_letters import DeadLetter
    from messagestore.message import Message


def message_document(message: Message) -> dict[str, Any]:
    """A message with its JSON documents as text, as other formats would write their numbers differently."""
    documents = {"metadata": message.metadata, "payload": message.payload, "result": message.result}
    document = head(message)
    for name, value in documents.items():
        document |= {} if value is None else text_of(name, value)
    return document


def dead_letter_document(dead_letter: DeadLetter) -> dict[str, Any]:
    """A dead letter, with its bytes as text."""
    return {
        "reason": dead_letter.reason,
        "detail": dead_letter.detail,
        "failedAt": rfc3339(dead_letter.failed_at),
        "source": dict(dead_letter.source),
        "messageId": dead_letter.message_id,
        "streamName": dead_letter.stream_name,
        "correlationId": dead_letter.correlation_id,
        "redrivenAt": dead_letter.redriven_at and rfc3339(dead_letter.redriven_at),
        "redrivenBy": dead_letter.redriven_by,
        "tries": dead_letter.tries,
        "earlier": [
            {"reason": one["reason"], "detail": one["detail"], "failedAt": rfc3339(one["failed_at"])}
            for one in dead_letter.earlier
        ],
        **({} if dead_letter.raw is None else text_of("raw", dead_letter.raw)),
    }


def text_of(name: str, content: str | bytes) -> dict[str, str]:
    """Bytes as text if they are UTF-8, else as base64 under another name."""
    if isinstance(content, str):
        return {name: content}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}Base64": base64.b64encode(content).decode()}
