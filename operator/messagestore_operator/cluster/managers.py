"""Who wrote a resource, from managedFields: names of clients, not of people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from messagestore_operator.api import GROUP


def managers(managed_fields: Any) -> dict[str, str]:
    """The last writer of ``spec`` and of each of this project's annotations, by name.

    Args:
        managed_fields: metadata.managedFields, unchecked.
    """
    writers: dict[str, str] = {}
    for entry in sorted(_entries(managed_fields), key=lambda entry: str(entry.get("time"))):
        fields, manager = entry.get("fieldsV1"), entry.get("manager")
        if entry.get("subresource") or not isinstance(fields, dict) or not isinstance(manager, str):
            continue
        if "f:spec" in fields:
            writers["spec"] = manager
        writers |= dict.fromkeys(_annotations(fields), manager)
    return writers


def _entries(managed_fields: Any) -> Sequence[dict[str, Any]]:
    entries = managed_fields if isinstance(managed_fields, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _annotations(fields: dict[str, Any]) -> list[str]:
    own = fields.get("f:metadata")
    annotations = own.get("f:annotations") if isinstance(own, dict) else None
    names = annotations if isinstance(annotations, dict) else {}
    return [name.removeprefix("f:") for name in names if name.startswith(f"f:{GROUP}/")]
