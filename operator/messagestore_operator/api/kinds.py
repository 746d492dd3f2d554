"""The three kinds together, and the way from a plain document to one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from messagestore_operator.api.messagestream import MessageStream
from messagestore_operator.api.replayjob import ReplayJob
from messagestore_operator.api.resource import Resource
from messagestore_operator.api.retentionpolicy import RetentionPolicy

KINDS: Mapping[str, type[MessageStream | RetentionPolicy | ReplayJob]] = {
    "MessageStream": MessageStream,
    "RetentionPolicy": RetentionPolicy,
    "ReplayJob": ReplayJob,
}


def parse_resource(document: Mapping[str, Any]) -> Resource:
    """Make a resource of a document of one of the kinds, or raise pydantic's ValidationError.

    Unlike `model_validate` it takes no field by its name in Python: the API server knows only those of manifests.
    """
    return KINDS[document["kind"]].model_validate(dict(document), by_alias=True, by_name=False)
