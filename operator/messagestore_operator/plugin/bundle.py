"""What of an object may leave the cluster in a report. Pure functions.

Of each kind only what is known to be harmless is taken: no Secrets, no environment, no Spark configuration, no run
documents. What has a secret's name is left out besides, in objects and in logs.
"""

import re
from typing import Any

from messagestore_operator.kube.objects import at
from messagestore_operator.names import GROUP
from messagestore_operator.plugin.kubectl import Document

LEFT_OUT = "[left out]"
_NAMES = r"passw(?:or)?d|secret|token|credential|access[-_.]?key|private[-_.]?key|api[-_.]?key|authorization"
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
_IN_TEXT = (
    re.compile(r"((?:proxy-)?authorization[\"']?[ \t]*[=:][ \t]*).+", re.IGNORECASE),
    # A value behind such a name: in quotes, which a text within another escapes; cut off within them; or without any.
    re.compile(
        rf"((?:{_NAMES})[\w.-]*\\*[\"']?[ \t]*[=:][ \t]*)"
        r"(?:(?P<quote>\\*[\"'])(?s:.*?)(?<!\\)(?P=quote)|\\*[\"'].*|[^\s\"',;]+)",
        re.IGNORECASE,
    ),
    re.compile(r"\b((?:Bearer|Basic)[ \t]+)[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"(://)[^/\s:@]+:[^/\s@]+(?=@)"),
    # Keys of AWS, and tokens that are three parts of base64.
    re.compile(r"()\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"()\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"),
)
_ABOUT = (
    "name",
    "namespace",
    "uid",
    "generation",
    "labels",
    "creationTimestamp",
    "deletionTimestamp",
    "ownerReferences",
)


def scrubbed_text(text: str) -> str:
    """A text without values that have a secret's name or form."""
    for pattern in _IN_TEXT:
        text = pattern.sub(rf"\1{LEFT_OUT}", text)
    return text


def scrubbed(value: Any, name: str = "") -> Any:
    """A value without the texts that have a secret's name or form."""
    if isinstance(value, dict):
        return {key: scrubbed(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [scrubbed(one, name) for one in value]
    if isinstance(value, str):
        return LEFT_OUT if _SECRET_NAME.search(name) else scrubbed_text(value)
    return value


def resource(document: Document) -> Document:
    """One of the three kinds, whole but for other programs' annotations: references to Secrets are names."""
    notes = document["metadata"].get("annotations") or {}
    own = {name: value for name, value in notes.items() if name.startswith(f"{GROUP}/")}
    about = {**_head(document)["metadata"], "annotations": own}
    return {
        "kind": document["kind"],
        "metadata": about,
        **scrubbed({"spec": document.get("spec"), "status": document.get("status")}),
    }


def pod(document: Document) -> Document:
    """A pod without environment, arguments and volumes."""
    spec = document.get("spec") or {}
    containers = [
        {name: one.get(name) for name in ("name", "image", "resources")} for one in spec.get("containers") or []
    ]
    shown = {"nodeName": spec.get("nodeName"), "serviceAccountName": spec.get("serviceAccountName")}
    return {**_head(document), "spec": {**shown, "containers": containers}, "status": scrubbed(document.get("status"))}


def application(document: Document) -> Document:
    """A SparkApplication's state, without its configuration."""
    return {**_head(document), "status": scrubbed(document.get("status"))}


def event(document: Document) -> Document:
    """What an Event says, and of what."""
    names = ("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp", "eventTime", "series")
    of = {name: at(document, "involvedObject", name) for name in ("kind", "namespace", "name")}
    return {"of": of, **{name: scrubbed(document[name]) for name in names if document.get(name) is not None}}


def _head(document: Document) -> Document:
    about = document["metadata"]
    return {"kind": document.get("kind"), "metadata": {name: about[name] for name in _ABOUT if name in about}}
