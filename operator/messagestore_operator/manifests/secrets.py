"""Secrets in the manifests, which a local run uses."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from messagestore_operator.manifests.problem import Path


@dataclass(frozen=True)
class Secret:
    """A Kubernetes Secret; its ``repr`` hides its values."""

    namespace: str
    name: str
    data: Mapping[str, bytes] = field(repr=False)


def secret_problems(document: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The problems of a document that should be a Secret."""
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        yield ("metadata", "name"), "is required"
    for part in ("data", "stringData"):
        values = document.get(part) or {}
        if not isinstance(values, Mapping):
            yield (part,), "must be a mapping"
            continue
        for key, value in values.items():
            if not isinstance(value, str):
                yield (part, key), "must be a string"
            elif part == "data" and _decoded(value) is None:
                yield (part, key), "must be in base64; stringData takes plain text"


def secret_of(document: Mapping[str, Any]) -> Secret:
    """Make a Secret from a valid document; as in Kubernetes, stringData overrides data."""
    metadata = document["metadata"]
    data = {key: _decoded(value) or b"" for key, value in (document.get("data") or {}).items()}
    plain = {key: value.encode() for key, value in (document.get("stringData") or {}).items()}
    return Secret(str(metadata.get("namespace") or "default"), metadata["name"], {**data, **plain})


def _decoded(value: str) -> bytes | None:
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
