"""API objects as plain JSON, and safe ways to read their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

ApiObject: TypeAlias = Mapping[str, Any]


def metadata(document: ApiObject) -> Mapping[str, Any]:
    """The object's metadata; empty if there is none."""
    about = document.get("metadata")
    return about if isinstance(about, Mapping) else {}


def name_of(document: ApiObject) -> str:
    """The object's name."""
    return str(metadata(document).get("name", ""))


def namespace_of(document: ApiObject) -> str:
    """The object's namespace; empty if it has none."""
    return str(metadata(document).get("namespace") or "")


def labels_of(document: ApiObject) -> Mapping[str, str]:
    """The object's labels."""
    return metadata(document).get("labels") or {}


def at(document: Any, *path: str | int) -> Any:
    """The value at a path of keys and list indexes; None if a part of the path is missing."""
    for key in path:
        if isinstance(document, Mapping):
            document = document.get(key)
        elif isinstance(document, list) and isinstance(key, int) and -len(document) <= key < len(document):
            document = document[key]
        else:
            return None
    return document
