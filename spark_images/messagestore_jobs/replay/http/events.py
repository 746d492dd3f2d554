"""Staged records as requests: a CloudEvent in HTTP's structured or binary mode; and as what is set aside of them."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote

from messagestore_jobs.replay.envelopes import CONTENT_TYPE, PREFIX

_STRUCTURED = "application/cloudevents"
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_UNQUOTED = _PRINTABLE.replace('"', "").replace("%", "")
_ATTRIBUTE = re.compile(rf"{PREFIX}[a-z0-9]+")
"""The header of an event's attribute; a message's own may differ from it in the case of letters alone."""
_MEMBER = re.compile(rb'"([a-z0-9]+)":"(?:[^"\\]|\\.)*+"')


@dataclass(frozen=True)
class Event:
    """One message as it is sent: its place in the store, its stream, the fields and the body of its request."""

    global_position: int
    stream: str
    headers: dict[str, str]
    body: bytes

    def set_aside(self, status: int, url: str) -> bytes:
        """The event in JSON format, with the refusal as Knative's attributes."""
        refusal = {"knativeerrordest": url, "knativeerrorcode": str(status)}
        if not self._is_structured:
            return json.dumps(dict(_attributes(self)) | refusal).encode() + b"\n"
        return _with_attributes(self.body, refusal) + b"\n"

    @property
    def _is_structured(self) -> bool:
        return self.headers.get(CONTENT_TYPE, "").startswith(_STRUCTURED)


def _with_attributes(event: bytes, attributes: dict[str, str]) -> bytes:
    """An event of ``with_event`` on one line, with other attributes; its data stays as it is written."""
    members = [f"{json.dumps(name)}:{json.dumps(value)}".encode() for name, value in attributes.items()]
    at = 1
    while member := _MEMBER.match(event, at):
        if member[1].decode() not in attributes:
            members.append(member[0])
        at = member.end() + (event[member.end() : member.end() + 1] == b",")
    if data := event[at:-1]:
        # Between the tokens of JSON, line breaks mean nothing.
        members.append(data.replace(b"\n", b" ").replace(b"\r", b" "))
    return b"{" + b",".join(members) + b"}"


def event_of(line: bytes) -> Event:
    """The event of a staged line, by the attributes that it has as a topic's record.

    A message's own headers that are no attributes are left out: they must not change what a request is.
    """
    record = json.loads(line)
    headers = {}
    for header in record["headers"]:
        name, value = header["name"], base64.b64decode(header["value"]).decode()
        if name == CONTENT_TYPE:
            # A request's fields are ASCII.
            headers[name] = quote(value, safe=f" {_PRINTABLE}")
        elif _ATTRIBUTE.fullmatch(name):
            # By the HTTP binding of CloudEvents 1.0, section 3.1.3.2.
            headers[f"ce-{name.removeprefix(PREFIX)}"] = quote(value, safe=_UNQUOTED)
    body = base64.b64decode(record.get("value") or "")
    return Event(record["globalPosition"], base64.b64decode(record.get("key") or "").decode(), headers, body)


def _attributes(event: Event) -> Iterator[tuple[str, str]]:
    for name, value in event.headers.items():
        yield ("datacontenttype", value) if name == CONTENT_TYPE else (name.removeprefix("ce-"), unquote(value))
    if event.body:
        yield "data_base64", base64.b64encode(event.body).decode()
